"""Pitfalls T04 (toy), T05, T07 and T09 (language ids), surrogates, literal control tokens."""

import hashlib
import json
import pickle
import shutil
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from trained import small_tokenizer

from interlingua.datamodules.train_tokenizer import train_tokenizer
from interlingua.modalities.cutters.own import read_vocabulary
from interlingua.modalities.normalization import is_empty, normalize
from interlingua.modalities.tokenizer import Tokenizer
from interlingua.modalities.vocabulary import Vocabulary, shake_hands

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


@pytest.fixture(scope="module")
def tokenizer(data):
    return small_tokenizer(data)


@pytest.fixture
def files(tokenizer, tmp_path):
    """A copy of the tokenizer's files, to be spoilt."""
    for suffix in (".model", ".json"):
        shutil.copy(Path(tokenizer.path).with_suffix(suffix), tmp_path / f"copy{suffix}")
    return tmp_path / "copy.model"


def spoil(files: Path, **changes) -> None:
    card = json.loads(files.with_suffix(".json").read_text())
    files.with_suffix(".json").write_text(json.dumps({**card, **changes}))


@pytest.mark.parametrize(
    ("composed", "decomposed"),
    [
        ("caf\u00e9", "cafe\u0301"),
        ("\uac01", "\u1100\u1161\u11a8"),
        ("\u30b0", "\u30af\u3099"),
        ("\u0958", "\u0915\u093c"),
        ("Stra\u00dfe \u00c4", "Stra\u00dfe A\u0308"),
        ("caf\u00e9", "cafe\u200b\u0301"),
        ("ABC 123", "\uff21\uff22\uff23\u3000\uff11\uff12\uff13"),
        ("\u0644\u0627", "\ufefb"),
        ("a b", "\ufeff a\u00a0 \t\n b\x00\u200f"),
    ],
)
def test_spellings_of_one_text_are_one_text(tokenizer, composed, decomposed):
    """Pitfall T05: composed and decomposed spellings have equal ids."""
    first, second = tokenizer.encode([composed, decomposed]).counts
    pieces = tokenizer.encode([composed, decomposed])
    assert first == second > 0
    assert pieces.ids[:first].tolist() == pieces.ids[first:].tolist()
    assert normalize(composed) == normalize(decomposed)


@pytest.mark.parametrize(
    "text",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        FAMILY,
        "\u0915\u094d\u200d\u0937",
        "\u0627\u0644\u0641\u0635\u0644 12 \u0645\u0646 2024",
        "\u2764\ufe0f",
    ],
)
def test_joiners_digits_and_order_survive(tokenizer, text):
    """Pitfall T05: Persian and emoji joiners, Arabic with digits."""
    assert tokenizer.normalize(text) == text
    assert tokenizer.decode(tokenizer.encode([text]).ids.tolist()) == text
    assert set(tokenizer.encode([text]).words.tolist()) == set(range(len(text.split())))


def test_joiner_changes_the_ids(tokenizer):
    with_joiner, without = tokenizer.encode(["\u0645\u06cc\u200c\u062e"]), tokenizer.encode(["\u0645\u06cc\u062e"])
    assert with_joiner.ids.tolist() != without.ids.tolist()


@pytest.mark.parametrize(
    "text", ["", "   ", "\u200b", "\ufeff\u200b \n", "\u200d", "\ufe0f \u200c", "\x00\x07", "\u2581", "\u00ad\u202e\u2066"]
)
def test_nothing_to_read_is_known_as_empty(tokenizer, text):
    assert is_empty(text)
    assert tokenizer.encode([text, "a dog"]).counts[0] == 0


def test_normalisation_is_idempotent_for_every_character():
    assigned = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) not in ("Cn", "Co")]
    for start in range(0, len(assigned), 64):
        once = normalize(" ".join(f"a{character}b\u0301" for character in assigned[start : start + 64]))
        assert normalize(once) == once, hex(ord(assigned[start]))
        assert "Cc" not in set(map(unicodedata.category, set(once))), hex(ord(assigned[start]))


def test_surrogates_never_crash(tokenizer):
    assert tokenizer.normalize("\ud83d\ude00 smile") == "\U0001f600 smile"
    assert tokenizer.normalize("a\ud83d b\ude00") == "a\ufffd b\ufffd"
    assert tokenizer.decode(tokenizer.encode(["a\ud83d b"]).ids.tolist()) == "a\ufffd b"


def test_literal_control_tokens_stay_text(tokenizer):
    texts = [
        "a </s> b",
        "<mask>",
        "<s>",
        "<pad><unk>",
        "say <mask> now",
        "<0x41>",
        "</s>",
        "\u2585 \u2581<mask>",
        "\uff1cmask\uff1e",
    ]
    pieces = tokenizer.encode(texts)
    assert not np.isin(pieces.ids, tokenizer.vocabulary.controls).any()
    starts = np.cumsum(pieces.counts) - pieces.counts
    for text, start, count in zip(texts, starts, pieces.counts, strict=True):
        assert tokenizer.decode(pieces.ids[start : start + count].tolist()) == tokenizer.normalize(text)


def test_literal_control_tokens_in_training_text_stay_text(tmp_path):
    lines = [("en", f"a </s> b {number} <mask> <s> <pad> <unk> word{number}") for number in range(200)]
    tokenizer = train_tokenizer(lines, tmp_path / "literal.model", size=310, report=lambda line: None)
    pieces = tokenizer.encode(["</s> <mask> <s> <pad> <unk>"])
    assert not np.isin(pieces.ids, tokenizer.vocabulary.controls).any()


def test_nothing_is_unknown_and_everything_comes_back(tokenizer):
    texts = ["\u1200\u1208 \U0001f600", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\U0001d11e \ue000", "\u5b57\u2a6d6", "\u2585"]
    assert tokenizer.decode(tokenizer.encode(texts).ids.tolist()).split() == " ".join(map(normalize, texts)).split()


def test_batch_and_single_agree(tokenizer):
    texts = ["a dog", "", "ein Hund", "\u72ac", "  "]
    together = tokenizer.encode(texts)
    single = [tokenizer.encode([text]) for text in texts]
    assert together.ids.tolist() == [piece for one in single for piece in one.ids.tolist()]
    assert together.words.tolist() == [word for one in single for word in one.words.tolist()]
    assert tokenizer.encode([]).ids.shape == (0,)


def test_cards_and_hashes_of_our_own_are_as_ever(tokenizer):
    """What is stored beside data and in checkpoints stays valid: format 1, and this hash."""
    card = json.loads(Path(tokenizer.path).with_suffix(".json").read_text(encoding="utf-8"))
    assert list(card) == ["format", "sha256", "normalization", "vocabulary", "languages", "training"]
    assert card["format"] == 1
    policy = "nfkc, joiners kept, version 1"
    parts = [hashlib.sha256(Path(tokenizer.path).read_bytes()).hexdigest(), policy, tokenizer.languages]
    assert tokenizer.hash == hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    assert (tokenizer.family, tokenizer.normalization) == ("interlingua", policy)


def test_vocabulary_and_languages(tokenizer):
    assert tokenizer.vocabulary == Vocabulary(1500, pad=0, unknown=1, start=2, end=3, mask=4)
    assert tokenizer.pieces([0, 1, 2, 3, 4]) == ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    assert tokenizer.languages == ("ar", "de", "en", "es", "fr", "hi", "ja", "ko", "ru", "sw", "tr", "zh")
    assert [tokenizer.language_id(code) for code in tokenizer.languages] == list(range(12))


@pytest.mark.parametrize("code", ["xx", "", "EN", "zh_CN"])
def test_unknown_language_is_an_error_that_lists_the_known(tokenizer, code):
    with pytest.raises(ValueError, match=rf"unknown language '{code}'.*knows ar, de, en, .* zh"):
        tokenizer.language_id(code)


def test_decode_leaves_controls_out_and_refuses_foreign_ids(tokenizer):
    ids = tokenizer.encode(["a dog"]).ids.tolist()
    assert tokenizer.decode([2, *ids, 4, 3, 0, 0]) == "a dog"
    for number in (-1, 1500):
        with pytest.raises(ValueError, match=rf"{number} is not in the vocabulary .*0 to 1499"):
            tokenizer.decode([number])


def test_pickle_needs_no_files(files):
    before = Tokenizer(files)
    packed = pickle.dumps(before)
    files.unlink()
    after = pickle.loads(packed)
    assert (after.hash, after.languages, after.vocabulary) == (before.hash, before.languages, before.vocabulary)
    assert after.encode(["ein Hund"]).ids.tolist() == before.encode(["ein Hund"]).ids.tolist()


def test_files_that_do_not_belong_together_are_refused(files, tokenizer):
    assert Tokenizer(str(files)).hash == tokenizer.hash
    spoil(files, languages=["en", "de"])
    assert Tokenizer(files).hash != tokenizer.hash
    spoil(files, vocabulary={**tokenizer.vocabulary.__dict__, "mask": 5})
    with pytest.raises(ValueError, match=r"'mask': 4.*'mask': 5"):
        Tokenizer(files)
    spoil(files, normalization="nfc")
    with pytest.raises(ValueError, match="normalization is 'nfc'"):
        Tokenizer(files)
    spoil(files, sha256="0")
    with pytest.raises(ValueError, match="sha256 is '0'"):
        Tokenizer(files)
    files.with_suffix(".json").write_text("[]")
    with pytest.raises(ValueError, match="does not describe a tokenizer"):
        Tokenizer(files)
    files.with_suffix(".json").unlink()
    with pytest.raises(FileNotFoundError, match=r"copy\.json does not exist"):
        Tokenizer(files)
    with pytest.raises(ValueError, match=r"NAME\.model"):
        Tokenizer(files.with_suffix(".txt"))


def test_a_model_whose_mask_can_arise_from_text_is_refused():
    class Foreign:
        """A model with `<mask>` as a user-defined symbol, which SentencePiece matches in raw text."""

        pad_id, unk_id, bos_id, eos_id = (lambda self, number=number: number for number in range(4))

        def piece_to_id(self, piece):
            return 4

        def is_control(self, number):
            return number in (0, 2, 3)

    with pytest.raises(ValueError, match="mask must be control symbols"):
        read_vocabulary(Foreign(), "foreign.model")


def test_handshake_prints_both_numbers(tokenizer):
    shake_hands(tokenizer.vocabulary, Vocabulary(1500))
    with pytest.raises(ValueError, match="size: tokenizer 1500, tower 1499; mask: tokenizer 4, tower 5"):
        shake_hands(tokenizer.vocabulary, Vocabulary(1499, mask=5))


def test_import_is_light():
    import subprocess

    heavy = ("sentencepiece", "torch", "tokenizers", "sacremoses")
    code = f"import sys, interlingua.modalities.tokenizer_import; sys.exit(any(module in sys.modules for module in {heavy}))"
    # `-S` would lose the environment's packages; -c starts without this process's imports.
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_tokens_are_counted_with_start_and_end_without_cutting_anything_else(tokenizer):
    texts = ["a dog", "", " \u200b ", "ein Hund l\u00e4uft", "\U00010348"]
    counts = tokenizer.encode(texts).counts
    assert tokenizer.count_tokens(texts).tolist() == [counts[0] + 2, 0, 0, counts[3] + 2, counts[4] + 2]
    assert tokenizer.count_tokens([]).shape == (0,)


def test_characters_without_a_piece_are_spelt_in_byte_pieces(tokenizer):
    assert tokenizer.byte_pieces.sum() == 256
    assert tokenizer.has_piece("a")
    assert not tokenizer.has_piece("\U00010348")
    assert tokenizer.byte_pieces[tokenizer.encode(["a \U00010348"]).ids].sum() == 4
    assert not tokenizer.byte_pieces[list(tokenizer.vocabulary.controls)].any()
