"""What a finished run of training says last: where everything is, and what to do with it."""

from pathlib import Path
from typing import Any

LABELLED = "interlingua.datamodules.labelled.data.Labelled"


def tell_end(step: int, last: Path | None, root: str, logs: str | None, model: Any, data: dict[str, Any] | None) -> list[str]:
    """The lines.

    Args:
        step: Optimiser steps so far.
        last: Checkpoint of the end, where training is saved.
        root: Folder of the run.
        logs: Folder of its logs, where there are any.
        model: What was trained; its `encoder` is looked at, where it has one.
        data: Node of the data.
    """
    kept = "no checkpoint"
    if last is not None:
        kept = f"checkpoint {last}" if last.exists() else f"checkpoints in {last.parent}"
    lines = [f"{step} steps are trained; {kept}; {f'logs in {logs}' if logs else 'no logs'}"]
    following = None if last is None or not last.exists() else find_next(last, root, model, data or {})
    return [*lines, *([f"next: {following}"] if following else [])]


def find_next(last: Path, root: str, model: Any, data: dict[str, Any]) -> str | None:
    """The command that measures what was trained; None where there is none that fits for sure."""
    arguments = data.get("init_args") or {}
    widths = set(getattr(getattr(model, "encoder", None), "widths", None) or ()) - {"translation"}
    if data.get("class_path") == LABELLED:
        return f"interlingua transfer {root} --output {root}"
    if widths == {"text"}:
        name = "sentences"
    elif widths == {"text", "image"} and getattr(model.encoder, "vector_width", None):
        name = "retrieval"
    else:
        return None
    tokenizer = f" --data.tokenizer {arguments['tokenizer']}" if arguments.get("tokenizer") else ""
    return (
        f"interlingua test --config configs/evaluate/{name}.yaml --model.checkpoint {last} --model.output {root}{tokenizer} "
        "--data.sources '{NAME: SHARDS}'"
    )
