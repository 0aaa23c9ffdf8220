"""What the files of published checkpoints say about their tokenizers.

| family | files that are looked for |
|---|---|
| xlm-roberta | `sentencepiece.bpe.model` (with fairseq's `dict.txt`, where it is, checked against it), else `tokenizer.json` |
| bert | `vocab.txt`, else `tokenizer.json`; what decides case, in `tokenizer_config.json` |
| xlm | `vocab.json` and `merges.txt` (with `config.json` for the languages), else XLM's own `codes*` and `vocab*` |
"""

import base64
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .cutters.bert import INSIDE, read_lines
from .cutters.own import open_model
from .cutters.xlm import END, SPECIAL, read_ids, read_merges, write_ids, write_merges
from .cutters.xlm_roberta import FIRST, MASK
from .sentencepiece_model import write_model


class Found(NamedTuple):
    """What the files of a checkpoint say."""

    files: dict[str, bytes]
    """Contents by ending, as `tokenizer_files` wants them."""
    options: dict[str, Any]
    read: tuple[Path, ...]
    """The files it was read from."""
    languages: tuple[str, ...] | None = None
    """In the order of the checkpoint's table, where they tell."""


def find_xlm_roberta(source: Path) -> Found:
    """The SentencePiece model of an XLM-R checkpoint.

    Raises:
        FileNotFoundError, ValueError: There is none, or fairseq's dictionary numbers pieces otherwise.
    """
    file = _find(source, "sentencepiece.bpe.model", "tokenizer.json")
    if file.suffix == ".json":
        return Found({".model": _model_of_json(file)}, {}, (file,))
    read, dictionary = [file], file.parent / "dict.txt"
    if dictionary.is_file():
        _check_dictionary(file, dictionary)
        read.append(dictionary)
    return Found({".model": file.read_bytes()}, {}, tuple(read))


def find_bert(source: Path, lower_case: bool | None) -> Found:
    """The WordPiece vocabulary of a BERT checkpoint, and how its texts are cleaned.

    Raises:
        FileNotFoundError, ValueError: There is none.
    """
    file = _find(source, "vocab.txt", "tokenizer.json")
    if file.suffix == ".json":
        vocabulary, said = _vocabulary_of_json(file)
    else:
        vocabulary = file.read_bytes()
        said = _read_json(file.parent / "tokenizer_config.json")
    pieces = [piece for piece in read_lines(vocabulary) if not (piece.startswith("[") and piece.endswith("]"))]
    lower = _choose_case(lower_case, said.get("do_lower_case"), pieces)
    accents, chinese = said.get("strip_accents"), said.get("tokenize_chinese_chars") is not False
    options = {"lower_case": lower, "strip_accents": lower if accents is None else accents, "chinese_characters": chinese}
    return Found({".vocab.txt": vocabulary}, options, (file,))


def find_xlm(source: Path, lower_case: bool | None, preset: str) -> Found:
    """The byte-pair codes of an XLM checkpoint, as Hugging Face or as XLM's own code writes them.

    Raises:
        FileNotFoundError, ValueError: There are none, or more than one pair.
    """
    folder = source if source.is_dir() else source.parent
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    foreign = source.is_dir() or source.name in (vocabulary.name, merges.name)
    if foreign and vocabulary.is_file() and merges.is_file():
        ids = read_ids(vocabulary.read_bytes(), str(vocabulary))
    else:
        merges, vocabulary = _find_codes(source)
        ids = _ids_of_counts(vocabulary)
    said = _read_json(folder / "config.json") | _read_json(folder / "tokenizer_config.json")
    pieces = [piece.removesuffix(END) for piece in ids if piece not in SPECIAL]
    options = {"lower_case": _choose_case(lower_case, said.get("do_lowercase_and_remove_accent"), pieces), "preset": preset}
    numbers = said.get("lang2id") or {}
    languages = tuple(sorted(numbers, key=numbers.__getitem__)) or None
    pairs = read_merges(merges.read_bytes(), str(merges))
    files = {".vocab.json": write_ids(ids), ".merges.txt": write_merges(pairs)}  # either way they were, these are one
    return Found(files, options, (vocabulary, merges), languages)


def _choose_case(given: bool | None, said: bool | None, pieces: Sequence[str]) -> bool:
    """Whether texts are lower-cased: what is given, what the configuration says, or what the vocabulary shows."""
    if given is not None:
        return given
    return said if said is not None else not any(re.search("[A-Z]", piece) for piece in pieces)


def _find(source: Path, *names: str) -> Path:
    """The file itself, or the first of these that a folder has."""
    if not source.is_dir():
        return source
    for name in names:
        if (source / name).is_file():
            return source / name
    raise FileNotFoundError(f"{source}: has neither {' nor '.join(names)}; give the folder of a checkpoint of this family")


def _read_json(file: Path) -> dict[str, Any]:
    """A configuration; empty where there is none.

    Raises:
        ValueError: It is no JSON object.
    """
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: not JSON ({error}); copy it anew") from None
    if not isinstance(content, dict):
        raise ValueError(f"{file}: expected a JSON object; copy it anew")
    return content


def _check_dictionary(file: Path, dictionary: Path) -> None:
    """Refuse a fairseq dictionary that numbers pieces otherwise than the model (fairseq#2572)."""
    processor = open_model(file.read_bytes(), str(file))
    model = [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]
    pieces = [line.rsplit(" ", 1)[0] for line in read_lines(dictionary.read_bytes())]
    if pieces != model:
        place = next((place for place, pair in enumerate(zip(pieces, model, strict=False)) if pair[0] != pair[1]), None)
        where = "" if place is None else f"; line {place + 1} is {pieces[place]!r}, the model has {model[place]!r}"
        raise ValueError(
            f"{dictionary}: {len(pieces)} pieces, but {file.name} has {len(model)} after its control tokens{where}; "
            "they are not of one checkpoint"
        )


def _tokenizer_json(file: Path, kind: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The model of Hugging Face's tokenizer.json, and its normalisers in order.

    Raises:
        ValueError: It is of another kind.
    """
    content = _read_json(file)
    model = content.get("model") or {}
    if model.get("type", kind if "vocab" in model else None) != kind:
        raise ValueError(f"{file}: its model is {model.get('type')!r}; expected {kind!r}, a checkpoint of this family")
    normalizer = content.get("normalizer") or {}
    return model, normalizer.get("normalizers", [normalizer] if normalizer else [])


def _vocabulary_of_json(file: Path) -> tuple[bytes, dict[str, Any]]:
    """A `vocab.txt`, and what `tokenizer_config.json` would say."""
    model, normalizers = _tokenizer_json(file, "WordPiece")
    names = {number: piece for piece, number in model["vocab"].items()}
    pieces = [names.get(number) for number in range(len(model["vocab"]))]
    marks = model.get("continuing_subword_prefix", INSIDE), model.get("unk_token", "[UNK]")
    if None in pieces or marks != (INSIDE, "[UNK]") or [one["type"] for one in normalizers] != ["BertNormalizer"]:
        raise ValueError(f"{file}: not numbered from 0, or not normalised or marked as BERT's; give its vocab.txt")
    (normalizer,) = normalizers
    if not normalizer["clean_text"]:
        raise ValueError(f"{file}: does not clean texts (clean_text: false), as BERT does; no such checkpoint is known")
    said = {"do_lower_case": normalizer["lowercase"], "strip_accents": normalizer["strip_accents"]}
    said["tokenize_chinese_chars"] = normalizer["handle_chinese_chars"]
    return ("\n".join(map(str, pieces)) + "\n").encode(), said


def _model_of_json(file: Path) -> bytes:
    """The SentencePiece model that a tokenizer.json was made of."""
    model, normalizers = _tokenizer_json(file, "Unigram")
    pieces = [(piece, score) for piece, score in model["vocab"]]
    names = [piece for piece, _ in pieces]
    if tuple(names[:4]) != FIRST or names[-1] != MASK or model.get("byte_fallback"):
        found = f"{' '.join(names[:4])} ... {names[-1]}"
        raise ValueError(f"{file}: its pieces are {found}; XLM-R's are {' '.join(FIRST)} ... {MASK}, without bytes")
    maps = [one.get("precompiled_charsmap") for one in normalizers if one["type"] == "Precompiled"]
    others = {one["type"] for one in normalizers} - {"Precompiled", "Replace", "Strip"}
    if others or len(maps) > 1:
        raise ValueError(f"{file}: normalises by {', '.join(sorted(others))}; XLM-R's has one precompiled map of characters")
    return write_model(pieces[4:-1], base64.b64decode(maps[0]) if maps else b"")


def _find_codes(source: Path) -> tuple[Path, Path]:
    """fastBPE's codes and the vocabulary of the same name."""
    codes = [source] if source.is_file() else sorted(file for file in source.glob("codes*") if file.is_file())
    if len(codes) != 1 or not codes[0].name.startswith("codes"):
        names = ", ".join(file.name for file in codes) or "neither vocab.json with merges.txt nor codes*"
        raise ValueError(f"{source}: found {names}; give the folder of an XLM checkpoint, or the file of its codes (codes_...)")
    vocabulary = codes[0].with_name("vocab" + codes[0].name.removeprefix("codes"))
    if not vocabulary.is_file():
        raise FileNotFoundError(f"{vocabulary} does not exist; it belongs to {codes[0].name}")
    return codes[0], vocabulary


def _ids_of_counts(file: Path) -> dict[str, int]:
    """Numbers of the pieces in XLM's list of pieces and counts, as XLM's `Dictionary` gives them.

    Lines that are not a piece and a count take no number; neither do pieces that are there already.
    """
    names = list(SPECIAL)
    seen = set(names)
    for line in read_lines(file.read_bytes()):
        parts = line.split()
        if "\u2028" in line or len(parts) != 2 or parts[0] in seen or not parts[1].isdigit():
            continue
        seen.add(parts[0])
        names.append(parts[0])
    if len(names) == len(SPECIAL):
        raise ValueError(f"{file}: no line is a piece and its count; give XLM's vocab_... file")
    ids: dict[str, int] = {}
    for number, name in enumerate(names):
        ids.setdefault(name if number < len(SPECIAL) else _ended(name), number)
    return ids


def _ended(name: str) -> str:
    """A piece with the mark of words' ends, of one with the mark of words that go on."""
    return name.removesuffix("@@") if name.endswith("@@") and name != "@@" else name + END
