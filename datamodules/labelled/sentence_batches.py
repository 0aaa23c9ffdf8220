"""Batches of sentences that are in memory, each of one source and one language."""

from collections.abc import Sequence
from functools import partial

from ...modalities.text import collate_text
from ...modalities.tokenizer import Tokenizer
from ..evaluation_reading import Identities, identify
from ..sentences import reads_as
from ..steps import Reading


def cut_sentences(
    source: str,
    language: str,
    sentences: Sequence[tuple[int, str]],
    tokenizer: Tokenizer,
    max_tokens: int,
    batch_size: int,
) -> list[partial[Reading]]:
    """What reads the batches.

    Args:
        source: Name of the source.
        language: Code of the language, which the tokenizer must know.
        sentences: Number (`Batch.sample`) and text of each.
        tokenizer: What cuts them into pieces.
        max_tokens: Longest text, start and end token included.
        batch_size: Rows of a batch.
    """
    read = partial(read_sentences, source, language, tokenizer, max_tokens)
    return [partial(read, sentences[start : start + batch_size]) for start in range(0, len(sentences), batch_size)]


def read_sentences(
    source: str, language: str, tokenizer: Tokenizer, max_tokens: int, sentences: Sequence[tuple[int, str]]
) -> Reading:
    """One batch; `Batch.item` is equal for texts that read alike."""
    texts = [text for _, text in sentences]
    batch = identify(source, Identities([reads_as(text) for text in texts], [number for number, _ in sentences]))
    text = collate_text(texts, [language] * len(texts), tokenizer, max_tokens)
    return Reading(batch._replace(text=text), list(range(len(texts))), [])


def take_languages(
    found: Sequence[str], asked: Sequence[str] | None, tokenizer: Tokenizer, source: str
) -> tuple[list[str], list[str]]:
    """Languages that are read, and those that are left out since the tokenizer does not know them.

    Args:
        found: Codes of the languages that there are.
        asked: Those that are wanted; None: all that the tokenizer knows.
        tokenizer: What must know them.
        source: Name of the source, for messages.

    Raises:
        ValueError: A language that is asked for is not there, or the tokenizer does not know it; or none is left.
    """
    for code in asked or ():
        tokenizer.language_id(code)
    missing = sorted(set(asked or ()) - set(found))
    taken = [code for code in found if (code in tokenizer.languages if asked is None else code in asked)]
    if missing or not taken:
        raise ValueError(
            f"source {source!r}: {f'no sentences in {_list(missing)}' if missing else 'no language that the tokenizer knows'}; "
            f"languages found: {_list(found)}"
        )
    return taken, [] if asked is not None else [code for code in found if code not in taken]


def _list(codes: Sequence[str]) -> str:
    return ", ".join(codes) or "none"
