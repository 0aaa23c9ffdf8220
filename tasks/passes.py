"""Passes: which objectives read a source, and which of them share one reading."""

from collections.abc import Mapping, Sequence
from itertools import combinations
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
    """Raise ValueError if two objectives of a group cannot share a reading; says how they are to be written."""
    for first, second in combinations(names, 2):
        why = _clash(first, second, objectives)
        if why is not None:
            raise ValueError(
                f"passes.{source}: {why}, so that {first} and {second} cannot share a reading: in the place of "
                f"[{', '.join(names)}] write {_split(names, objectives)}"
            )
        _check_marks(source, names, first, second, objectives)


def _check_marks(source: str, names: Sequence[str], first: str, second: str, objectives: Mapping[str, Objective]) -> None:
    """Raise ValueError if the marks of an objective do not go with those of one that is named before it."""
    late = set(objectives[first].hides) & set(objectives[second].changes)
    if late:
        order = sorted(names, key=lambda name: not objectives[name].changes)
        raise ValueError(
            f"passes.{source}: {second} gives some rows another {' and '.join(sorted(late))} after {first} has hidden parts of "
            f"it; in the place of [{', '.join(names)}] write [{', '.join(order)}]"
        )
    hides = objectives[first].hides, objectives[second].hides
    for field in sorted(set(hides[0]) & set(hides[1])):
        own, other = hides[0][field], hides[1][field]
        if own is not None and other is not None and own != other:
            raise ValueError(
                f"passes.{source}: {first} hides {field} for all objectives of its group, but {second} hides them in another "
                f"way: found {own} and {other}; give both the same, or a group each"
            )


def _clash(first: str, second: str, objectives: Mapping[str, Objective]) -> str | None:
    """Why two objectives cannot share a reading; None where they can."""
    asked = {objectives[name].sharing: name for name in (second, first)}
    if "alone" in asked:
        alone = asked["alone"]
        return f"{alone} reads in a way of its own and needs a group for itself"
    if asked.keys() == {"rows"}:
        return f"{first} and {second} each make rows of their own"
    if asked.keys() == {"rows", "apart"}:
        return f"{asked['apart']} reads text and translation apart, which {asked['rows']} joins in rows of its own"
    return None


def _split(names: Sequence[str], objectives: Mapping[str, Objective]) -> str:
    """Groups that can be: each objective in the first in which it disturbs none."""
    groups: list[list[str]] = []
    for name in names:
        fitting = (group for group in groups if not any(_clash(other, name, objectives) for other in group))
        group = next(fitting, None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return "[" + ", ".join(f"[{', '.join(group)}]" for group in groups) + "]"
