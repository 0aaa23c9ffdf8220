"""Bilingual dictionaries in the files that people have, to sequences of a tokenizer's pieces.

MUSE's text files (github.com/facebookresearch/MUSE) have a word and its translation on each line, with a space or a tab between
them; with a tab, either may have several words. JSON lines have `{"words": {"en": "ten", "de": "zehn", ...}}`.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..modalities.dictionary import Dictionary
from ..modalities.tokenizer import Tokenizer
from ..modalities.words import SPACE, is_unspaced
from .shards.fields import excerpt, name_kind
from .shards.json_lines import read_objects
from .shards.lines import Lines

BEFORE = "\u3002"
"""Ideographic full stop: what stands behind it in a script without spaces is cut as inside a sentence."""

Entry = tuple[str, str]
"""Language and word."""


class Compiled(NamedTuple):
    """A dictionary, and what was left out of it."""

    dictionary: Dictionary
    skipped: Counter[str]
    """Pairs by what is wrong with them."""


def read_lexicon(
    path: str, languages: Sequence[str] | None, skipped: Counter[str] | None = None
) -> Iterator[tuple[Entry, Entry]]:
    """Pairs of words that translate each other, each pair both ways round.

    Args:
        path: `NAME.jsonl`, or any other name for MUSE's text; `.gz` too.
        languages: Of the two columns of a text; of JSON lines, those that are wanted (None: all).
        skipped: Counts lines that give no pair.

    Raises:
        ValueError: Names file and line.
    """
    file, skipped = Path(path), Counter() if skipped is None else skipped
    if file.name.removesuffix(".gz").endswith(".jsonl"):
        yield from _read_objects(file, languages, skipped)
        return
    with Lines(file) as lines:
        if languages is None or len(languages) != 2:
            raise ValueError(f"{path}: lines of a word and its translation; say in which two languages: --languages en de")
        for line in lines:
            skipped["blank line"] += not line.strip()
            if line.strip():
                pair = list(zip(languages, _columns(line, f"{path}, line {lines.number}"), strict=True))
                yield pair[0], pair[1]
                yield pair[1], pair[0]


def _columns(line: str, where: str) -> list[str]:
    tabs = "\t" in line
    found = [part.strip() for part in line.rstrip("\r\n").split("\t")] if tabs else line.split()
    if len(found) != 2:
        what = "columns between tabs" if tabs else "words" if found[1:] else "word"
        raise ValueError(
            f"{where}: found {len(found)} {what}, expected a word and its translation; put {'one' if tabs else 'a'} tab "
            "between them where either has several words"
        )
    return found


def _read_objects(file: Path, languages: Sequence[str] | None, skipped: Counter[str]) -> Iterator[tuple[Entry, Entry]]:
    form = '{"words": {"en": "ten", "de": "zehn"}}'
    for where, record in read_objects(file, skipped, form):
        words = record.get("words")
        if not isinstance(words, dict):
            found = f"{name_kind(words)} as words" if "words" in record else f"the fields {', '.join(record) or '(none)'}"
            raise ValueError(f"{where}: found {found}, expected {form}")
        wanted = [(code, word) for code, word in words.items() if languages is None or code in languages]
        for code, word in wanted:
            if not isinstance(word, str):
                raise ValueError(f"{where}, word in {code}: found {excerpt(word)}, expected a text as in {form}")
        skipped["line without words in two of the languages"] += len(wanted) < 2
        yield from permutations(wanted, 2)


def with_capitals(pairs: Iterable[tuple[Entry, Entry]]) -> Iterator[tuple[Entry, Entry]]:
    """Pairs, and each one that begins in lower case again with a capital letter on both sides, for lexicons that are in lower
    case throughout, as MUSE's are."""
    for source, target in pairs:
        yield source, target
        if source[1][:1].islower():
            yield tuple((code, word[:1].upper() + word[1:]) for code, word in (source, target))


def compile_dictionary(pairs: Iterable[tuple[Entry, Entry]], tokenizer: Tokenizer) -> Compiled:
    """Cut all words as they stand inside a sentence.

    Left out are pairs in a language that the tokenizer does not know, of which a side is empty or has pieces of nothing but
    the unknown, and pairs that read the same on both sides. In scripts without spaces a word is looked up as it is cut
    inside a sentence and as it is at its start.

    Args:
        pairs: As `read_lexicon` gives them.
        tokenizer: What cuts the words; its hash is kept.
    """
    known, skipped, wanted = set(tokenizer.languages), Counter(), []
    for source, target in pairs:
        if source[0] not in known or target[0] not in known:
            skipped["a language that the tokenizer does not know"] += 1
        elif source[0] != target[0]:
            wanted.append((source, target))
    entries = list(dict.fromkeys(entry for pair in wanted for entry in pair))
    cut = dict(zip(entries, _cut(entries, tokenizer), strict=True))
    numbers: dict[tuple, int] = {}
    found = set()
    for source, target in wanted:
        if not cut[source] or not cut[target]:
            skipped["nothing left of a word, or unknown pieces"] += 1
        elif cut[source][0] == cut[target][0]:
            skipped["the same on both sides"] += 1
        else:
            of_target = numbers.setdefault((tokenizer.language_id(target[0]), cut[target][0]), len(numbers))
            for form in cut[source]:
                key = (tokenizer.language_id(source[0]), form)
                found.add((numbers.setdefault(key, len(numbers)), of_target))
    return Compiled(_tabulate(numbers, sorted(found), tokenizer), skipped)


Form = tuple[tuple[int, int], ...]
"""Id and number of the word of each piece."""


def _cut(entries: Sequence[Entry], tokenizer: Tokenizer) -> list[list[Form]]:
    """Forms of each word, the one inside a sentence first; none where it cannot be told apart from others."""
    plain = _encode([text for _, text in entries], [code for code, _ in entries], tokenizer)
    unspaced = [number for number, (_, text) in enumerate(entries) if text.strip() and is_unspaced(text.strip()[0])]
    codes = [entries[number][0] for number in unspaced]
    inside = _encode([BEFORE + entries[number][1].strip() for number in unspaced], codes, tokenizer)
    before = _encode([BEFORE] * len(unspaced), codes, tokenizer)
    forms = [[form] for form in plain]
    for number, form, start in zip(unspaced, inside, before, strict=True):
        if [piece for piece, _ in form[: len(start)]] == [piece for piece, _ in start] and len(form) > len(start):
            rest = form[len(start) :]
            rest = tuple((piece, word - rest[0][1]) for piece, word in rest)
            forms[number] = list(dict.fromkeys([rest, *forms[number]]))
    unknown = tokenizer.vocabulary.unknown
    return [[form for form in some if form and unknown not in {piece for piece, _ in form}] for some in forms]


def _encode(texts: Sequence[str], codes: Sequence[str], tokenizer: Tokenizer) -> list[Form]:
    if not texts:
        return []
    found = tokenizer.encode(texts, codes)
    pieces = list(zip(found.ids.tolist(), found.words.tolist(), strict=True))
    ends = np.cumsum(found.counts).tolist()
    return [tuple(pieces[end - count : end]) for end, count in zip(ends, found.counts.tolist(), strict=True)]


def _tabulate(numbers: dict[tuple, int], pairs: list[tuple[int, int]], tokenizer: Tokenizer) -> Dictionary:
    flat = [piece for _, form in numbers for piece in form]
    lengths = [len(form) for _, form in numbers]
    return Dictionary(
        tokenizer=tokenizer.hash,
        language=np.array([language for language, _ in numbers], np.int64),
        start=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
        pieces=np.array([piece for piece, _ in flat], np.int64),
        word=np.array([word for _, word in flat], np.int64),
        pairs=np.array(pairs, np.int64).reshape(-1, 2),
        punctuation=np.array([_is_punctuation(piece) for piece in tokenizer.pieces(range(tokenizer.vocabulary.size))]),
    )


def _is_punctuation(piece: str) -> bool:
    """Of a piece that does not open a word."""
    body = piece.removeprefix("##").removesuffix("</w>")
    return bool(body) and SPACE not in body and all(unicodedata.category(character).startswith("P") for character in body)
