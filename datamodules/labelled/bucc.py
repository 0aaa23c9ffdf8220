"""Collections in which translations are to be found: the shared task of BUCC 2018

(https://comparable.limsi.fr/bucc2018/bucc2018-task.html), scored by F1 of the pairs that are found.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..shards.fields import check_language, is_blank
from .examples import Comparable
from .skips import tell_skips
from .tables import read_rows


@dataclass(frozen=True)
class Bucc:
    """A folder of `LANGUAGE-en.SPLIT.LANGUAGE`, `LANGUAGE-en.SPLIT.en` and `LANGUAGE-en.SPLIT.gold`.

    The first two have a key and a sentence a line, the third a key of each. All three are of the split that is asked for: no
    sentence of another one is searched.

    Args:
        split: The middle of the names: `dev` and `test` as XTREME renames them, `sample` and `training` at BUCC.
        pivot: The side that all have.
    """

    split: str = "dev"
    pivot: str = "en"

    def read(self, folder: Path, language: str | None = None, skipped: Counter[str] | None = None) -> Iterator[Comparable]:
        """The collections of each language, in order of their codes.

        Args:
            folder: Of the files, each tab-separated, UTF-8, `.gz` too.
            language: Only its files; None: all.
            skipped: Counts blank sentences, and pairs that have one; None: a warning tells.

        Raises:
            ValueError: Names file and line; a file is missing, empty, or there twice (plain and `.gz`), a line has not two
                columns, a key stands twice, or a pair has a key that no sentence has.
        """
        ending = f"-{self.pivot}.{self.split}.{self.pivot}"
        names = [file.name.removesuffix(".gz") for file in folder.glob("*")]
        languages = sorted({name.partition("-")[0] for name in names if name.endswith(ending)})
        taken = [code for code in languages if language in (None, code)]
        if not taken:
            found = ", ".join(languages) or "none"
            raise ValueError(f"{folder}: no file {language or 'LANGUAGE'}{ending}; languages found with this split: {found}")
        with tell_skips(folder, skipped) as skips:
            for code in taken:
                check_language(code, f"{folder}, {code}{ending}")
                start = f"{code}-{self.pivot}.{self.split}"
                texts, translations = (_read_texts(_require(folder, f"{start}.{side}"), skips) for side in (code, self.pivot))
                gold = _find(folder, f"{start}.gold")
                pairs = None if gold is None else _read_pairs(gold, texts, translations, skips)
                yield Comparable(code, self.pivot, _drop_blank(texts), _drop_blank(translations), pairs)


def _find(folder: Path, name: str) -> Path | None:
    found = [path for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
    if len(found) > 1:
        raise ValueError(f"{found[0]} and {found[1].name} are both there; which is meant is not told: move one away")
    return found[0] if found else None


def _require(folder: Path, name: str) -> Path:
    found = _find(folder, name)
    if found is None:
        raise ValueError(f"{folder}: {name} is missing; copy it beside the other side")
    return found


def _read_texts(file: Path, skipped: Counter[str]) -> dict[str, str]:
    """Sentences by key, blank ones too."""
    texts: dict[str, str] = {}
    for where, row in read_rows(file):
        if len(row) != 2:
            raise ValueError(f"{where}: found {len(row)} columns, expected a key, a tab and a sentence")
        key, text = row[0].strip(), row[1].strip()
        if key in texts:
            raise ValueError(f"{where}: the key {key!r} stands twice; copy the file anew")
        texts[key] = text
        skipped.update(["blank sentence"] if is_blank(text) else [])
    if all(map(is_blank, texts.values())):
        raise ValueError(f"{file}: {f'all of {len(texts)} sentences are blank' if texts else 'it is empty'}; copy it anew")
    return texts


def _drop_blank(texts: dict[str, str]) -> dict[str, str]:
    return {key: text for key, text in texts.items() if not is_blank(text)}


def _read_pairs(
    file: Path, texts: dict[str, str], translations: dict[str, str], skipped: Counter[str]
) -> frozenset[tuple[str, str]]:
    pairs = set()
    for where, row in read_rows(file):
        if len(row) != 2 or row[0].strip() not in texts or row[1].strip() not in translations:
            raise ValueError(
                f"{where}: found {row!r}, expected the key of a sentence, a tab and the key of its translation; both must be "
                "in the files beside it, of the same split"
            )
        text, translation = row[0].strip(), row[1].strip()
        if is_blank(texts[text]) or is_blank(translations[translation]):
            skipped["pair with a blank sentence"] += 1
        else:
            pairs.add((text, translation))
    return frozenset(pairs)
