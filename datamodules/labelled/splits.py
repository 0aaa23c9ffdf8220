"""Which labelled examples belong to a split: read from its files, held out by their text, or drawn as a few of many."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ...modalities.chance import chance, salt, uniform
from .examples import Question, Sentences, Tagged
from .layout import Format, Layout
from .overlap import Repeats

Files = str | list[str] | dict[str, str | list[str]]
"""By language; or files that say the languages of their examples themselves."""

FEW = salt("few examples")
HELD_OUT = salt("held out")

SHOWN = 6
"""Languages that are named where there are many."""

MERGED = "maps of languages merge: `{} null`, before one's own files, takes away all that a recipe names"
"""What helps where a recipe names languages that one has not."""


class Found(NamedTuple):
    """What the files of a split hold."""

    records: list[Any]
    """In the order of the files."""
    unknown: Counter[str]
    """Examples that were left out, in languages that the tokenizer does not know."""


def read_split(
    split: str, files: Files, format: Format, layout: Layout, classes: Collection[str], languages: Collection[str]
) -> Found:
    """All records of a split, in the order of its files.

    Args:
        split: Option that names the files, for messages.
        files: Where they are.
        format: What reads them.
        layout: What will lay them out.
        classes: Names of classes that may stand in them.
        languages: Those that the tokenizer knows. Examples in others are left out, and counted, where the file says their
            language.

    Raises:
        ValueError: A language that is given is unknown, records are of another kind or were read before, a class is unknown, or
            none is left; names the option or the file.
        FileNotFoundError: A file is not there.
    """
    by_language: Mapping[str | None, str | list[str]] = files if isinstance(files, dict) else {None: files}
    records: list[Any] = []
    unknown, repeats = Counter[str](), Repeats()
    for language, paths in by_language.items():
        option = f"data.{split}" if language is None else f"data.{split}.{language}"
        if language is not None and language not in languages:
            raise ValueError(
                f"{option}: the tokenizer does not know this language; it knows {_list(languages)}: leave it out "
                f"(`{option} null`), or take another tokenizer; {MERGED.format(f'data.{split}')}"
            )
        for path in _paths(option, paths):
            found = list(_read(option, Path(path), language, format, layout, classes))
            if not found:
                raise ValueError(f"{option}: no example is left of {path}; leave the file out, or copy it anew")
            repeats.refuse(option, Path(path), found)
            records += [record for record in found if record.language in languages]
            unknown.update(record.language for record in found if record.language not in languages)
    if not records:
        left_out = f"{unknown.total()} left out, in {tell_unknown(unknown)}" if unknown else "it names no file: give {en: FILE}"
        raise ValueError(f"data.{split}: no example is left to read; {left_out}")
    if split == "train" and not any(map(layout.is_labelled, records)):
        raise ValueError(f"data.train: not one of {len(records)} examples has a label, so nothing can be learnt; copy it anew")
    return Found(records, unknown)


def tell_unknown(unknown: Collection[str]) -> str:
    """Languages that the tokenizer does not know, in words: a few of them by name."""
    names = sorted(unknown)
    more = f", ... and {len(names) - SHOWN} more" if len(names) > SHOWN + 1 else ""
    return f"languages that the tokenizer does not know ({', '.join(names[:SHOWN] if more else names)}{more})"


def list_files(files: Files) -> list[Path]:
    """All files that an option names, as they are found from anywhere."""
    named = files.values() if isinstance(files, dict) else [files]
    return [Path(path).resolve() for paths in named for path in ([paths] if isinstance(paths, str) else paths or [])]


def _paths(option: str, paths: Any) -> list[str]:
    """Files that an option names, of which there must be some."""
    if not paths:
        raise ValueError(f"{option}: it names no file; give one, or leave the option out")
    return [paths] if isinstance(paths, str) else paths


def _read(
    option: str, file: Path, language: str | None, format: Format, layout: Layout, classes: Collection[str]
) -> Iterator[Any]:
    """Records of a file; what is wrong with it is told with the option that names it."""
    if not file.is_file():
        there = "a folder" if file.is_dir() else "no file"
        hint = "; give the files in it" if file.is_dir() else f"; {MERGED.format(_split(option))}" if language else ""
        raise FileNotFoundError(f"{option}: there is {there} {file}{hint}")
    try:
        for number, record in enumerate(format.read(file, language), 1):
            if not isinstance(record, layout.kind):
                raise ValueError(
                    f"data.layout: {type(layout).__name__} is for {layout.kind.__name__}, but {type(format).__name__} reads "
                    f"{type(record).__name__} from {file}; change the one or the other"
                )
            for name in layout.names(record) if layout.classifies else ():
                if name not in classes:
                    raise ValueError(
                        f"{file}: found the label {name!r} in example {number}, but data.labels are "
                        f"{_list(one for one in classes if one)}; add it, or leave such examples out of the file"
                    )
            yield record
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith("data.") else f"{option}: {error}") from None


def hold_out(records: Sequence[Any], share: float, held: bool) -> list[Any]:
    """One side of a set that is to be parted: a record's text alone decides, so that equal texts are never on both sides.

    Args:
        records: To part.
        share: From 0 to 1, of different texts that are held out, in the mean.
        held: Which side is wanted.
    """
    luck = uniform(HELD_OUT, torch.tensor([salt(subject(record)) for record in records]))
    return [record for record, is_held in zip(records, (luck < share).tolist(), strict=True) if is_held == held]


def subject(record: Any) -> str:
    """The text that an example is about; several may be about one: hypotheses about a premise, questions about a passage."""
    if isinstance(record, Question):
        return record.context
    return "\n".join(record.words) if isinstance(record, Tagged) else record.first


def draw_few(records: Sequence[Any], limits: Mapping[str, int], bucket: int) -> list[Any]:
    """Few-shot examples: of some languages a few, the rest whole; in the order of the records.

    Of classified sentences each class is drawn equally often, as far as there are any, and unlabelled ones never. More
    examples of a bucket hold the fewer; buckets are drawn independently of each other.

    Args:
        records: All of them.
        limits: How many at most, by language.
        bucket: Number of the draw.
    """
    places: dict[str, list[int]] = {}
    for place, record in enumerate(records):
        places.setdefault(record.language, []).append(place)
    kept: list[int] = []
    for language, own in places.items():
        if language in limits:
            luck = chance(FEW, bucket, salt(language), torch.arange(len(own))).tolist()
            own = _take_turns([(number, place) for number, place in zip(luck, own, strict=True)], records)[: limits[language]]
        kept += own
    return [records[place] for place in sorted(kept)]


def _take_turns(drawn: list[tuple[int, int]], records: Sequence[Any]) -> list[int]:
    """Places in the order of chance, but the first of each class before the second of any."""
    turns, order = Counter[str](), []
    for luck, place in sorted(drawn):
        label = records[place].label if isinstance(records[place], Sentences) else None
        if label != "":
            order.append((turns[label] if label else 0, luck, place))
            turns[label or ""] += 1
    return [place for _, _, place in sorted(order)]


def _split(option: str) -> str:
    """The option of all files of a split, of that of a language's."""
    return ".".join(option.split(".")[:2])


def _list(names) -> str:
    return ", ".join(sorted(names)) or "none"
