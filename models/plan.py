"""The plan of a fused encoder, which a person can read: what attends to what, layer by layer.

    12 joint                                        one stream of both, UNITER (arXiv:1909.11740, section 3.1)
    6 text, 6 x (cross, own)                        ViLBERT (arXiv:1908.02265, section 3.1)
    9 text, 5 picture, 5 x (shared cross attention, own attention, own feed-forward)
                                                    LXMERT (arXiv:1908.07490, section 2)
    6 text, 6 x (text attention, text from picture attention, text feed-forward)
                                                    ALBEF (arXiv:2107.07651, section 3.1)

A part of a plan is a layer (attention, then feed-forward), or one of its halves where it ends in `attention` or
`feed-forward`; a number before it, with or without `x`, repeats it; parentheses hold several. Which streams, and what they
attend to:

    text, picture           that stream, itself
    own                     both, each itself
    cross                   both, each the other
    text from picture       that stream, the one named; `from both`: itself and the other in one softmax
    joint                   both, both of them: by one set of weights
    A & B                   two of these at once, as `text from both & picture`

`shared` before a part gives both streams one set of weights, `separate` before `joint` each its own. (The words for VOLTA's
gated sub-layers, arXiv:2011.15124, section 4: every set of its four gates can be written.)
"""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

STREAMS = ("text", "picture")
ATTENTION, FEED_FORWARD = "attention", "feed-forward"
_TOKEN = re.compile(r"\s*([0-9]+|[A-Za-z-]+|[(),&])")
_WHICH = {
    "own": {"text": ("text",), "picture": ("picture",)},
    "cross": {"text": ("picture",), "picture": ("text",)},
    "joint": {"text": STREAMS, "picture": STREAMS},
}
_HELP = "see interlingua.models.plan; for example `12 joint`, or `6 text, 6 x (cross, own)`"


class SubLayer(NamedTuple):
    """Half of a layer."""

    kind: Literal["attention", "feed-forward"]
    reads: Mapping[str, tuple[str, ...]]
    """Streams that change, and for attention what each attends to."""
    shared: bool
    """Whether both streams have one set of weights."""


def parse_plan(plan: str) -> list[SubLayer]:
    """The halves of layers that a plan means, in their order.

    Raises:
        ValueError: It is none; says where.
    """
    words, at = [], 0
    while plan[at:].strip():
        found = _TOKEN.match(plan, at)
        if found is None:
            raise ValueError(f"plan {plan!r}: {plan[at:].strip()[0]!r} means nothing here; {_HELP}")
        words.append(found[1].lower())
        at = found.end()
    parts = _parse_parts(words, plan)
    if words:
        raise ValueError(f"plan {plan!r}: a closing parenthesis that none opened, before {' '.join(words[1:]) or 'the end'!r}")
    return parts


def _parse_parts(words: list[str], plan: str) -> list[SubLayer]:
    """Parts up to the end, or to a closing parenthesis; takes them off the words."""
    parts: list[SubLayer] = []
    while True:
        times = 1
        if words and words[0].isdigit():
            times = int(words.pop(0))
            if not times:
                raise ValueError(f"plan {plan!r}: a part is repeated 0 times; leave it out, or give 1 or more")
            if words and words[0] == "x":
                words.pop(0)
        if words and words[0] == "(":
            words.pop(0)
            inner = _parse_parts(words, plan)
            if not words:
                raise ValueError(f"plan {plan!r}: a parenthesis is not closed")
            words.pop(0)
        else:
            item = []
            while words and words[0] not in ("(", ")", ","):
                item.append(words.pop(0))
            inner = _parse_item(item, plan)
        parts += times * inner
        if not words or words[0] == ")":
            return parts
        if words[0] != ",":
            raise ValueError(f"plan {plan!r}: parts are parted by commas, found {words[0]!r} after one")
        words.pop(0)


def _parse_item(item: list[str], plan: str) -> list[SubLayer]:
    """A layer, or half of one."""
    if not item:
        raise ValueError(f"plan {plan!r}: a part is empty; {_HELP}")
    name, words = " ".join(item), list(item)
    first = words.pop(0) if words[0] in ("shared", "separate") else ""
    kinds = (words.pop(),) if words and words[-1] in (ATTENTION, FEED_FORWARD) else (ATTENTION, FEED_FORWARD)
    reads = _parse_streams(" ".join(words), name, plan)
    shared = first == "shared" or (words == ["joint"] and first != "separate")
    if first and (len(reads) < 2 or (first == "separate" and words != ["joint"])):
        raise ValueError(f"plan {plan!r}: in {name!r}, `shared` is for two streams, and `separate` for `joint` alone")
    if kinds == (FEED_FORWARD,) and ("from" in words or words == ["cross"]):
        raise ValueError(f"plan {plan!r}: {name!r} reads nothing of another stream; write text, picture, own or joint")
    return [SubLayer(kind, reads if kind == ATTENTION else dict.fromkeys(reads, ()), shared) for kind in kinds]


def _parse_streams(words: str, name: str, plan: str) -> dict[str, tuple[str, ...]]:
    if words in _WHICH:
        return dict(_WHICH[words])
    reads: dict[str, tuple[str, ...]] = {}
    for clause in words.split(" & "):
        found = re.fullmatch(r"(text|picture)(?: from (text|picture|both))?", clause)
        if found is None or found[1] in reads:
            raise ValueError(
                f"plan {plan!r}: {name!r} is no part of a plan; expected joint, own, cross, text, picture, or one of these two "
                "`from` text, picture or both, perhaps followed by attention or feed-forward"
            )
        reads[found[1]] = STREAMS if found[2] == "both" else (found[2] or found[1],)
    return {stream: reads[stream] for stream in STREAMS if stream in reads}


class Weights(NamedTuple):
    """Where the weights of a stream in a sub-layer are."""

    stack: Literal["text", "picture", "cross"]
    """Blocks of the text tower, of the picture's, or those between them."""
    number: int
    """From 0."""
    part: Literal["text", "picture", "both"]
    """Whose they are, of those between the towers."""


class Placed(NamedTuple):
    """A sub-layer and its weights."""

    sublayer: SubLayer
    weights: Mapping[str, Weights]
    """Of each stream that takes part: it changes, or is attended to by one that does."""


class Layout(NamedTuple):
    """A plan with its weights numbered."""

    sublayers: list[Placed]
    layers: Mapping[str, int]
    """Blocks of the text tower, of the picture's, and between them: `text`, `picture`, `cross`."""

    @property
    def joint(self) -> bool:
        """Whether both streams go together all the way: a single stream."""
        return all(one.sublayer.shared and len(one.sublayer.reads) == 2 for one in self.sublayers) and all(
            set(reads) == set(STREAMS)
            for one in self.sublayers
            if one.sublayer.kind == ATTENTION
            for reads in one.sublayer.reads.values()
        )


def lay_out(plan: str) -> Layout:
    """Number the weights of a plan: per stream, and independent of all else in it.

    Attention of a stream to itself (alone or to both) is the next layer of its own tower; joint and shared ones are the text's.
    Attention to the other stream alone stands between the towers. A feed-forward half belongs to the last layer of its stream's
    own that has none yet, else to the last one between the towers. So the text stream takes layer i of a text checkpoint
    whatever stands between its layers.

    Raises:
        ValueError: It is no plan, or a half has no other half.
    """
    count = {"text": 0, "picture": 0, "cross": 0}
    waiting: dict[str, list[Weights]] = {"text": [], "picture": []}
    placed: list[Placed] = []
    for sublayer in parse_plan(plan):
        place = _place_attention if sublayer.kind == ATTENTION else _place_feed_forward
        placed.append(Placed(sublayer, place(sublayer, count, waiting, plan)))
    for stream, halves in waiting.items():
        own = [half for half in halves if half.stack != "cross"]
        if own:
            raise ValueError(f"plan {plan!r}: {stream} attention has no feed-forward behind it; add `{stream} feed-forward`")
    return Layout(placed, count)


def _place_attention(
    sublayer: SubLayer, count: dict[str, int], waiting: dict[str, list[Weights]], plan: str
) -> dict[str, Weights]:
    reads = sublayer.reads
    own = [stream for stream in reads if stream in reads[stream]]
    weights = {stream: Weights(stream, count[stream], stream) for stream in own}
    if sublayer.shared and own:
        if len(own) < 2:
            raise ValueError(f"plan {plan!r}: shared attention in which one stream attends to itself and the other does not")
        weights["picture"] = weights["text"]
    for stack in {one.stack for one in weights.values()}:
        count[stack] += 1
    told = {source for sources in reads.values() for source in sources}
    between = [stream for stream in STREAMS if stream not in own and (stream in reads or stream in told)]
    weights |= {stream: Weights("cross", count["cross"], "both" if sublayer.shared else stream) for stream in between}
    count["cross"] += bool(between)
    for stream in reads:
        half = weights[stream]
        if half.stack != "cross" and any(before.stack != "cross" for before in waiting[stream]):
            raise ValueError(f"plan {plan!r}: {stream} attends to itself twice with no feed-forward between")
        waiting[stream] = [before for before in waiting[stream] if before.stack != "cross" and half.stack == "cross"] + [half]
    return weights


def _place_feed_forward(
    sublayer: SubLayer, count: dict[str, int], waiting: dict[str, list[Weights]], plan: str
) -> dict[str, Weights]:
    weights: dict[str, Weights] = {}
    for stream in sublayer.reads:
        halves = sorted(waiting[stream], key=lambda half: half.stack == "cross")
        if not halves:
            raise ValueError(f"plan {plan!r}: a feed-forward of {stream} with no attention of its own before it")
        weights[stream] = halves[0]
        waiting[stream].remove(halves[0])
    stacks = {one.stack for one in weights.values()}
    if sublayer.shared:
        if len(stacks) > 1 and "cross" in stacks:
            raise ValueError(f"plan {plan!r}: a shared feed-forward after attention that is not the same for both")
        weights = dict.fromkeys(weights, weights["text"])
    elif len(set(weights.values())) < len(weights):
        raise ValueError(f"plan {plan!r}: shared attention wants a shared feed-forward; write `shared`, or joint")
    return weights
