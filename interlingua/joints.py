"""Where data and model meet, once both are built: what would be wrong only after hours, or silently, is refused at start."""

from typing import Any

from .configuration import ConfigurationError, suggest


def check_joints(command: str, model: Any, datamodule: Any) -> None:
    """Refuse sources that no pass reads, and passes whose source is not there.

    Args:
        command: `fit`, `validate`, `test` or `predict`.
        model: A built LightningModule; only its `plan` is looked at, where it has one.
        datamodule: A built LightningDataModule, or None; only its `sources` and `validation` are looked at.

    Raises:
        ConfigurationError: Names both sides.
    """
    if command in ("fit", "validate") and hasattr(model, "plan") and hasattr(datamodule, "validation"):
        _check_sources(command, {one.source for one in model.plan}, datamodule)


def _check_sources(command: str, read: set[str], datamodule: Any) -> None:
    there = {"data.validation": datamodule.validation} | ({"data.sources": datamodule.sources} if command == "fit" else {})
    for address, sources in there.items():
        for name in sources:
            if name not in read:
                raise ConfigurationError(
                    f"{address}.{name}: no pass of model.passes reads it (they read {', '.join(sorted(read)) or 'nothing'})"
                    f"{suggest(name, read)}; add one, or remove the source"
                )
    for name in sorted(read) if command == "fit" else ():
        if name not in datamodule.sources:
            raise ConfigurationError(
                f"model.passes.{name}: data.sources has no {name!r} (it has {', '.join(datamodule.sources) or 'nothing'})"
                f"{suggest(name, datamodule.sources)}; what the pass trains would never be trained"
            )
