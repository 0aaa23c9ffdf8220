"""Words of the published families' pieces: those of our own tokenizers, and by hand."""

import json

import numpy as np
import pytest
from imported import FAMILIES, Published, import_all
from published import of_xlm, sentences

from interlingua.datamodules.align.words import split_words
from interlingua.modalities.cutters.bert import BERTCutter
from interlingua.modalities.cutters.moses import SEGMENTED, MosesWords
from interlingua.modalities.cutters.xlm import SPECIAL, XLMCutter
from interlingua.modalities.normalization import normalize
from interlingua.modalities.words import SPACE, is_unspaced


@pytest.fixture(scope="module")
def published(data) -> dict[str, Published]:
    return import_all(data)


def test_words_of_moses_by_hand():
    moses = MosesWords(True, False, "hand")
    assert moses.split("L'\u00e9cole, c\u2019est  (bien)\u2026", "fr") == (
        ["l'", "ecole", ",", "c'", "est", "(", "bien", ")", "..."],
        [0, 0, 0, 1, 1, 2, 2, 2, 2],
    )
    assert moses.split("L'\u00e9cole", "en")[0] == ["l", "'ecole"]
    assert moses.split("\u0218i \u0103\u0219ti", "ro")[0] == ["si", "asti"]
    # Other programs must have put spaces between these.
    for code in SEGMENTED:
        assert moses.split("\u4f60\u597d \u4e16\u754c\u3002", code) == (["\u4f60\u597d", "\u4e16\u754c."], [0, 1])
    assert moses.split("a\u200cb\x07c", "en")[0] == ["a", "b", "c"]
    assert MosesWords(False, True, "hand").split("A\u200cb\x07c", "en")[0] == ["Abc"]


@pytest.mark.parametrize("name", FAMILIES)
def test_words_are_those_of_our_own_tokenizers(published, data, name):
    """`##`, `@@` and `</w>` pieces belong to their word, punctuation to the word before it."""
    tokenizer = published[name].tokenizer
    pairs = [
        (code, tokenizer.normalize(text, code)) for code, text in (of_xlm(data) if name == "xlm" else sentences(data)[::3])
    ]
    texts = [text for _, text in pairs]
    unspaced = {character for character in set("".join(texts)) if is_unspaced(character)}
    pieces = tokenizer.encode(texts, [code for code, _ in pairs])
    bodies = [plain(piece) for piece in tokenizer.pieces(pieces.ids.tolist())]
    compared = longer = 0
    for text, expected, end, count in zip(texts, split_words(texts), np.cumsum(pieces.counts), pieces.counts, strict=True):
        ids, words = pieces.ids[end - count : end], pieces.words[end - count : end]
        assert words[0] == 0
        assert set(np.diff(words).tolist()) <= {0, 1}
        if tokenizer.vocabulary.unknown in ids or unspaced & set(text) or normalize(text) != text:
            continue  # what an unknown piece stands for is not told; in unspaced scripts, pieces are words
        if name == "xlm-roberta" and expected != text.split():
            continue  # a piece may reach across punctuation
        found = [""] * (words[-1] + 1)
        for word, body in zip(words.tolist(), bodies[end - count : end], strict=True):
            found[word] += body
        assert found == expected, text
        compared += 1
        longer += int((np.bincount(words) > 1).sum())
    assert compared > 60
    assert longer > 3 * compared  # words of several pieces


def plain(piece: str) -> str:
    """A piece without what marks its place in a word."""
    return piece.replace(SPACE, "").removeprefix("##").removesuffix("</w>")


def words_of(cutter, text: str) -> list[str]:
    """The pieces of each word, with a blank between them."""
    cut = cutter.cut([text], ["en"])
    words = cutter.find_words(cut.ids, cut.counts, cut.opens).tolist()
    pieces = [plain(piece) for piece in cutter.pieces(cut.ids.tolist())]
    return [" ".join(piece for piece, at in zip(pieces, words, strict=True) if at == word) for word in range(words[-1] + 1)]


def test_words_of_word_pieces_by_hand():
    names = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "don",
        "'",
        "t",
        "(",
        "stop",
        ")",
        "dog",
        "##s",
        ".",
        "Das",
        "日",
        "本",
        "。",
        "En",
        "##de",
    ]
    cutter = BERTCutter("\n".join(names).encode(), "hand", False, False, True)
    assert words_of(cutter, "don't (stop) dogs.") == ["don ' t", "(", "stop )", "dog s ."]
    assert words_of(cutter, "Das\u65e5\u672c\u3002Ende dog.dogs") == [
        "Das",
        "\u65e5",
        "\u672c \u3002",
        "En de",
        "dog .",
        "dog s",
    ]
    assert words_of(cutter, "cat's dog") == ["[UNK] ' [UNK]", "dog"]
    plainly = BERTCutter("\n".join(names).encode(), "hand", False, False, False)
    assert words_of(plainly, "\u65e5\u672c dog") == ["[UNK]", "dog"]


def test_words_of_byte_pair_codes_by_hand():
    names = [
        "d",
        "on",
        "o",
        "n</w>",
        "don</w>",
        "'t</w>",
        "dog</w>",
        "s</w>",
        ".</w>",
        ",</w>",
        "mr.</w>",
        "st",
        "op</w>",
        "-",
        "x",
    ]
    merges = ["o n", "o p</w>", "d o", "do n</w>", "' t</w>", "d o", "do g</w>", "s t", ". </w>", "m r", "mr .</w>"]
    ids = {piece: number for number, piece in enumerate([*SPECIAL, *names])}
    cutter = XLMCutter(json.dumps(ids).encode(), "\n".join(merges).encode(), "hand", True, "xlm_original")
    assert words_of(cutter, "Don't stop, Mr. dog.") == ["don 't", "st op ,", "mr.", "dog ."]
    assert words_of(cutter, "st\u00f3p zz") == ["st op", "<unk> <unk>"]
    assert cutter.decode(cutter.cut(["Don't stop!"]).ids.tolist()) == "don 't st op <unk>".replace("st op", "stop")
    # `do` comes about on the way alone and has no row: where it stays, it is unknown.
    assert cutter.pieces(cutter.cut(["dox"]).ids.tolist()) == ["<unk>", "<unk>"]
