"""The fused encoder: text and picture in one plan, from two streams that meet now and then to one stream of both.

VOLTA (arXiv:2011.15124, section 4) shows that single- and dual-stream models are one family of gated layers; here a plan
that a person can read says which (see `plan`). Text and picture are laid into rows of their own, a sample in the same row in
both, so that no layer computes padding; where every layer is joint they share their rows.
"""

from collections.abc import Collection, Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..modalities.batch import Batch
from .aligned import AlignedRows
from .crossing import Cross, make_crossing
from .embeddings import TextEmbeddings
from .encoder import Encoder, States, Vectors
from .packing import Allow, Packing, Stream, same_document
from .picture_embeddings import PictureEmbeddings
from .plan import ATTENTION, STREAMS, Placed, Weights, lay_out
from .pooling import JointPooler, Pooling, pool
from .towers import TextTower, refuse, text_stream
from .transformer import Block, Transformer

Rows = Mapping[str, Float[Tensor, "rows _ _"]]


class Fused(Encoder):
    """Text and picture, by a plan. `joint` is pooled from their first places.

    A translation is read by itself, without the picture; an objective that joins it to the text does so in its view. What
    attends to a stream that a sample lacks passes unchanged through that attention.
    """

    def __init__(
        self,
        plan: str,
        text: TextTower,
        picture: PictureEmbeddings,
        layers: Transformer | None = None,
        cross: Cross | None = None,
        pooler: JointPooler | None = None,
        vector_width: int | None = None,
        pooling: Pooling = "first",
    ):
        """
        Args:
            plan: What attends to what (see `plan`).
            text: The text stream: its embeddings, and as many blocks as the plan has layers of text and joint ones.
            picture: Embeddings of the picture.
            layers: Blocks of the picture's own, as many as the plan has; None: it has none.
            cross: Sizes of the layers between them.
            pooler: What makes `joint`; None: a dense layer and tanh over the first token, as BERT and UNITER.
            vector_width: Width E of `States.vectors`: text and picture as they are before they first attend to each other, for
                contrast (ALBEF, arXiv:2107.07651, section 3.2); None: there are none.
            pooling: How states become these vectors.

        Raises:
            ValueError: It is no plan, or widths or numbers of layers do not fit it.
        """
        super().__init__()
        self.plan, self.layout = plan, lay_out(plan)
        self.text, self.picture, self.picture_layers, self.pooling = text, picture, layers, pooling
        width = {"text": text.transformer.width, "picture": picture.width}
        self._check(width)
        self.cross = make_crossing(self.layout, text.transformer, layers, picture.width, cross or Cross())
        self._check_heads()
        self.pooler = JointPooler(width["text"], width["picture"]) if pooler is None else pooler
        self.widths = {"text": width["text"], "translation": width["text"], picture.stream: width["picture"]}
        if self.pooler.how != "none":
            self.widths["joint"] = self.pooler.width
        self.vector_width, self.projections = vector_width, None
        self._check_meeting()
        moves = [(number, one.sublayer) for number, one in enumerate(self.layout.sublayers)]
        self._last = {stream: max((n for n, one in moves if stream in one.reads), default=-1) for stream in STREAMS}
        meets = {s: [n for n, one in moves if set(one.reads.get(s, ())) - {s}] for s in STREAMS}
        self._meets = {stream: min(numbers, default=len(moves)) for stream, numbers in meets.items()}
        if vector_width is not None:
            if vector_width < 1 or not self._meets["text"]:
                raise ValueError(
                    f"vector_width is {vector_width} in plan {plan!r}; vectors have 1 number or more, and are taken before "
                    "text and picture meet: there must be layers before that"
                )
            self.projections = nn.ModuleDict({s: nn.Linear(width[s], vector_width, bias=False) for s in STREAMS})
            for projection in self.projections.values():
                nn.init.normal_(projection.weight, std=projection.in_features**-0.5)

    def _check(self, width: Mapping[str, int]) -> None:
        given = {"text": self.text.transformer.layers, "picture": self.picture_layers.layers if self.picture_layers else 0}
        for stream, where in (("text", "`text`"), ("picture", "`layers`")):
            if given[stream] != self.layout.layers[stream]:
                raise ValueError(
                    f"plan {self.plan!r} has {self.layout.layers[stream]} {stream} layers (joint ones are the text's), but "
                    f"{where} has {given[stream]}; change the one or the other"
                )
        if self.picture_layers is not None and self.picture_layers.width != width["picture"]:
            raise ValueError(
                f"fused: embeddings of the picture have width {width['picture']}, its layers {self.picture_layers.width}"
            )
        equal = [one.sublayer for one in self.layout.sublayers if one.sublayer.shared or len(_sources(one)) > 1]
        if equal and width["text"] != width["picture"]:
            raise ValueError(
                f"plan {self.plan!r} has layers of both streams at once, but the text has width {width['text']} and the "
                f"picture {width['picture']}; make them equal"
            )

    def _check_meeting(self) -> None:
        reads = [(stream, set(sources)) for one in self.layout.sublayers for stream, sources in one.sublayer.reads.items()]
        told = {stream for stream, sources in reads if sources - {stream}}
        how = self.pooler.how
        if how in STREAMS and how not in told:
            other = next(stream for stream in STREAMS if stream != how)
            raise ValueError(
                f"plan {self.plan!r}: nothing attends to the {other} in what makes the joint vector, the first place of the "
                f"{how}; pool the product of both, `none`, or the other"
            )
        if how == "none" and not told and self.vector_width is None:
            raise ValueError(
                f"plan {self.plan!r}: text and picture never meet: neither attends to the other, there is no vector of both, "
                "and no vector_width for contrast"
            )

    def _check_heads(self) -> None:
        for sublayer, weights in self.layout.sublayers:
            for stream, sources in sublayer.reads.items():
                found = {name: self._block(weights[name]).attention for name in dict.fromkeys((stream, *sources))}
                if len({(one.inner, one.heads) for one in found.values()}) > 1:
                    heads = " and ".join(f"{one.heads} of {name}, {one.inner} wide" for name, one in found.items())
                    raise ValueError(
                        f"plan {self.plan!r}: one attention has heads of different kinds, {heads}; make them equal"
                    )

    @property
    def text_embeddings(self) -> TextEmbeddings:
        return self.text.embeddings

    @property
    def layers(self) -> int:
        """Feed-forward halves that the text passes."""
        return sum(one.sublayer.kind != ATTENTION and "text" in one.sublayer.reads for one in self.layout.sublayers)

    def present(self, batch: Batch) -> dict[str, Bool[Tensor, "B _"]]:
        texts = {"text": batch.text, "translation": batch.translation}
        present = {name: text.present for name, text in texts.items() if text is not None}
        if getattr(batch, self.picture.stream) is not None:
            present[self.picture.stream] = self._own(self.picture.places(batch).present)
        return present

    def _own(self, places: Tensor) -> Tensor:
        """Without the places that the embeddings have added."""
        return places[:, self.picture.before : places.shape[1] - self.picture.after]

    def forward(self, batch: Batch, allow: Allow = same_document, keep: Collection[int] = ()) -> States:
        refuse(batch, "this encoder", "text", "translation", self.picture.stream)
        if any(not 0 <= number <= self.layers for number in keep):
            raise ValueError(f"states after blocks {sorted(keep)} are asked for, but there are {self.layers} blocks")
        states = self._fuse(batch, allow, keep)
        if batch.translation is not None:
            only = batch._replace(text=batch.translation, translation=None, **{self.picture.stream: None})
            alone = self._fuse(only, allow, keep)
            layers = {number: one._replace(translation=alone.layers[number].text) for number, one in states.layers.items()}
            vectors = states.vectors._replace(translation=alone.vectors.text)
            states = states._replace(translation=alone.text, layers=layers or alone.layers, vectors=vectors)
        return states

    def _fuse(self, batch: Batch, allow: Allow, keep: Collection[int]) -> States:
        streams: dict[str, Stream] = {} if batch.text is None else {"text": text_stream(batch.text)}
        if getattr(batch, self.picture.stream) is not None:
            streams["picture"] = self.picture.places(batch)
        if not streams:
            return States()
        embedded = self.picture(batch, self.text.embeddings)._asdict()
        vectors = {stream: embedded[stream] for stream in streams}
        if self.layout.joint:
            return self._finish(*self._read_jointly(streams, vectors, allow, keep), streams)
        return self._finish(*self._read_apart(streams, vectors, allow, keep), streams)

    def _read_jointly(self, streams: Mapping[str, Stream], vectors: Mapping[str, Tensor], allow: Allow, keep: Collection[int]):
        """Where every layer is joint, both streams stand in one row."""
        packing = Packing(list(streams.values()))
        rows, kept = self.text.transformer(packing.place(*vectors.values()), packing.mask(allow), keep)

        def give_back(one: Tensor) -> dict[str, Tensor]:
            return dict(zip(streams, packing.give_back(one), strict=True))

        return give_back(rows), {number: give_back(one) for number, one in kept.items()}, {}

    def _read_apart(self, streams: Mapping[str, Stream], vectors: Mapping[str, Tensor], allow: Allow, keep: Collection[int]):
        """Sub-layer by sub-layer; the states at the end, the kept ones, and those before the streams meet."""
        aligned = AlignedRows(streams, allow)
        rows, passed = aligned.place(vectors), 0
        kept = {0: aligned.give_back(rows)} if 0 in keep else {}
        apart: dict[str, Tensor] = {}
        for number, placed in enumerate(self.layout.sublayers):
            for stream in rows:
                if number == self._meets[stream] and self.projections is not None:
                    apart[stream] = aligned.packings[stream].give_back(rows[stream])[0]
            step = self._attend if placed.sublayer.kind == ATTENTION else self._feed
            if self.text.transformer.recompute and torch.is_grad_enabled():
                rows = checkpoint(step, placed, rows, aligned, use_reentrant=False)
            else:
                rows = step(placed, rows, aligned)
            for stream in rows:
                if number == self._last[stream]:
                    rows[stream] = self._tower(stream).norm(rows[stream])
            if placed.sublayer.kind != ATTENTION and "text" in placed.sublayer.reads:
                passed += 1
                if passed in keep:
                    kept[passed] = aligned.give_back(rows)
        states = aligned.give_back(rows)
        if self.projections is not None:
            apart = {stream: apart.get(stream, states[stream]) for stream in states}
        return states, kept, apart

    def _tower(self, stream: str) -> Transformer:
        """Whose final norm a stream ends with."""
        own = stream == "picture" and self.picture_layers is not None
        return self.picture_layers if own else self.text.transformer

    def _block(self, weights: Weights) -> Block:
        if weights.stack == "cross":
            return self.cross[weights.number][weights.part]
        tower = self.text.transformer if weights.stack == "text" else self.picture_layers
        return tower.block(weights.number + 1)

    def _attend(self, placed: Placed, rows: Rows, aligned: AlignedRows) -> dict[str, Tensor]:
        reads, after = placed.sublayer.reads, dict(rows)
        parts: dict[str, tuple[Tensor | None, Tensor | None, Tensor | None]] = {}
        for stream, weights in placed.weights.items():
            if stream in rows:
                attention = self._block(weights).attention
                found = attention.project(self._block(weights).before(rows[stream]))
                parts[stream] = (found[0] if attention.asks else None, *(found[-2:] if attention.told else (None, None)))
        for stream in reads:
            sources = [source for source in reads[stream] if source in rows]
            if stream not in rows or not sources:
                continue
            block, (mask, some) = self._block(placed.weights[stream]), aligned.mask(stream, sources)
            key, value = (torch.cat([parts[source][one] for source in sources], 2) for one in (1, 2))
            moved = block.after(rows[stream], block.attention.mix(parts[stream][0], key, value, mask))
            after[stream] = moved if some is None else torch.where(some, moved, rows[stream])
        return after

    def _feed(self, placed: Placed, rows: Rows, aligned: AlignedRows) -> dict[str, Tensor]:
        fed = {s: self._block(weights).feed(rows[s]) for s, weights in placed.weights.items() if s in rows}
        return {**rows, **fed}

    def _finish(self, states: Rows, kept: Mapping[int, Rows], apart: Rows, streams: Mapping[str, Stream]) -> States:
        def name(one: Rows) -> States:
            named = {"text": one.get("text")}
            if "picture" in one:
                named[self.picture.stream] = self._own(one["picture"])
            return States(**named)

        firsts = {stream: pool(one, streams[stream].present, "first") for stream, one in states.items()}
        vectors = {
            "image" if stream == "picture" else stream: self.projections[stream](
                pool(one, streams[stream].present, self.pooling)
            )
            for stream, one in apart.items()
        }
        return name(states)._replace(
            joint=self.pooler(firsts.get("text"), firsts.get("picture")),
            vectors=Vectors(**vectors),
            layers={number: name(one) for number, one in kept.items()},
        )


def _sources(placed: Placed) -> set[str]:
    """Streams that the widest reader of an attention sees."""
    return set(max(placed.sublayer.reads.values(), key=len, default=()))
