"""Importing a checkpoint's tokenizer: which files are found, what decides case, languages and numbers, and every mistake."""

import json
import shutil
from pathlib import Path

import pytest
from published import XLM_LANGUAGES, checkpoints
from trained import small_tokenizer

from interlingua.modalities.cutters.xlm import SPECIAL
from interlingua.modalities.tokenizer import Tokenizer
from interlingua.modalities.tokenizer_import import import_tokenizer


@pytest.fixture
def files(data, tmp_path) -> Path:
    """Copies, to be spoilt."""
    return shutil.copytree(checkpoints(data), tmp_path / "files")


def take(source: Path, family: str, output: Path, languages=("en", "de"), **options) -> Tokenizer:
    return import_tokenizer(source, family, output, languages, report=lambda line: None, **options)


def test_xlm_roberta_has_a_model_and_a_card(files, tmp_path):
    lines: list[str] = []
    output = tmp_path / "out" / "xlmr.model"
    tokenizer = import_tokenizer(files / "xlm-roberta", "xlm-roberta", output, ["en", "de"], report=lines.append)
    assert sorted(file.name for file in output.parent.iterdir()) == ["xlmr.json", "xlmr.model"]
    assert output.read_bytes() == (files / "xlm-roberta" / "sentencepiece.bpe.model").read_bytes()
    card = json.loads(output.with_suffix(".json").read_text())
    assert (card["format"], card["family"], card["languages"]) == (2, "xlm-roberta", ["en", "de"])
    assert card["vocabulary"]["mask"] == tokenizer.vocabulary.size - 1
    # Either file names the tokenizer, and the model's file alone may be given too.
    assert Tokenizer(output.with_suffix(".json")).hash == Tokenizer(output).hash == tokenizer.hash
    again = take(files / "xlm-roberta" / "sentencepiece.bpe.model", "xlm-roberta", tmp_path / "again.json")
    assert again.hash == tokenizer.hash
    assert lines[0].endswith("sentencepiece.bpe.model")
    assert lines[-1].endswith(f"{tokenizer.vocabulary.size} pieces, 2 languages, hash {tokenizer.hash[:12]}")


def test_fairseq_s_dictionary_must_number_pieces_as_the_model(files, tmp_path):
    tokenizer = take(files / "xlm-roberta", "xlm-roberta", tmp_path / "a.model")
    pieces = tokenizer.pieces(range(4, tokenizer.vocabulary.size - 1))
    dictionary = files / "xlm-roberta" / "dict.txt"
    dictionary.write_text("".join(f"{piece} 1\n" for piece in pieces), encoding="utf-8")
    assert take(files / "xlm-roberta", "xlm-roberta", tmp_path / "b.model").hash == tokenizer.hash
    dictionary.write_text("".join(f"{piece} 1\n" for piece in [*pieces[:5], "more", *pieces[5:]]), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"{len(pieces) + 1} pieces, but .*line 6 is 'more', the model has"):
        take(files / "xlm-roberta", "xlm-roberta", tmp_path / "c.model")


def test_our_own_model_is_none_of_xlm_roberta(data, tmp_path):
    with pytest.raises(ValueError, match=r"first pieces are <pad> <unk> <s>; XLM-R's are <unk> <s> </s>"):
        take(Path(small_tokenizer(data).path), "xlm-roberta", tmp_path / "a.model")
    (tmp_path / "no.model").write_bytes(b"no model")
    with pytest.raises(ValueError, match=r"no\.model: not a SentencePiece model"):
        take(tmp_path / "no.model", "xlm-roberta", tmp_path / "a.model")


def test_a_published_model_is_not_read_as_our_own(files, tmp_path):
    from interlingua.modalities.tokenizer import write_tokenizer

    model = (files / "xlm-roberta" / "sentencepiece.bpe.model").read_bytes()
    with pytest.raises(ValueError, match=r"must be control symbols.*take it over with `interlingua tokenizer import`"):
        write_tokenizer(tmp_path / "own.model", model, ["en"], {})


def test_what_decides_case(files, tmp_path):
    """The option, else the configuration, else whether the vocabulary has capitals."""

    def case(source: Path, family: str, **options) -> bool:
        tokenizer = take(source, family, tmp_path / "case.json", ("en",) if family == "bert" else None, force=True, **options)
        return tokenizer.normalize("\u00c4") != "\u00c4"

    for folder, family, key in ((files / "bert", "bert", "do_lower_case"), (files / "xlm" / "hf", "xlm", None)):
        config = folder / "tokenizer_config.json"
        key = key or "do_lowercase_and_remove_accent"
        config.write_text(json.dumps({key: True}))
        assert case(folder, family)
        assert not case(folder, family, lower_case=False)
        config.write_text(json.dumps({key: False}))
        assert not case(folder, family)
        assert case(folder, family, lower_case=True)
        config.unlink()
        assert case(folder, family) == (family == "xlm")
    (files / "bert" / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, "strip_accents": False}))
    assert take(files / "bert", "bert", tmp_path / "accents.json").normalize("\u00c4") == "\u00e4"
    (files / "bert" / "tokenizer_config.json").write_text(json.dumps({"tokenize_chinese_chars": False}))
    assert take(files / "bert", "bert", tmp_path / "han.json").encode(["\u4e2d\u4e2d"]).counts[0] == 1
    (files / "bert" / "tokenizer_config.json").write_text("{")
    with pytest.raises(ValueError, match=r"tokenizer_config\.json: not JSON"):
        take(files / "bert", "bert", tmp_path / "broken.json")


def test_lines_of_a_vocabulary_are_its_ids(files, tmp_path):
    vocabulary = files / "bert" / "vocab.txt"
    good = vocabulary.read_text(encoding="utf-8")
    vocabulary.write_bytes(good.replace("\n", "\r\n").encode())
    assert take(files / "bert", "bert", tmp_path / "a.json").vocabulary.mask == 103
    vocabulary.write_text(good.replace("[unused7]\n", "[unused8]\n"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"'\[unused8\]' is there twice, as 7 and 8"):
        take(files / "bert", "bert", tmp_path / "b.json")
    vocabulary.write_text(good.replace("[MASK]\n", "[MISSING]\n").replace("[SEP]\n", "[OTHER]\n"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"no \[SEP\], \[MASK\] in the vocabulary"):
        take(files / "bert", "bert", tmp_path / "c.json")
    assert not list(tmp_path.glob("[bc].*"))


def test_xlm_s_vocabulary_is_numbered_as_its_dictionary_does(files, tmp_path):
    """Lines that are no piece with a count, and pieces that are there already, take no number (XLM's `Dictionary`)."""
    folder = files / "xlm"
    shutil.rmtree(folder / "hf")
    vocabulary = folder / "vocab_small"
    lines = vocabulary.read_text(encoding="utf-8").split("\n")
    extra = ["a\u00a0b 7", "only", "<unk> 9", lines[0], "x\u2028 3", "two words 3", "y many"]
    vocabulary.write_text("\n".join([*lines[:2], *extra, *lines[2:]]), encoding="utf-8")
    tokenizer = take(folder, "xlm", tmp_path / "a.json", XLM_LANGUAGES)
    assert tokenizer.pieces(range(14)) == list(SPECIAL)
    spelt = [line.split()[0] for line in lines if line]
    ended = [name.removesuffix("@@") if name.endswith("@@") else name + "</w>" for name in spelt]
    assert tokenizer.pieces(range(14, tokenizer.vocabulary.size)) == ended
    vocabulary.write_text("nothing\n")
    with pytest.raises(ValueError, match="no line is a piece and its count"):
        take(folder, "xlm", tmp_path / "b.json", XLM_LANGUAGES)


def test_numbers_of_vocab_json_may_be_missing_but_not_wrong(files, tmp_path):
    file = files / "xlm" / "hf" / "vocab.json"
    ids = json.loads(file.read_text(encoding="utf-8"))
    first, second, last = list(ids)[20], list(ids)[21], list(ids)[-1]
    before = take(files / "xlm" / "hf", "xlm", tmp_path / "a.json", None)
    file.write_text(json.dumps({piece: number for piece, number in ids.items() if piece != first}), encoding="utf-8")
    after = take(files / "xlm" / "hf", "xlm", tmp_path / "b.json", None)
    assert after.vocabulary == before.vocabulary
    assert after.pieces([20, 21, ids[last]]) == ["", second, last]
    file.write_text(json.dumps(ids | {first: 21}), encoding="utf-8")
    with pytest.raises(ValueError, match="numbers of the pieces are not all different"):
        take(files / "xlm" / "hf", "xlm", tmp_path / "c.json", None)
    file.write_text(json.dumps(ids | {"<pad>": 1, "</s>": 2}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"first pieces are <s> <pad> </s> <unk>.*XLM's are <s> </s> <pad> <unk>"):
        take(files / "xlm" / "hf", "xlm", tmp_path / "c.json", None)
    file.write_text("[]")
    with pytest.raises(ValueError, match="not a JSON object of pieces"):
        take(files / "xlm" / "hf", "xlm", tmp_path / "c.json", None)
    file.write_text(json.dumps(ids), encoding="utf-8")
    (files / "xlm" / "hf" / "merges.txt").write_text("a b 3\nalone\n")
    with pytest.raises(ValueError, match=r"merges\.txt, line 2: 'alone'; expected two pieces"):
        take(files / "xlm" / "hf", "xlm", tmp_path / "c.json", None)


def test_languages_are_the_checkpoint_s_or_must_be_given(files, tmp_path):
    hf = files / "xlm" / "hf"
    (hf / "config.json").write_text(json.dumps({"lang2id": {"en": 1, "ar": 0, "zh": 3, "fr": 2}}))
    assert take(hf, "xlm", tmp_path / "a.json", None).languages == ("ar", "en", "fr", "zh")
    assert take(hf, "xlm", tmp_path / "a.json", ("ar", "en", "fr", "zh"), force=True).language_id("fr") == 2
    with pytest.raises(ValueError, match=r"--languages is en,ar,fr,zh, but the .* in the order ar,en,fr,zh; leave"):
        take(hf, "xlm", tmp_path / "b.json", ("en", "ar", "fr", "zh"))
    for folder, family in ((files / "bert", "bert"), (files / "xlm", "xlm")):
        with pytest.raises(ValueError, match="tell no languages; give --languages"):
            take(folder, family, tmp_path / "b.json", None)
    with pytest.raises(ValueError, match=r"--languages: languages is \['en', 'en'\]; every code must be there once"):
        take(files / "bert", "bert", tmp_path / "b.json", ("en", "en"))


def test_files_are_found_or_named(files, tmp_path):
    output = tmp_path / "a.json"
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        take(tmp_path / "nowhere", "bert", output)
    with pytest.raises(FileNotFoundError, match=r"has neither vocab\.txt nor tokenizer\.json"):
        take(files / "xlm-roberta", "bert", output)
    with pytest.raises(FileNotFoundError, match=r"has neither sentencepiece\.bpe\.model nor tokenizer\.json"):
        take(files / "bert", "xlm-roberta", output)
    with pytest.raises(ValueError, match=r"found neither vocab\.json with merges\.txt nor codes\*"):
        take(files / "bert", "xlm", output)
    xlm = files / "xlm"
    shutil.copy(xlm / "codes_small", xlm / "codes_other")
    with pytest.raises(ValueError, match=r"found codes_other, codes_small; give .* the file of its codes"):
        take(xlm, "xlm", output)
    with pytest.raises(FileNotFoundError, match=r"vocab_other does not exist; it belongs to codes_other"):
        take(xlm / "codes_other", "xlm", output)
    bad = tmp_path / "tokenizer.json"
    bad.write_text(json.dumps({"model": {"type": "BPE", "vocab": {}}}))
    with pytest.raises(ValueError, match="its model is 'BPE'; expected 'WordPiece'"):
        take(bad, "bert", output)
    with pytest.raises(ValueError, match="its model is 'BPE'; expected 'Unigram'"):
        take(bad, "xlm-roberta", output)


def test_options_are_checked(files, tmp_path):
    with pytest.raises(ValueError, match="the family is 't5'; expected one of xlm-roberta, bert, xlm"):
        take(files / "bert", "t5", tmp_path / "a.json")
    with pytest.raises(ValueError, match=r"--output is .*a\.model; it must end in \.json"):
        take(files / "bert", "bert", tmp_path / "a.model")
    with pytest.raises(ValueError, match=r"must end in \.json or \.model"):
        take(files / "xlm-roberta", "xlm-roberta", tmp_path / "a")
    with pytest.raises(ValueError, match="XLM-R's model decides case itself"):
        take(files / "xlm-roberta", "xlm-roberta", tmp_path / "a.model", lower_case=True)
    for family, preset in (("bert", "xlm_hf"), ("xlm", "xlm")):
        with pytest.raises(ValueError, match=f"--preset is {preset!r}; it is for xlm alone, and one of xlm_original, xlm_hf"):
            take(files / "bert", family, tmp_path / "a.json", preset=preset)


def test_nothing_is_overwritten_unasked_and_the_source_never(files, tmp_path):
    output = tmp_path / "a.json"
    take(files / "bert", "bert", output)
    with pytest.raises(FileExistsError, match=r"would be overwritten; give --force"):
        take(files / "bert", "bert", output)
    take(files / "bert", "bert", output, force=True)
    beside = files / "bert" / "tokenizer.json"
    beside.write_text(json.dumps({"model": {"type": "WordPiece"}}))
    with pytest.raises(FileExistsError, match=r"tokenizer\.json is there and would be overwritten"):
        take(files / "bert", "bert", beside)
    model = (files / "xlm-roberta" / "sentencepiece.bpe.model").rename(files / "xlm-roberta" / "some.model")
    with pytest.raises(FileExistsError, match=r"some\.model is what is read"):
        take(model, "xlm-roberta", files / "xlm-roberta" / "some.json", force=True)


def test_damaged_files_are_named(files, tmp_path):
    output = tmp_path / "a.json"
    take(files / "bert", "bert", output)
    card = json.loads(output.read_text(encoding="utf-8"))

    def told(**changes) -> str:
        output.write_text(json.dumps(card | changes))
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            Tokenizer(output)
        return str(caught.value)

    assert "family 't5'; this version reads formats 1 and 2, families interlingua, xlm-roberta, bert, xlm" in told(family="t5")
    assert "format 3" in told(format=3)
    assert "its .json says" in told(vocabulary=card["vocabulary"] | {"mask": 7})
    assert "normalization is 'other', but this version does \"BERT's, cased" in told(normalization="other")
    assert "sha256 is None" in told(files={})
    output.write_text(json.dumps(card))
    (tmp_path / "a.vocab.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.vocab\.txt does not exist"):
        Tokenizer(output)
