"""Which samples of opened shards a source can read, and which it cannot, by the index alone."""

import numpy as np
from jaxtyping import Bool, Int64

from ..modalities.batch import Fault
from .alternating import Alternating
from .choice import TextChoice
from .filtering import TextRows
from .following import Following
from .shards.fields import REGIONS
from .shards.reader import ShardSet
from .source import Source


def find_samples(source: Source, shards: ShardSet, texts: TextRows) -> tuple[Int64[np.ndarray, "N"], str]:
    """Numbers of the samples that have all that a source reads, and in words how many were left out and why.

    Raises:
        ValueError: A language or role that is asked for is in no sample.
    """
    lacking: dict[str, np.ndarray] = {}
    if source.text is not None:
        lacking["text"] = ~texts.have_text(source.text)
        if source.translation is not None:
            lacking["translation"] = ~texts.have_pair(source.text, source.translation)
        if source.alternate is not None:
            first = Alternating(texts, source.text, source.translation, source.alternate).first
            lacking["two or more sentences of a document, as many in both languages"] = _lack(first, texts)
        if source.following is not None:
            first = Following(texts, source.text, source.following).first
            lacking["a sentence that another follows"] = _lack(first, texts)
    if source.image is not None:
        lacking["picture"] = ~shards.has_image
    if source.regions is not None:
        lacking["regions"] = ~shards.has(REGIONS)
    found = np.flatnonzero(~np.logical_or.reduce(list(lacking.values())))
    counts = ", ".join(f"{int(missing.sum())} without {what}" for what, missing in lacking.items() if missing.any())
    return found, f"reads {len(found)} of {len(shards)} samples" + (f", leaves out {counts}" if counts else "")


def _lack(found: Bool[np.ndarray, "T"], texts: TextRows) -> Bool[np.ndarray, "N"]:
    """Samples that have no such text."""
    return np.bincount(texts.sample[found], minlength=texts.samples) == 0


def find_unknown(source: Source, shards: ShardSet, texts: TextRows) -> tuple[Fault, ...]:
    """Samples whose texts are in languages alone that the tokenizer does not know."""
    if source.text is None or texts.readable is None or texts.readable.all():
        return ()
    whole = TextRows(texts.samples, texts.start, texts.language, texts.role, texts.languages, texts.roles)
    lost = np.flatnonzero(whole.have_text(source.text) & ~texts.have_text(source.text))
    languages = [texts.languages[texts.language[texts.start[number]]] for number in lost]
    return tuple(
        Fault("unknown language", *shards.find(number), f"{language} is none of the tokenizer's")
        for number, language in zip(lost, languages, strict=True)
    )


def find_languages(choice: TextChoice, texts: TextRows) -> list[str]:
    """Codes of all languages in which a text may be chosen, sorted."""
    return sorted(texts.languages_taken(choice))
