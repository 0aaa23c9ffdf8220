"""VOLTA's numbered sub-layers (arXiv:2011.15124, section 4, and its configurations) as a plan that a person can read.

Its files say by number which halves of layers there are: `tt_attn_sublayers`, `tv_`, `vt_` and `vv_` (the stream of the first
letter, text or vision, attends to that of the second), `t_ff_sublayers` and `v_ff_sublayers`, and which of them share weights.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from .plan import ATTENTION, FEED_FORWARD, STREAMS, SubLayer, parse_plan

GATES = {"tt": ("text", "text"), "tv": ("text", "picture"), "vt": ("picture", "text"), "vv": ("picture", "picture")}
FEEDS = {"t_ff_sublayers": "text", "v_ff_sublayers": "picture"}
_OWN = {stream: (stream,) for stream in STREAMS}
_CROSS = {"text": ("picture",), "picture": ("text",)}
_JOINT = dict.fromkeys(STREAMS, STREAMS)


def read_sublayers(facts: Mapping[str, Any], said_in: str) -> list[SubLayer]:
    """The sub-layers that a configuration of VOLTA's numbers, in their order.

    Args:
        facts: What is under its keys.
        said_in: The file, for messages.

    Raises:
        ValueError: There are none, numbers are missing or of two kinds, or one means something that VOLTA does not compute.
    """
    reads: dict[int, dict[str, tuple[str, ...]]] = {}
    for gate, (stream, source) in GATES.items():
        for number in _numbers(facts, f"{gate}_attn_sublayers", said_in):
            one = reads.setdefault(number, {})
            one[stream] = tuple(name for name in STREAMS if name in (*one.get(stream, ()), source))
    feeds: dict[int, list[str]] = {}
    for key, stream in FEEDS.items():
        for number in _numbers(facts, key, said_in):
            feeds.setdefault(number, []).append(stream)
    shared, single = (set(_numbers(facts, key, said_in)) for key in ("shared_sublayers", "single_ln_sublayers"))
    if not reads:
        raise ValueError(
            f"{said_in} numbers no sub-layers (tt_attn_sublayers and so on), so that it is no gated model of VOLTA's; M3P's "
            "transformer is another"
        )
    if both := sorted(reads.keys() & feeds.keys()):
        raise ValueError(f"{said_in}: sub-layer {both[0]} is both attention and feed-forward; VOLTA takes one or the other")
    known = sorted([*reads, *feeds])
    if known != list(range(len(known))):
        lost = min(set(range(len(known))) - set(known))
        raise ValueError(f"{said_in}: sub-layers are numbered up to {known[-1]}, but {lost} is missing; expected all from 0")
    if unknown := sorted((shared | single) - set(known)) or sorted(single - shared):
        where = "shared_sublayers or single_ln_sublayers"
        raise ValueError(f"{said_in}: sub-layer {unknown[0]} of {where} is not there, or not shared")
    return [_read_one(number, reads.get(number), feeds.get(number, []), number in shared, said_in) for number in known]


def _numbers(facts: Mapping[str, Any], key: str, said_in: str) -> list[int]:
    found = facts.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, int) and one >= 0 for one in found):
        raise ValueError(f"{said_in}: {key} is {found!r:.60}; expected a list of numbers from 0")
    return found


def _read_one(
    number: int, reads: Mapping[str, tuple[str, ...]] | None, feeds: Sequence[str], shared: bool, said_in: str
) -> SubLayer:
    streams = feeds if reads is None else list(reads)
    if shared and len(streams) < 2:
        only = f"only {streams[0]} passes it"
        raise ValueError(f"{said_in}: sub-layer {number} is shared, but {only}; take it off shared_sublayers")
    if reads is None:
        return SubLayer(FEED_FORWARD, {stream: () for stream in STREAMS if stream in feeds}, shared)
    told = {source for sources in reads.values() for source in sources}
    if lost := told - set(reads):
        raise ValueError(
            f"{said_in}: in sub-layer {number} {lost.pop()} is attended to, but attends to nothing: VOLTA gives it no keys then"
        )
    return SubLayer(ATTENTION, {stream: reads[stream] for stream in STREAMS if stream in reads}, shared)


def write_plan(sublayers: Sequence[SubLayer]) -> str:
    """A plan that means these sub-layers, as short as it can be said."""
    words = tuple(_name_layers(sublayers))
    plan = _join(_shorten(words))
    assert parse_plan(plan) == list(sublayers)
    return plan


def _name_layers(sublayers: Sequence[SubLayer]) -> list[str]:
    """Names of whole layers, and of halves that are none."""
    names, at = [], 0
    while at < len(sublayers):
        streams = _name_streams(sublayers[at])
        if parse_plan(streams) == list(sublayers[at : at + 2]):
            names.append(streams)
            at += 2
        else:
            names.append(f"{streams} {sublayers[at].kind}")
            at += 1
    return names


def _name_streams(one: SubLayer) -> str:
    reads = dict(one.reads)
    if one.kind == FEED_FORWARD:
        if len(reads) < 2:
            return next(iter(reads))
        return "joint" if one.shared else "own"
    if reads == _JOINT:
        return "joint" if one.shared else "separate joint"
    for name, known in (("own", _OWN), ("cross", _CROSS)):
        if reads == known:
            return f"shared {name}" if one.shared else name
    clauses = [
        stream if sources == (stream,) else f"{stream} from {'both' if len(sources) > 1 else sources[0]}"
        for stream, sources in reads.items()
    ]
    return ("shared " if one.shared else "") + " & ".join(clauses)


def _join(parts: Sequence[str]) -> str:
    return ", ".join(parts)


@cache
def _shorten(names: tuple[str, ...]) -> tuple[str, ...]:
    """The same parts with what stands several times in a row said once."""
    best = names[:1] if len(names) < 2 else (names[0], *_shorten(names[1:]))
    for length in range(1, len(names) // 2 + 1):
        unit, times = names[:length], 1
        while names[times * length : (times + 1) * length] == unit:
            times += 1
            inner = unit[0] if length == 1 else f"({_join(_shorten(unit))})"
            repeated = f"{times} {inner}" if length == 1 else f"{times} x {inner}"
            found = (repeated, *_shorten(names[times * length :]))
            if (len(found), len(_join(found))) < (len(best), len(_join(best))):
                best = found
    return best
