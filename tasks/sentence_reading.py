"""What tasks that compare sentences have in common: vectors off every batch, of all ranks, and none that is broken."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch.distributed as distributed

from ..modalities.batch import Batch
from ..models.encoder import Encoder
from .sentence_scores import Sentences
from .sentence_views import View


class Part(NamedTuple):
    """What was made of one batch, or of several."""

    source: str
    sample: np.ndarray
    language: np.ndarray
    identity: np.ndarray
    vectors: tuple[np.ndarray, ...]
    """float32, by view."""


def read_part(encoder: Encoder, batch: Batch, views: Sequence[View], keep: Sequence[int]) -> Part:
    """The vectors of a batch's texts, each text in one language; rows without a text are left out.

    Args:
        encoder: What reads them.
        batch: At least one row.
        views: Where vectors are taken from.
        keep: Blocks whose states the views look at.
    """
    text, states = batch.text, encoder(batch, keep=keep)
    there = text.present.any(1)
    first = text.present.int().argmax(1, keepdim=True)
    rows = (batch.sample, text.language.gather(1, first)[:, 0], batch.item)
    sample, language, identity = (column[there].cpu().numpy() for column in rows)
    vectors = tuple(view.look(states, text)[there].float().cpu().numpy() for view in views)
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
