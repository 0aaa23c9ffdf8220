"""What the `index.json` of a folder says of its shards."""

import json
from pathlib import Path
from typing import Any


def read_summary(file: Path) -> dict[str, str]:
    """Checksum (`""` where it has none) of each shard by name, in order, out of an `index.json`.

    Raises:
        ValueError: It is not one of ours.
    """
    return {name: shard.get("sha256", "") for name, shard in parse_summary(file.read_bytes(), str(file)).items()}


def parse_summary(content: bytes, where: str) -> dict[str, dict[str, Any]]:
    """What an `index.json` says of each shard, by name, in order.

    Args:
        content: Of the file.
        where: Its place, for the message.

    Raises:
        ValueError: It is not one of ours.
    """
    try:
        return {str(shard["name"]): dict(shard) for shard in json.loads(content)["shards"]}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{where}: not an index of shards; remove it, or write the folder anew") from None
