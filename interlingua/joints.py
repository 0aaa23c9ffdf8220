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
    if command == "validate" and not getattr(datamodule, "validation", True):
        raise ConfigurationError(
            "data.validation: nothing sets it, so that `interlingua validate` has nothing to read; name a held-out source for "
            f"what the passes read ({', '.join(sorted({one.source for one in getattr(model, 'plan', ())})) or 'nothing'}), as "
            "data.sources does for training"
        )
    if command in ("fit", "validate") and hasattr(model, "plan") and hasattr(datamodule, "validation"):
        _check_sources(command, {one.source for one in model.plan}, datamodule)
        _check_rows(model, datamodule)


def _check_rows(model: Any, datamodule: Any) -> None:
    """Objectives that compare or score rows as a whole need rows of one item, and a number of them that is chosen."""
    for one in model.plan:
        source = datamodule.sources.get(one.source)
        for name in one.names if source is not None else ():
            objective, address = model.objectives[name], f"data.sources.{one.source}"
            if objective.one_item_a_row and source.pack:
                raise ConfigurationError(
                    f"{address}.pack: objective {name!r} scores one item a row, but packed rows hold several; leave pack "
                    "out, or give the objective a source of its own"
                )
            if objective.single and getattr(source, "translation", None) is not None:
                raise ConfigurationError(
                    f"{address}.translation: objective {name!r} reads texts alone, and makes up what stands beside them; leave "
                    "translation out, or give the objective a source of its own (`text: {}`)"
                )
            if objective.coupled and (source.batch_size, source.batch_tokens, source.micro_batch_tokens) == (None, None, None):
                raise ConfigurationError(
                    f"{address}.batch_size: nothing sets it; objective {name!r} compares the rows of a step with each "
                    "other, so that their number should not vary (give batch_tokens instead if it may)"
                )


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
