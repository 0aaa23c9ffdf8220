"""Checkpoints of others, as files: Hugging Face's folders, fairseq's `.pt`, XLM's `.pth`. Nothing but tensors and plain
values is unpickled."""

import argparse
import hashlib
import json
import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

INDEX = ".index.json"
NAMES = ("model.safetensors", f"model.safetensors{INDEX}", "pytorch_model.bin", f"pytorch_model.bin{INDEX}")
"""Weights of a Hugging Face folder; the first that is there is read."""
TENSORS_ONLY = "only tensors and plain values are read, since other objects could run code"


@dataclass(frozen=True)
class Foreign:
    """What files of others hold.

    Args:
        weights: As they are named there.
        facts: What is said about the model: `config.json`, fairseq's arguments or XLM's parameters, under their keys.
        facts_from: Where that was found; None: nowhere.
        sources: Checksums (SHA-256) of the files by name.
        folder: Where a tokenizer's files may lie; None: nowhere.
    """

    weights: dict[str, Tensor]
    facts: dict[str, Any]
    facts_from: str | None
    sources: dict[str, str]
    folder: Path | None = None


def read_foreign(path: str | Path) -> Foreign:
    """Read a folder or a file, whatever its format.

    Args:
        path: A folder with `config.json` and weights, or one file of weights; a `config.json` beside it is read too.

    Raises:
        FileNotFoundError: There is no such path, or a shard that an index names is missing.
        ValueError: The folder holds no weights, or a file holds something else, or is cut short.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; give a folder of Hugging Face's, or a file of weights")
    first = _find(path) if path.is_dir() else path
    files = _shards(first) if first.name.endswith(INDEX) else [first]
    weights: dict[str, Tensor] = {}
    facts, facts_from = read_facts(first.parent / "config.json")
    for file in files:
        found, own = _read(file)
        weights |= found
        if own:
            facts, facts_from = own, str(file)
    described = [first.parent / "config.json"] if facts_from is not None and facts_from.endswith("config.json") else []
    return Foreign(weights, facts, facts_from, {file.name: checksum(file) for file in [*described, *files]}, first.parent)


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def _find(folder: Path) -> Path:
    for name in NAMES:
        if (folder / name).is_file():
            return folder / name
    there = sorted(file.name for file in folder.iterdir())
    raise ValueError(f"{folder} holds no weights; expected {', '.join(NAMES)}, found {', '.join(there[:8]) or 'nothing'}")


def _shards(index: Path) -> list[Path]:
    told, _ = read_facts(index)
    named = told.get("weight_map")
    if not isinstance(named, dict) or not named or not all(isinstance(name, str) for name in named.values()):
        raise ValueError(f"{index}: weight_map is {named!r:.60}, expected files by weight; copy the folder anew")
    files = [index.parent / name for name in sorted(set(named.values()))]
    lost = [file.name for file in files if not file.is_file()]
    if lost:
        raise FileNotFoundError(f"{index} names {', '.join(lost)}, which {index.parent} does not hold; copy the whole folder")
    return files


def read_facts(file: Path) -> tuple[dict[str, Any], str | None]:
    """A JSON object and the file's name; nothing and None where there is no file.

    Raises:
        ValueError: It is no JSON object.
    """
    if not file.is_file():
        return {}, None
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:  # bytes that are no text are one too
        raise ValueError(f"{file}: not JSON: {error}") from None
    if not isinstance(facts, dict):
        raise ValueError(f"{file}: holds a {type(facts).__name__}, expected an object of keys and values")
    return facts, str(file)


def _read(file: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Weights of one file, and what it says about the model."""
    with open(file, "rb") as opened:
        is_safetensors = opened.read(9)[8:] == b"{"
    stored = _read_safetensors(file) if is_safetensors else _read_pickle(file)
    if not isinstance(stored, Mapping):
        raise ValueError(f"{file}: holds a {type(stored).__name__}, expected weights by name")
    facts = stored.get("args") or stored.get("params") or {}
    facts = dict(vars(facts)) if isinstance(facts, argparse.Namespace) else facts
    for key in ("model", "state_dict"):
        if isinstance(stored.get(key), Mapping):
            stored = stored[key]
    weights = {str(name): weight for name, weight in stored.items() if isinstance(weight, Tensor)}
    return weights, dict(facts) if isinstance(facts, Mapping) else {}


def _read_safetensors(file: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(file)
    except SafetensorError as error:
        raise ValueError(f"{file}: not safetensors, or cut short ({os.path.getsize(file):,} bytes): {error}") from None


def _read_pickle(file: Path) -> Any:
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = next((line.strip() for line in str(error).splitlines() if "Unsupported" in line or "GLOBAL" in line), "")
        raise ValueError(
            f"{file}: holds other objects than tensors and plain values, and {TENSORS_ONLY} ({reason}); "
            "save its weights anew where you trust it: torch.save({'model': weights, 'args': vars(args)}, FILE)"
        ) from None
    except OSError:
        raise
    except Exception as error:  # an unpickler that is given something else (a text) fails in any way
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{file}: no file of weights, or cut short ({os.path.getsize(file):,} bytes): {reason}") from None
