"""Checkpoints' tokenizer files, small, in the three published families, trained on real sentences in many languages."""

import gzip
import io
import json
import tempfile
from collections import Counter, defaultdict
from functools import cache
from itertools import islice
from pathlib import Path

from interlingua.modalities.cutters.moses import MosesWords
from interlingua.modalities.cutters.xlm import SPECIAL

HOSTILE = [
    "",
    "   ",
    "\u200b",
    "\ufeff\u200b \n",
    "\u200d",
    "\ufe0f \u200c",
    "\x00\x07",
    "\u00ad\u202e\u2066",
    "caf\u00e9",
    "cafe\u0301",
    "\uac01",
    "\u1100\u1161\u11a8",
    "\u30b0",
    "\u30af\u3099",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u0627\u0644\u0641\u0635\u0644 12 \u0645\u0646 2024",
    "tab\tand\nline\r\nend",
    "no\u00a0break \u2003 em \u3000 wide",
    "don't can\u2019t \u201cquoted\u201d (a,b) e.g. Mr. Smith: 3,000.5% well-known...",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30b9\u30c8\u3067\u3059\u3002Hello\u4e16\u754c",
    "\uff21\uff22\uff23\u3000\uff11\uff12\uff13 \ufb01n \u2167",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u1200\u1208 \U00010348 \u2a6d6 \ue000",
    "a" * 150,
]
_FOLDER = tempfile.TemporaryDirectory()
XLM_LANGUAGES = ("ar", "bg", "de", "el", "en", "es", "fr", "hi", "it", "ro", "ru", "sw", "tr", "ur", "vi", "zh", "th")
LITERALS = ["a </s> b", "<mask>", "<s>", "<pad><unk>", "[MASK] [SEP]", "[CLS]", "<special1> x", "##ing", "b@@ c</w>"]


@cache
def sentences(data: Path) -> list[tuple[str, str]]:
    """Language and text of two real sentences in every language, of twenty in XLM's."""
    found: dict[str, list[str]] = defaultdict(list)
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in islice(file, 0, None, 4):
            row = json.loads(line)
            # Wesnoth's name grammars are templates of hundreds of characters without a space: no language.
            if row["source"] == "wesnoth":
                continue
            for code, text in ((row["tgt_lang"], row["tgt"]), ("en", row["src"])):
                if len(found[code]) < (20 if code in XLM_LANGUAGES else 2) and text[:120] not in found[code]:
                    found[code].append(text[:120])
    return [(code, text) for code, texts in sorted(found.items()) for text in texts]


def of_xlm(data: Path) -> list[tuple[str, str]]:
    """Those in XLM's languages."""
    return [(code, text) for code, text in sentences(data) if code in XLM_LANGUAGES]


@cache
def checkpoints(data: Path) -> Path:
    """`xlm-roberta`, `bert`, `uncased` and `xlm`, once a process; files that tests may copy, never change."""
    folder = Path(_FOLDER.name)
    write_xlm_roberta(data, folder / "xlm-roberta")
    write_bert(data, folder / "bert")
    write_bert(data, folder / "uncased", lower_case=True)
    write_xlm(data, folder / "xlm")
    return folder


def write_xlm_roberta(data: Path, folder: Path) -> Path:
    """`sentencepiece.bpe.model` in a folder."""
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=(text for _, text in sentences(data)),
        model_writer=model,
        vocab_size=2000,
        normalization_rule_name="nmt_nfkc",
        character_coverage=0.999,
        num_threads=1,
        minloglevel=2,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sentencepiece.bpe.model").write_bytes(model.getvalue())
    return folder


def write_bert(data: Path, folder: Path, lower_case: bool = False) -> Path:
    """`vocab.txt`, control tokens at 0 and from 100 as in multilingual BERT, and `tokenizer_config.json`."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower_case)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", *(f"[unused{number}]" for number in range(1, 100)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=2400, special_tokens=special, limit_alphabet=900, show_progress=False)
    tokenizer.train_from_iterator((text for _, text in sentences(data)), trainer)
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece, _ in pieces), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lower_case, "model_max_length": 512}))
    return folder


def write_xlm(data: Path, folder: Path, lower_case: bool = True) -> Path:
    """XLM's codes both ways: `codes_small` with `vocab_small`, and in `hf` `vocab.json` with `merges.txt` and `config.json`."""
    from tokenizers import Tokenizer, models, trainers

    moses = MosesWords(lower_case, True, "small")
    words = Counter(word for code, text in of_xlm(data) for word in moses.split(text, code)[0])
    codes = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    trainer = trainers.BpeTrainer(vocab_size=2000, end_of_word_suffix="</w>", limit_alphabet=900, show_progress=False)
    codes.train_from_iterator(([word] * count for word, count in sorted(words.items())), trainer)
    merges = ["".join(f"{first} {second} {len(words)}\n") for first, second in json.loads(codes.to_str())["model"]["merges"]]
    pieces: Counter[str] = Counter()
    for word, count in words.items():
        for token in codes.encode([word], is_pretokenized=True).tokens:
            pieces[token] += count
    # The rarest stay without a row, as in real checkpoints, where codes are learnt on other text than the vocabulary.
    kept = [piece for piece, _ in sorted(pieces.items(), key=lambda item: (-item[1], item[0]))][:-50]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "codes_small").write_text("".join(merges), encoding="utf-8")
    spelt = [piece.removesuffix("</w>") if piece.endswith("</w>") else f"{piece}@@" for piece in kept]
    counts = [f"{spelling} {pieces[piece]}\n" for spelling, piece in zip(spelt, kept, strict=True)]
    (folder / "vocab_small").write_text("".join(counts), encoding="utf-8")
    hf = folder / "hf"
    hf.mkdir(exist_ok=True)
    (hf / "merges.txt").write_text("".join(merges), encoding="utf-8")
    ids = {piece: number for number, piece in enumerate([*SPECIAL, *kept])}
    (hf / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
    (hf / "config.json").write_text(json.dumps({"lang2id": {code: number for number, code in enumerate(XLM_LANGUAGES)}}))
    (hf / "tokenizer_config.json").write_text(json.dumps({"do_lowercase_and_remove_accent": lower_case}))
    return folder
