"""What tasks that compare sentences have in common: parts that fit each other, vectors off every batch, of all ranks, and none
that is broken."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch.distributed as distributed

from ..modalities.batch import Batch
from ..modalities.tokenizer import Tokenizer
from ..models.encoder import Encoder
from ..models.pooling import Pooling
from .agreement import check_agreement
from .restore import load_encoder
from .sentence_scores import Sentences
from .sentence_views import View, list_views


class Part(NamedTuple):
    """What was made of one batch, or of several."""

    source: str
    sample: np.ndarray
    language: np.ndarray
    identity: np.ndarray
    vectors: tuple[np.ndarray, ...]
    """float32, by view."""


class SentenceReader:
    """What such a task sets up before it reads, and what it has read. The encoder is passed, never stored."""

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: str,
        checkpoint: str | None,
        pivot: str,
        layers: Sequence[int | None],
        poolings: Sequence[Pooling],
        margin: int | None,
        untrained: bool = False,
    ):
        """
        Args:
            encoder: What is measured, with random weights so far.
            tokenizer: Tokenizer file of the run.
            checkpoint: What the encoder's weights are taken from; None: the encoder as it is.
            pivot: Language that all others are compared with.
            layers: Blocks after which states are taken; None: what the encoder gives last.
            poolings: How states become a vector.
            margin: Neighbours of the ratio margin; None: cosine alone.
            untrained: Look at a copy of the encoder with these random weights in the same ways; its views come last.

        Raises:
            ValueError: The encoder reads no text, or layers, poolings or margin cannot be meant; or there is no checkpoint, so
                that nothing else than random weights is measured.
        """
        if margin is not None and margin < 1:
            raise ValueError(f"margin is {margin}; expected the number of neighbours, such as 4, or null")
        self.tokenizer, self.checkpoint, self.pivot = Tokenizer(tokenizer), checkpoint, pivot
        if untrained and checkpoint is None:
            raise ValueError(
                "untrained is true, but checkpoint is null, so that the encoder as it is built is all that is measured: leave "
                "`untrained` out, or name a checkpoint"
            )
        self.views = list_views(encoder, layers, poolings)
        self.views += [view._replace(untrained=True) for view in self.views if untrained]
        self.keep = [layer for layer in layers if layer is not None]
        self.parts: list[Part] = []

    def check(self, encoder: Encoder, data: object) -> Mapping[str, object] | None:
        """Refuse parts that do not fit each other.

        Args:
            encoder: What will read.
            data: The data module.

        Returns:
            Its sources by name, where it tells them.

        Raises:
            ValueError: Encoder, tokenizer and data differ in vocabulary, languages, longest text or pivot.
        """
        check_agreement(encoder, self.tokenizer, data)
        pivot = getattr(data, "pivot", self.pivot)
        if pivot != self.pivot:
            raise ValueError(f"the data's pivot is {pivot!r}, the model's is {self.pivot!r}; set both alike")
        return getattr(data, "sources", None)

    def load(self, encoder: Encoder, tell: Callable[[str], None]) -> None:
        """Fill the encoder from the checkpoint, where there is one (see `load_encoder`)."""
        if self.checkpoint is not None:
            load_encoder(encoder, self.checkpoint, tell, self.tokenizer)

    def start(self) -> None:
        """Forget what has been read."""
        self.parts = []

    def read(self, encoder: Encoder, untrained: Encoder | None, batch: Batch) -> None:
        """Keep a batch's vectors, by the encoder and, where it is to be looked at, by its untrained copy."""
        if batch.size:
            self.parts.append(read_part(encoder, untrained, batch, self.views, self.keep))

    def collect(self) -> dict[str, Part]:
        """All that was read, on each rank what all have, by source; it is not kept."""
        parts, self.parts = gather(self.parts), []
        return {source: join(parts, source) for source in sorted({part.source for part in parts})}


def refuse_same_data(sources: Mapping[str, object], chosen_on: str, option: str) -> None:
    """Refuse to choose on what is reported under another name.

    Args:
        sources: What the data read, by name: paths or patterns, one or several.
        chosen_on: Name of the source that something is chosen on.
        option: That names it.

    Raises:
        ValueError: Another source has one of the same paths; names both.
    """
    own = _paths(sources[chosen_on])
    for name, one in sources.items():
        shared = own.keys() & _paths(one).keys() if name != chosen_on else ()
        if shared:
            raise ValueError(
                f"{option} is {chosen_on!r}, but source {name!r} reads {own[min(shared)]}, too: what something is chosen on "
                "must not be what is reported, so give each files of its own"
            )


def _paths(source: object) -> dict[Path, str]:
    """As they are written, by what they mean."""
    written = [source] if isinstance(source, str) else source if isinstance(source, list) else []
    return {Path(path).resolve(): path for path in written}


def read_part(encoder: Encoder, untrained: Encoder | None, batch: Batch, views: Sequence[View], keep: Sequence[int]) -> Part:
    """The vectors of a batch's texts, each text in one language; rows without a text are left out.

    Args:
        encoder: What reads them.
        untrained: What reads them for the views that are of untrained weights; None where there are none.
        batch: At least one row.
        views: Where vectors are taken from.
        keep: Blocks whose states the views look at.
    """
    text, states = batch.text, [reader(batch, keep=keep) for reader in (encoder, untrained) if reader is not None]
    there = text.present.any(1)
    first = text.present.int().argmax(1, keepdim=True)
    rows = (batch.sample, text.language.gather(1, first)[:, 0], batch.item)
    sample, language, identity = (column[there].cpu().numpy() for column in rows)
    vectors = tuple(view.look(states[view.untrained], text)[there].float().cpu().numpy() for view in views)
    return Part(batch.source, sample, language, identity, vectors)


def gather(parts: list[Part]) -> list[Part]:
    """What all ranks have read, on each."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return parts
    every: list = [None] * distributed.get_world_size()
    distributed.all_gather_object(every, parts)
    return [part for some in every for part in some]


def join(parts: Iterable[Part], source: str) -> Part:
    """All of a source, at least one part of which must be there."""
    own = [part for part in parts if part.source == source]
    sample, language, identity = (np.concatenate([part[field] for part in own]) for field in (1, 2, 3))
    vectors = tuple(np.concatenate(some) for some in zip(*(part.vectors for part in own), strict=True))
    return Part(source, sample, language, identity, vectors)


def refuse_broken(texts: Mapping[str, Sentences], name: str) -> None:
    """
    Raises:
        ValueError: A vector is not finite; names languages and samples.
    """
    broken = {code: one.sample[~one.vectors.isfinite().all(1)].tolist() for code, one in texts.items()}
    broken = {code: samples for code, samples in broken.items() if samples}
    if broken:
        count, code = sum(map(len, broken.values())), next(iter(broken))
        raise ValueError(
            f"{name}: the vectors of {count} texts are not finite (in {', '.join(broken)}; {code}: sample "
            f"{', '.join(map(str, broken[code][:3]))}); the model has diverged or met broken input: nothing can be ranked by it"
        )
