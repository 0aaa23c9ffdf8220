"""What the JSON of a sample says of its texts by their numbers: that they are a document, and which of their words match.

Only our own layout says so (`"document": true`, and `alignments`); elsewhere such fields may mean anything.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..align.words import split_words
from ..sample import Alignment, BadSampleError, Caption
from .fields import FieldMap, excerpt, is_blank


def read_alignments(record: Mapping[str, Any] | None, texts: Sequence[Caption], fields: FieldMap) -> tuple[Alignment, ...]:
    """Alignments between texts, as our own layout has them.

    `alignments` is a list of objects: `texts` has the numbers of two texts in the JSON's `texts`, `words` a list of pairs
    of words of them, `possible` pairs that are not sure. Layouts whose texts stand elsewhere have none.

    Args:
        record: The parsed member `json`.
        texts: All texts of the sample, blank ones too.
        fields: The map.

    Returns:
        Texts numbered without the blank ones; what aligns a blank text is left out.

    Raises:
        BadSampleError: `broken alignment`.
    """
    found = record.get("alignments") if record is not None and _is_ours(fields) else None
    if found is None:
        return ()
    numbers, kept = {}, 0
    for number, caption in enumerate(texts):
        if not is_blank(caption.text):
            numbers[number], kept = kept, kept + 1
    alignments = []
    for entry in found if isinstance(found, list) else [found]:
        pair = entry.get("texts") if isinstance(entry, dict) else None
        if not (_is_pair(pair) and pair[0] != pair[1] and max(pair) < len(texts)):
            raise BadSampleError(
                "broken alignment", f"expected texts: [M, N], two numbers below {len(texts)}, found {excerpt(entry)}"
            )
        words = [entry.get(name, []) for name in ("words", "possible")]
        if not all(isinstance(pairs, list) and all(map(_is_pair, pairs)) for pairs in words):
            raise BadSampleError("broken alignment", f"expected words: [[0, 0], [1, 2], ...], found {excerpt(entry)}")
        if pair[0] in numbers and pair[1] in numbers:
            sure, possible = (tuple((left, right) for left, right in pairs) for pairs in words)
            alignments.append(Alignment(numbers[pair[0]], numbers[pair[1]], sure, possible))
    return tuple(alignments)


def read_document(record: Mapping[str, Any] | None, fields: FieldMap) -> bool:
    """Whether a sample in our own layout is a document: its JSON has `"document": true`."""
    return record is not None and _is_ours(fields) and record.get("document") is True


def describe_alignments(key: str, texts: Sequence[Caption], alignments: Sequence[Alignment]) -> dict[str, Any]:
    """The field `alignments` of a sample's JSON; nothing where there are none.

    Raises:
        ValueError: An alignment is of texts, or of words, that are not there.
    """
    if not alignments:
        return {}
    described: list[dict[str, Any]] = []
    for text, translation, words, possible in alignments:
        where = f"sample {key!r}, alignment of texts {text} and {translation}"
        if not (0 <= text < len(texts) and 0 <= translation < len(texts) and text != translation):
            raise ValueError(f"{where}: expected two numbers from 0 to {len(texts) - 1}")
        counts = [len(own) for own in split_words([texts[text].text, texts[translation].text])]
        for pair in (*words, *possible):
            if not (0 <= pair[0] < counts[0] and 0 <= pair[1] < counts[1]):
                raise ValueError(f"{where}: found words {pair[0]} and {pair[1]}, the texts have {counts[0]} and {counts[1]}")
        lists = {"words": words, "possible": possible} if possible else {"words": words}
        pairs = {name: sorted(map(list, found)) for name, found in lists.items()}
        described.append({"texts": [text, translation], **pairs})
    return {"alignments": described}


def _is_ours(fields: FieldMap) -> bool:
    """Whether texts stand where our own layout has them, so that what is said of them by number is meant so."""
    return [(source.member, source.path) for source in fields.texts] == [("json", "texts")]


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(number) is int and number >= 0 for number in value)
