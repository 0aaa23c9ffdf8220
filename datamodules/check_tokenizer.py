"""Is a tokenizer fit for some data? What it makes of the texts of each language, and what of that would spoil training.

Fertility is the mean number of pieces a word (Rust et al., arXiv:2012.15613, section 3.2), and pieces a character in
scripts that put no spaces between words. The nearer it is between languages, the more alike their share of a batch and of
the longest text that is read.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from ..modalities.tokenizer import Tokenizer
from ..modalities.words import is_unspaced
from .sample import BadSampleError
from .shards.progress import track
from .shards.reader import ShardSet

TEXTS_AT_ONCE = 2048
MOST_UNKNOWN, MOST_BYTES, LEAST_ROUND_TRIP, MOST_CUT = 0.01, 0.1, 0.99, 0.05
"""Shares of pieces that are unknown, or bytes, of texts that come back, and of texts that are cut: beyond, it is told."""
TOLD_CHARACTERS = 20


@dataclass
class LanguageReport:
    """What a tokenizer makes of the texts of one language.

    Attributes:
        texts: How many there are. read: How many of them were cut into pieces; all that follows is of these.
        words: Words between spaces. characters: Without spaces.
        unspaced: Whether most characters are of scripts that put no spaces between words.
        pieces: In all. unknown, bytes: Pieces that are the unknown token, or bytes of a character that is not in the
            vocabulary.
        returned: Texts of which `decode(encode(text))` gives the normalised text, spaces left out of account where pieces do
            not tell them. lost: The first that it does not, and what came back.
        longest: Tokens of the longest text, start and end token included. cut: Texts of more than the limit.
        lacking: Most frequent characters that the vocabulary does not have, and how often they stand there.
    """

    texts: int
    read: int = 0
    words: int = 0
    characters: int = 0
    unspaced: bool = False
    pieces: int = 0
    unknown: int = 0
    bytes: int = 0
    returned: int = 0
    lost: tuple[str, str] | None = None
    longest: int = 0
    cut: int = 0
    lacking: dict[str, int] = field(default_factory=dict)

    @property
    def fertility(self) -> float:
        """Pieces a character in an unspaced script, else pieces a word."""
        return self.pieces / max(1, self.characters if self.unspaced else self.words)

    @property
    def shares(self) -> dict[str, float]:
        """Of pieces: `unknown`, `bytes`; of texts: `returned`, `cut`."""
        of_pieces = {name: getattr(self, name) / max(1, self.pieces) for name in ("unknown", "bytes")}
        return of_pieces | {name: getattr(self, name) / max(1, self.read) for name in ("returned", "cut")}


@dataclass
class TokenizerReport:
    """What `check_tokenizer` found.

    Attributes:
        tokenizer: What it is: path, hash, normalisation, vocabulary, languages.
        max_tokens: Tokens beyond which a text is cut.
        languages: By code, the largest first.
        unreadable: Samples that could not be read, by kind.
        problems: Why it is not fit. notes: What is worth knowing.
    """

    tokenizer: dict[str, Any]
    max_tokens: int
    languages: dict[str, LanguageReport]
    unreadable: dict[str, int]
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def fit(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """All of it, with rates computed."""
        languages = {
            code: {**asdict(one), "fertility": one.fertility, "shares": one.shares} for code, one in self.languages.items()
        }
        return {**asdict(self), "languages": languages, "fit": self.fit}


def check_tokenizer(
    tokenizer: Tokenizer,
    shards: ShardSet,
    max_tokens: int = 512,
    limit: int = 20_000,
    languages: Sequence[str] | None = None,
    roles: Sequence[str] | None = None,
) -> TokenizerReport:
    """Cut the texts of some shards into pieces and back.

    Args:
        tokenizer: What is judged.
        shards: Where the texts are.
        max_tokens: Longest text that will be read, start and end token included.
        limit: Texts of each language that are read at most, evenly spread.
        languages, roles: Of the texts; None: all.

    Raises:
        ValueError: There is no text of these roles, or none in one of the languages.
    """
    chosen, counts = choose_texts(shards, limit, languages, roles)
    unreadable = Counter(fault.kind for fault in shards.faults)
    found = {code: LanguageReport(count) for code, count in counts.most_common()}
    tallies = {code: _Tally(tokenizer, code, report, max_tokens) for code, report in found.items()}
    for code, text in read_texts(shards, chosen, unreadable):
        tallies[code].add(text)
    for tally in tallies.values():
        tally.finish()
    about = {"path": tokenizer.path, "hash": tokenizer.hash, "normalization": tokenizer.normalization}
    about |= {"vocabulary": asdict(tokenizer.vocabulary), "languages": tokenizer.languages}
    report = TokenizerReport(about, max_tokens, found, dict(unreadable))
    judge(report)
    idle = [code for code in tokenizer.languages if code not in found]
    if idle and languages is None:
        report.notes.append(f"languages of the tokenizer without text here: {', '.join(idle)}")
    return report


def choose_texts(
    shards: ShardSet, limit: int, languages: Sequence[str] | None = None, roles: Sequence[str] | None = None
) -> tuple[np.ndarray, Counter[str]]:
    """Numbers of at most `limit` texts of each language, ascending, and how many there are of each.

    Raises:
        ValueError: There is no text of these roles, or none in one of the languages.
    """
    table = shards.texts
    fit = np.ones(len(table.language), bool)
    if roles is not None:
        fit = np.isin(table.role, [shards.roles.index(role) for role in roles if role in shards.roles])
    chosen, counts = [], Counter[str]()
    for number, code in enumerate(shards.languages):
        own = np.flatnonzero(fit & (table.language == number))
        if len(own) and (languages is None or code in languages):
            counts[code] = len(own)
            chosen.append(own[np.linspace(0, len(own) - 1, min(limit, len(own))).round().astype(np.int64)])
    missing = [code for code in languages or () if code not in counts]
    if missing or not chosen:
        asked = f"in {', '.join(missing)}" if missing else "at all"
        among = "" if roles is None else f" in the roles {', '.join(roles)}"
        raise ValueError(
            f"found no text {asked}{among}; the shards have languages {', '.join(shards.languages) or '(none)'}, roles "
            f"{', '.join(shards.roles) or '(none)'}"
        )
    return np.sort(np.concatenate(chosen)), counts


def read_texts(shards: ShardSet, chosen: np.ndarray, unreadable: Counter[str]) -> Iterator[tuple[str, str]]:
    """Language and text of some texts; samples that cannot be read are counted by kind.

    Args:
        shards: Where they are.
        chosen: Numbers of texts, ascending.
        unreadable: Is added to.
    """
    start = shards.texts.start
    samples = np.searchsorted(start, chosen, side="right") - 1
    places = np.split(chosen - start[samples], np.flatnonzero(np.diff(samples)) + 1)
    numbers = np.unique(samples).tolist()
    for sample, own in zip(track(numbers, "cutting texts into pieces"), places, strict=True):
        try:
            texts = shards.read(sample, image=False, members=()).texts
        except BadSampleError as error:
            unreadable[error.kind] += 1
            continue
        yield from ((texts[place].language, texts[place].text) for place in own.tolist() if place < len(texts))


class _Tally:
    """Adds up one language, some texts at a time."""

    def __init__(self, tokenizer: Tokenizer, language: str, report: LanguageReport, max_tokens: int):
        self.tokenizer, self.language, self.report, self.max_tokens = tokenizer, language, report, max_tokens
        self.texts: list[str] = []
        self.letters: Counter[str] = Counter()

    def add(self, text: str) -> None:
        self.texts.append(text)
        if len(self.texts) == TEXTS_AT_ONCE:
            self._cut()

    def finish(self) -> None:
        self._cut()
        report, letters = self.report, self.letters
        del letters[" "]
        report.characters = letters.total()
        report.unspaced = 2 * sum(count for letter, count in letters.items() if is_unspaced(letter)) > report.characters
        lacking = [letter for letter, _ in letters.most_common() if not self.tokenizer.has_piece(letter)]
        report.lacking = {letter: letters[letter] for letter in lacking[:TOLD_CHARACTERS]}

    def _cut(self) -> None:
        report, tokenizer = self.report, self.tokenizer
        pieces = tokenizer.encode(self.texts, [self.language] * len(self.texts))
        texts = [tokenizer.normalize(text, self.language) for text in self.texts]
        report.read += len(texts)
        report.words += sum(text.count(" ") + 1 for text in texts)
        for text in texts:
            self.letters.update(text)
        report.pieces += len(pieces.ids)
        report.unknown += int((pieces.ids == tokenizer.vocabulary.unknown).sum())
        report.bytes += int(tokenizer.byte_pieces[pieces.ids].sum())
        report.longest = max(report.longest, int(pieces.counts.max(initial=-2)) + 2)
        report.cut += int((pieces.counts + 2 > self.max_tokens).sum())
        ids = iter(pieces.ids.tolist())
        for text, count in zip(texts, pieces.counts.tolist(), strict=True):
            back = tokenizer.decode(list(islice(ids, count)))
            same = back == text if tokenizer.keeps_spaces else _without_spaces(back) == _without_spaces(text)
            report.returned += same
            if not same and report.lost is None:
                report.lost = text, back
        self.texts = []


def _without_spaces(text: str) -> str:
    return "".join(text.split())


def judge(report: TokenizerReport) -> None:
    """Add problems and notes about the languages."""
    known = report.tokenizer["languages"]
    foreign = [code for code in report.languages if code not in known]
    if foreign:
        report.problems.append(
            f"languages of the data that the tokenizer does not know, so that reading them is an error ({len(foreign)}): "
            f"{', '.join(foreign)}; train or import it with them (`interlingua tokenizer train --languages`), or leave them "
            "out of what is read, and check the others (--languages)"
        )
    for code, one in report.languages.items():
        if code not in known:
            continue
        share = one.shares
        if share["unknown"] > MOST_UNKNOWN:
            report.problems.append(f"{code}: {share['unknown']:.1%} of the pieces are unknown: their content is lost")
        if share["bytes"] > MOST_BYTES:
            report.problems.append(
                f"{code}: {share['bytes']:.1%} of the pieces are bytes of characters that are not in the vocabulary "
                f"({' '.join(list(one.lacking)[:10])}); train the tokenizer on texts that have them"
            )
        if one.lost and share["returned"] < LEAST_ROUND_TRIP:
            report.problems.append(
                f"{code}: only {share['returned']:.1%} of the texts come back from their pieces; {one.lost[0]!r} comes back "
                f"as {one.lost[1]!r}"
            )
        if share["cut"] > MOST_CUT:
            report.notes.append(
                f"{code}: {share['cut']:.1%} of the texts are longer than {report.max_tokens} tokens and are cut"
            )
