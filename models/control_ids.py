"""Control ids as the tokenizer's files beside foreign weights have them; the weights themselves do not tell."""

from pathlib import Path
from typing import Any

from .families import Family
from .foreign_weights import read_facts

KEYS = {"pad": "pad_token", "unknown": "unk_token", "start": "cls_token", "end": "sep_token", "mask": "mask_token"}
"""Keys of `tokenizer_config.json`, where pieces have other names."""
BERT = {"pad": "[PAD]", "unknown": "[UNK]", "start": "[CLS]", "end": "[SEP]", "mask": "[MASK]"}
XLM_ROBERTA = {"pad": "<pad>", "unknown": "<unk>", "start": "<s>", "end": "</s>", "mask": "<mask>"}
PIECES = {
    "bert": BERT,
    "xlm-roberta": XLM_ROBERTA,
    "xlm-roberta-xl": XLM_ROBERTA,
    "xlm": {**XLM_ROBERTA, "start": "</s>", "mask": "<special1>"},
}


def read_control_ids(family: Family, folder: Path) -> tuple[dict[str, int], str]:
    """Control ids that the files of a tokenizer tell.

    Args:
        family: Whose control pieces to look for.
        folder: With `vocab.txt`, `vocab.json`, `tokenizer.json` or `tokenizer_config.json`, or without.

    Returns:
        Ids by control, those that are told; and the names of the files that were read.

    Raises:
        ValueError: A file is not what its name says.
    """
    said, _ = read_facts(folder / "tokenizer_config.json")
    numbers, files = _read_pieces(folder, said)
    named = {control: _content(said.get(KEYS[control])) for control in KEYS} if family.name != "xlm" else {}
    pieces = {control: named.get(control) or piece for control, piece in PIECES[family.name].items()}
    return {control: numbers[piece] for control, piece in pieces.items() if piece in numbers}, ", ".join(files)


def _read_pieces(folder: Path, said: dict[str, Any]) -> tuple[dict[str, int], list[str]]:
    numbers: dict[str, int] = {}
    files: list[str] = []
    if (folder / "vocab.txt").is_file():
        lines = (folder / "vocab.txt").read_text(encoding="utf-8", errors="replace").split("\n")
        numbers |= {line.strip(): number for number, line in enumerate(lines)}
        files.append("vocab.txt")
    for name in ("vocab.json", "tokenizer.json"):
        told, there = read_facts(folder / name)
        if there is not None:
            numbers |= told if name == "vocab.json" else _of_tokenizer(told)
            files.append(name)
    decoder = said.get("added_tokens_decoder")
    if isinstance(decoder, dict):
        numbers |= {_content(piece): int(number) for number, piece in decoder.items() if number.isdecimal()}
        files.append("tokenizer_config.json")
    return {piece: number for piece, number in numbers.items() if isinstance(number, int)}, files


def _of_tokenizer(told: dict[str, Any]) -> dict[str, Any]:
    model = told.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    numbers = dict(vocabulary) if isinstance(vocabulary, dict) else {}
    if isinstance(vocabulary, list):  # pieces with their scores
        numbers = {row[0]: number for number, row in enumerate(vocabulary) if isinstance(row, list) and row}
    added = told.get("added_tokens")
    return numbers | {_content(piece): piece.get("id") for piece in added or [] if isinstance(piece, dict)}


def _content(piece: Any) -> str | None:
    """A piece's text: it stands alone, or in an object that says more."""
    text = piece.get("content") if isinstance(piece, dict) else piece
    return text if isinstance(text, str) else None
