"""Passes: which objectives read a source, and which of them share one reading."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .objectives.objective import Objective


class Pass(NamedTuple):
    """One reading of one source's micro-batches."""

    source: str
    names: tuple[str, ...]


def plan_passes(passes: Mapping[str, Sequence[Sequence[str]]], objectives: Mapping[str, Objective]) -> list[Pass]:
    """Check the configured passes and put them in an order that is the same on every rank.

    Args:
        passes: For each source, groups of objective names; a group shares one reading:
            `{captions: [[itm, mlm]], parallel: [[tlm], [xlco]]}`.
        objectives: All objectives by name.

    Raises:
        ValueError: An unknown objective, one that no pass names, or objectives in one pass that cannot share a reading.
    """
    plan = [Pass(source, tuple(names)) for source, groups in passes.items() for names in groups]
    for source, names in plan:
        unknown = [name for name in names if name not in objectives]
        if unknown or not names:
            raise ValueError(
                f"passes.{source} names {list(names)}, but the objectives are {sorted(objectives)}; "
                "each group of a source's passes is a list of objective names"
            )
        if len(names) != len(set(names)):
            raise ValueError(f"passes.{source} names an objective twice in one group: {list(names)}")
        _check_sharing(source, names, objectives)
    idle = sorted(set(objectives) - {name for one in plan for name in one.names})
    if idle:
        raise ValueError(f"no pass names the objectives {idle}; add them to `passes` or remove them")
    return plan


def _check_sharing(source: str, names: Sequence[str], objectives: Mapping[str, Objective]) -> None:
    if len(names) < 2:
        return
    for name in names:
        if type(objectives[name]).read is not Objective.read:
            raise ValueError(
                f"passes.{source}: {name} reads in a way of its own and needs a group for itself, found {list(names)}"
            )
    own = [name for name in names if type(objectives[name]).view is not Objective.view]
    if len(own) > 1:
        raise ValueError(f"passes.{source}: {own} each view the batch in a way of their own; give each a group for itself")
