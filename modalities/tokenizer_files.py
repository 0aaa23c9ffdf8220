"""The files of a tokenizer: `NAME.json`, its card, and beside it what the family of its vocabulary needs.

| family | beside `NAME.json` |
|---|---|
| ours | `NAME.model` |
| xlm-roberta | `NAME.model` |
| bert | `NAME.vocab.txt` |
| xlm | `NAME.vocab.json`, `NAME.merges.txt` |

The card says what the files cannot: family, languages in order, how texts are normalised, the control ids, and the checksums
of the files that it belongs to.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .normalization import POLICY
from .vocabulary import Vocabulary

OWN = "interlingua"
"""Family of the tokenizers that `interlingua tokenizer train` writes."""
FILES = {
    OWN: (".model",),
    "xlm-roberta": (".model",),
    "bert": (".vocab.txt",),
    "xlm": (".vocab.json", ".merges.txt"),
}
_OWN_FORMAT, _FORMAT = 1, 2


@dataclass(frozen=True)
class Card:
    """A tokenizer as its files describe it.

    Attributes:
        path: As it was given.
        family: One of `FILES`.
        files: Contents by ending.
        options: What else the family's cutter is built from.
        normalization: What its texts were normalised by when the card was written.
        vocabulary: Size and control ids, by name.
        languages: Codes in the order of their ids.
    """

    path: str
    family: str
    files: dict[str, bytes]
    options: dict[str, Any]
    normalization: str
    vocabulary: dict[str, int]
    languages: tuple[str, ...]

    @property
    def hash(self) -> str:
        """Checksum over all that decides ids."""
        return self._sum(self.languages)

    @property
    def pieces_hash(self) -> str:
        """Checksum over all that decides the ids of pieces: all but the languages."""
        return self._sum()

    def _sum(self, *more: Any) -> str:
        if self.family == OWN:
            parts: list[Any] = [checksum(self.files[".model"]), POLICY]
        else:
            parts = [self.family, {ending: checksum(data) for ending, data in sorted(self.files.items())}]
            parts += [dict(sorted(self.options.items())), self.normalization, self.vocabulary]
        return hashlib.sha256(json.dumps([*parts, *more]).encode()).hexdigest()

    def check(self, vocabulary: Vocabulary, normalization: str) -> None:
        """Refuse a card that says something else than what was built from it.

        Raises:
            ValueError: Names both.
        """
        if self.normalization != normalization:
            raise ValueError(
                f"{_card_of(Path(self.path))}: normalization is {self.normalization!r}, but this version does "
                f"{normalization!r}; restore the .json written with the model, or train or import the tokenizer again"
            )
        if self.vocabulary != asdict(vocabulary):
            raise ValueError(
                f"{self.path}: the model has {asdict(vocabulary)}, its .json says {self.vocabulary}; "
                "train or import the tokenizer again or restore the .json that was written with it"
            )


def read_card(path: Path) -> Card:
    """Read all files of a tokenizer.

    Args:
        path: `NAME.json`, or the `NAME.model` beside it.

    Raises:
        FileNotFoundError: One of the files is missing.
        ValueError: They do not belong together, or are no tokenizer's.
    """
    if path.suffix not in (".model", ".json"):
        raise ValueError(f"tokenizer {path}: give the path of its NAME.json, or of the NAME.model beside it")
    file = _card_of(path)
    for needed in (path, file):
        _check_is_there(needed)
    written = _read_json(file)
    family = OWN if written["format"] == _OWN_FORMAT else written["family"]
    expected = dict.fromkeys(FILES[OWN], written["sha256"]) if family == OWN else written["files"]
    files = {}
    for ending in FILES[family]:
        _check_is_there(part := path.with_suffix(ending))
        files[ending] = part.read_bytes()
        if expected.get(ending) != checksum(files[ending]):
            raise ValueError(
                f"{file}: sha256 is {expected.get(ending)!r}, but {part.name} has {checksum(files[ending])!r}; "
                "restore the .json written with it, or train or import the tokenizer again"
            )
    languages, options = _check_languages(written["languages"], file), written.get("options") or {}
    return Card(str(path), family, files, options, written["normalization"], written["vocabulary"], languages)


def write_card(card: Card, **about: Any) -> None:
    """Write all files of a tokenizer.

    Args:
        card: What they are to say; its path is `NAME.json` or `NAME.model`.
        about: Where it is from: for people, read by nothing.
    """
    path = Path(card.path)
    sums = {ending: checksum(data) for ending, data in card.files.items()}
    if card.family == OWN:
        head: dict[str, Any] = {"format": _OWN_FORMAT, "sha256": sums[".model"]}
    else:
        head = {"format": _FORMAT, "family": card.family, "files": sums, "options": card.options}
    written = {
        **head,
        "normalization": card.normalization,
        "vocabulary": card.vocabulary,
        "languages": list(card.languages),
        **about,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    for ending, data in card.files.items():
        path.with_suffix(ending).write_bytes(data)
    _card_of(path).write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def checksum(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _card_of(path: Path) -> Path:
    return path.with_suffix(".json")


def _check_is_there(file: Path) -> None:
    if not file.is_file():
        raise FileNotFoundError(
            f"tokenizer file {file} does not exist; a tokenizer is NAME.json with its model or vocabulary beside it, as "
            "`interlingua tokenizer train` and `interlingua tokenizer import` write them"
        )


def _read_json(file: Path) -> Mapping[str, Any]:
    """A card as it is written."""
    try:
        written = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"{file} does not describe a tokenizer ({error!r}); `tokenizer train` or `import` writes it"
        ) from error
    if isinstance(written, dict) and "model" in written and "added_tokens" in written:
        raise ValueError(
            f"{file} is Hugging Face's; take it over first: `interlingua tokenizer import {file} --as FAMILY --languages ... "
            "--output NAME.json`"
        )
    try:
        own = written["format"] == _OWN_FORMAT
        needed = ("sha256",) if own else ("family", "files")
        found = {key: written[key] for key in ("format", "normalization", "vocabulary", "languages", *needed)}
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{file} does not describe a tokenizer ({error!r}); `tokenizer train` or `import` writes it"
        ) from error
    if found["format"] not in (_OWN_FORMAT, _FORMAT) or (not own and found["family"] not in FILES):
        raise ValueError(
            f"{file}: format {found['format']!r}, family {found.get('family')!r}; this version reads formats {_OWN_FORMAT} and "
            f"{_FORMAT}, families {', '.join(FILES)}"
        )
    return written


def _check_languages(languages: Any, file: Path) -> tuple[str, ...]:
    if not (isinstance(languages, list) and languages and all(isinstance(code, str) and code for code in languages)):
        raise ValueError(f"{file}: languages is {languages!r}; expected a list of codes in the order of their ids")
    return tuple(check_unique(languages, str(file)))


def check_unique(languages: Sequence[str], where: str) -> Sequence[str]:
    """Refuse a language that is there twice.

    Raises:
        ValueError: One is.
    """
    if len(set(languages)) < len(languages):
        raise ValueError(f"{where}: languages is {list(languages)!r}; every code must be there once")
    return languages
