"""What shards are written from: folders, CSV and JSONL of captions and pictures.

Parallel text stands in `parallel.py`, documents in `documents.py`.

Every source is a generator of `Record`. What can be skipped is counted by kind in the `skipped` that it is given; what
cannot be meant raises ValueError with the file, the line, the column, and the fix. Texts may be gzipped (`.gz`).
"""

import csv
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..sample import BadSampleError, Caption
from .fields import PICTURES, FieldMap, TextField, check_language, excerpt, is_blank, read_texts
from .joining import Key, LineChoice, join, join_documents, join_parallel_documents, read_place, read_values
from .json_lines import read_objects
from .lines import Lines
from .records import NOTED, Record

_CSV_COLUMNS = ("image", "caption", "language", "role", "item")
_CONTENTS = ("caption", "captions", "text", "texts")
_FIELDS = {*_CONTENTS, "image", "item", "language", "role", "src", "tgt", "src_lang", "tgt_lang"}


def read_folder(folder: Path, language: str, skipped: Counter[str]) -> Iterator[Record]:
    """Pictures, each with `NAME.txt` (a caption a line) and `NAME.LANGUAGE.txt` beside it; sub-folders too.

    Args:
        folder: Where they are; the item of a picture is its path from there.
        language: Language code of `NAME.txt`.
        skipped: Counts files of other extensions, blank lines, texts without picture, and pictures without text.
    """
    if not folder.is_dir():
        raise ValueError(
            f"{folder}: expected a folder of pictures and texts, found {'a file' if folder.exists() else 'nothing'}"
        )
    pictures: dict[Path, Path] = {}
    texts: dict[Path, list[tuple[str, Path]]] = {}
    for path in sorted(path for path in folder.rglob("*") if not path.name.startswith(".")):
        if not path.is_file():
            skipped["link to a folder, or to nothing"] += path.is_symlink()
            continue
        extension = path.suffix[1:].lower()
        if extension in PICTURES:
            if other := pictures.get(path.with_suffix("")):
                raise ValueError(f"{path}: {other.name} has the same name, so their texts would be the same; rename one")
            pictures[path.with_suffix("")] = path
        elif extension == "txt":
            texts.setdefault(path.with_suffix(""), []).append((language, path))
        else:
            skipped[f"unknown extension {path.suffix or '(none)'}"] += 1
    for base in [base for base in texts if base not in pictures and base.with_suffix("") in pictures and base.suffix]:
        code = check_language(base.suffix[1:], f"{base}.txt, between the dots")
        texts.setdefault(base.with_suffix(""), []).extend((code, path) for _, path in texts.pop(base))
    skipped["text without picture"] += len(texts.keys() - pictures.keys())
    for base, path in pictures.items():
        captions = [Caption(code, line) for code, file in texts.get(base, []) for line in _lines(file, skipped)]
        if captions:
            yield Record(tuple(captions), _decode_name(path.relative_to(folder)), path)
        else:
            skipped["picture without text"] += 1


def read_csv(file: Path, language: str, pictures: Path | None, skipped: Counter[str]) -> Iterator[Record]:
    """Rows under a header: `image` (a path), `caption`, and optionally `language`, `role`, `item`.

    Instead of `caption` there may be a column a language: `caption_en`, `caption_de`, ...

    Args:
        file: Comma-separated, UTF-8.
        language: Language code of `caption` where there is no column for it.
        pictures: Folder that paths start from; None for the folder of the file.
        skipped: Counts blank captions and rows without any.
    """
    csv.field_size_limit(2**31 - 1)  # 128 KiB by default, and a text may be a document
    with Lines(file) as lines, _csv_faults(lines):
        rows = csv.DictReader(lines, strict=True)
        columns = list(rows.fieldnames or [])
        languages = _check_header(file, columns)
        for row in rows:
            where = f"{file}, line {lines.number}"
            if None in row or None in row.values():
                few = sum(value is not None for value in row.values())
                count = len(columns) + len(row.popitem()[1]) if None in row else few  # the surplus stands last, under None
                raise ValueError(f"{where}: found {count} columns, the header has {len(columns)}; quote texts that have commas")
            code = check_language(row.get("language") or language, f"{where}, column language")
            found = {"caption": code} | languages if "caption" in row else languages
            role = row.get("role") or "caption"
            captions = tuple(Caption(own, row[name].strip(), role) for name, own in found.items() if not is_blank(row[name]))
            skipped["blank caption"] += len(found) - len(captions)
            if not captions:
                continue
            image = _find_picture(row.get("image"), pictures or file.parent, f"{where}, column image")
            yield Record(captions, row.get("item") or row.get("image") or None, image)


def read_jsonl(
    file: Path,
    language: str,
    pictures: Path | None,
    skipped: Counter[str],
    choice: LineChoice = LineChoice(),  # noqa: B008 - it is immutable
) -> Iterator[Record]:
    """One object a line: `image` (a path) and `caption` (a text or a list), `captions` (by language), or `texts`.

    `texts` is a list of objects with `text`, `lang` and `role`. A line with `src` and `tgt` is parallel text, its
    languages in `src_lang` and `tgt_lang`. Optional: `language`, `role`, `item`.

    Args:
        file: JSON lines, UTF-8.
        language: Language code of texts that do not say theirs.
        pictures: Folder that paths start from; None for the folder of the file.
        skipped: Counts blank texts, lines without any, fields that nothing reads, and what is left out.
        choice: Which lines are read, and which of them together make one sample.
    """
    lines = _read_jsonl(file, language, pictures, skipped, choice)
    if choice.documents:
        return (join_parallel_documents if choice.parallel else join_documents)(lines, skipped)
    pairs = ((key, record) for key, _, record in lines)
    return join(pairs, skipped) if choice.group else (record for _, record in pairs)


def _read_jsonl(
    file: Path, language: str, pictures: Path | None, skipped: Counter[str], choice: LineChoice
) -> Iterator[tuple[Key, int, Record]]:
    """Key of a line's group or document, its place in a document, and what it holds."""
    known = _FIELDS.union(choice.conditions, choice.group, [choice.documents])
    unseen = set(choice.languages)
    for where, record in read_objects(file, skipped, "an object with a caption"):
        if not choice.takes(record, where):
            skipped["line that --where leaves out"] += 1
            continue
        found = _read_line(record, language, where)
        sides = [side for side in ("src", "tgt") if side in record]
        if choice.parallel and not {"src", "tgt"} <= record.keys():
            raise ValueError(f"{where}: found {', '.join(record)}, but --parallel reads the texts of src and tgt")
        texts = [text for text in found if not choice.languages or text.language in choice.languages]
        for caption in texts:
            check_language(caption.language, f"{where}, language of {caption.text[:30]!r}")
            unseen.discard(caption.language)
        captions = tuple(caption for caption in texts if not is_blank(caption.text))
        skipped.update(_unread(record, known))
        skipped["text in a language that --languages leaves out"] += len(found) - len(texts)
        skipped[f"blank {' or '.join(sides) or 'caption'}"] += len(texts) - len(captions)
        skipped[f"{NOTED}line without {'tgt' if 'src' in sides else 'src'}"] += len(sides) == 1
        pair = sides and (choice.parallel or not choice.documents)
        skipped["pair that lacks a text"] += bool(pair) and len(captions) < 2
        if not captions or (pair and len(captions) < 2):
            continue
        image = _find_picture(record.get("image"), pictures or file.parent, f"{where}, field image")
        key, place = read_values(record, choice.group, where), 0
        if choice.documents:
            document, place = read_place(record, choice.documents, where)
            key = (*key, document)
            if image:
                raise ValueError(f"{where}: found a picture, but documents have none; leave --documents out, or the pictures")
        yield key, place, Record(captions, read_identity(record, where), image)
    skipped.update(f"{NOTED}language of --languages that no text is in: {code}" for code in sorted(unseen))


def _decode_name(path: Path) -> str:
    """The name as it is stored, whatever the locale makes of it."""
    try:
        return os.fsencode(path.as_posix()).decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{str(path)!a}: the name of the file is not UTF-8; rename it") from None


def _check_header(file: Path, columns: list[str]) -> dict[str, str]:
    """Columns that hold captions of a language of their own, and that language."""
    where = f"{file}, line 1 (header)"
    languages = {
        name: check_language(name.removeprefix("caption_"), f"{where}, column {name}")
        for name in columns
        if name.startswith("caption_")
    }
    unknown = [name for name in columns if name not in _CSV_COLUMNS and name not in languages]
    if twice := [name for name in columns if columns.count(name) > 1]:
        raise ValueError(f"{where}: column {twice[0]} stands twice; give each column a name of its own")
    if unknown or not ("caption" in columns or languages):
        raise ValueError(
            f"{where}: found columns {', '.join(map(repr, columns)) or '(none)'}; expected caption or caption_LANGUAGE, and of "
            f"image, language, role, item what you have{_mend_header(columns, unknown)}"
        )
    return languages


def _mend_header(columns: list[str], unknown: list[str]) -> str:
    if len(columns) == 1 and (mark := next((mark for mark in ";\t|" if mark in columns[0]), None)):
        return f"; separate columns with commas, not with {mark!r}"
    plain = {name: name.strip().lower() for name in unknown}
    fixes = [f"rename {name!r} to {plain[name]}" for name in unknown if plain[name] in _CSV_COLUMNS]
    fixes += [f"remove {name!r}" for name in unknown if plain[name] not in _CSV_COLUMNS]
    return "".join(f"; {fix}" for fix in fixes)


@contextmanager
def _csv_faults(lines: Lines) -> Iterator[None]:
    try:
        yield
    except csv.Error as error:
        raise ValueError(
            f"{lines.file}, line {lines.number}: {error}; expected comma-separated, texts in double quotes"
        ) from None


def _read_line(record: Mapping[str, Any], language: str, where: str) -> list[Caption]:
    """All texts of a JSON line, blank ones too."""
    for name in ("src", "tgt", "src_lang", "tgt_lang", "language", "role"):
        if not isinstance(record.get(name, ""), str):
            raise ValueError(f"{where}, field {name}: found {excerpt(record[name])}, expected a text")
    code, role = record.get("language", language), record.get("role", "caption")
    if "src" in record or "tgt" in record:
        sides = [side for side in ("src", "tgt") if side in record]
        if missing := [f"{side}_lang" for side in sides if f"{side}_lang" not in record]:
            raise ValueError(f"{where}: there is no field {missing[0]}, found {', '.join(record)}; expected a language")
        texts = [Caption(record[f"{side}_lang"], record[side].strip(), "sentence") for side in sides]
    elif content := [name for name in _CONTENTS if name in record]:
        try:
            language = check_language(code, where)
            sources = [TextField("json", name, language, role=role, by_language=True) for name in content]
            texts = read_texts({}, {"json": record}, FieldMap(texts=sources))
        except BadSampleError as error:
            raise ValueError(f"{where}: {error.detail}") from None
    else:
        found = ", ".join(record) or "none"
        raise ValueError(f"{where}: found fields {found}; expected caption, captions, texts, or src and tgt")
    return texts


def _unread(record: Mapping[str, Any], known: Set[str]) -> list[str]:
    """Fields of a line, and of its texts, that nothing reads: perhaps misspelt."""
    kinds = [f"field {name}, not read" for name in record if name not in known]
    texts = [text for name in ("texts", "caption", "captions") for text in _listed(record.get(name))]
    named = {name for text in texts if isinstance(text, dict) and "text" in text for name in text}
    return kinds + [f"field {name} of a text, not read" for name in sorted(named - {"text", "lang", "role"})]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def read_identity(record: Mapping[str, Any], where: str) -> str | int | None:
    """The item of a line, else its picture.

    Raises:
        ValueError: The item is neither a text nor a whole number.
    """
    item = record.get("item")
    if isinstance(item, bool) or not isinstance(item, str | int | None):
        raise ValueError(f"{where}, field item: found {json.dumps(item)[:80]}, expected a text or a whole number")
    return (record.get("image") or None) if item in (None, "") else item


def _find_picture(name: Any, folder: Path, where: str) -> Path | None:
    if name is None or name == "":
        return None
    if not isinstance(name, str) or "\0" in name or len(name) > 4000:
        raise ValueError(f"{where}: found {excerpt(name)}, expected the path of a picture")
    path = folder / name
    if path.suffix[1:].lower() not in PICTURES:
        raise ValueError(f"{where}: {name} has no known extension; expected any of {', '.join(PICTURES)}")
    if not path.is_file():
        raise ValueError(f"{where}: there is no picture {path}; paths start from {folder} (--pictures changes it)")
    return path


def _lines(file: Path, skipped: Counter[str]) -> Iterator[str]:
    with Lines(file) as lines:
        for line in lines:
            if line.strip():
                yield line.strip()
            else:
                skipped["blank caption"] += 1
