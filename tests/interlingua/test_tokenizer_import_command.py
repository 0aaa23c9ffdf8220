"""`interlingua tokenizer import`: from files to a configuration, and `show` and `check` of what comes out."""

import json
import shutil

import pytest
import yaml
from published import checkpoints, sentences

from interlingua.datamodules.choosing import TextChoice
from interlingua.datamodules.reading import Reader
from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards.reader import ShardSet
from interlingua.datamodules.shards.writer import ShardWriter
from interlingua.datamodules.source import Source
from interlingua.modalities.tokenizer import Tokenizer
from interlingua.modalities.vocabulary import Vocabulary
from interlingua.tokenizer_command import main

LANGUAGES = ["de", "en", "es", "fr"]


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """Checkpoints' files, and shards of real sentences."""
    folder = tmp_path_factory.mktemp("command")
    shutil.copytree(checkpoints(data), folder, dirs_exist_ok=True)
    (folder / "xlm" / "hf" / "config.json").write_text(
        json.dumps({"lang2id": {code: number for number, code in enumerate(LANGUAGES)}})
    )
    with ShardWriter(folder / "shards") as writer:
        for number, (code, text) in enumerate(sentences(data)):
            if code in LANGUAGES:
                writer.write(f"{number:05}", [Caption(code, text)])
    return folder


@pytest.mark.parametrize(
    ("source", "family", "output", "options"),
    [
        ("xlm-roberta", "xlm-roberta", "xlmr.model", ["--languages", ",".join(LANGUAGES)]),
        ("bert", "bert", "bert.json", ["--languages", ",".join(LANGUAGES), "--no-lower-case"]),
        ("xlm/hf", "xlm", "xlm.json", []),
        ("xlm/hf", "xlm", "xlm_hf.json", ["--preset", "xlm_hf"]),
    ],
)
def test_import_show_check_and_read(folder, data, tmp_path, capsys, source, family, output, options):
    file = str(tmp_path / output)
    assert main(["import", str(folder / source), "--as", family, "--output", file, *options]) == 0
    assert f"wrote {file}: " in capsys.readouterr().out
    tokenizer = Tokenizer(file)
    assert main(["show", file, "--text", "Wait a moment, please.", "--language", "en"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{file}: {tokenizer.vocabulary.size} pieces of the family {family}, hash {tokenizer.hash}"
    assert Vocabulary(**yaml.safe_load(lines[1])["vocabulary"]) == tokenizer.vocabulary
    assert lines[2] == f"normalisation: {tokenizer.normalization}"
    assert lines[3] == "languages: de 0, en 1, es 2, fr 3"
    assert lines[-1].count(" | ") == 3  # a b, c: four words

    assert main(["check", file, "--shards", str(folder / "shards"), "--json"]) in (0, 1)  # a small vocabulary lacks letters
    report = json.loads(capsys.readouterr().out)
    for code, one in report["languages"].items():
        texts = [text for language, text in sentences(data) if language == code]
        cut = [tokenizer.encode([text], [code]).ids for text in texts]
        known = sum(tokenizer.vocabulary.unknown not in ids for ids in cut)
        assert (one["read"], one["pieces"], one["returned"]) == (20, sum(map(len, cut)), known)  # spaces aside, all comes back
        assert known > 10
        assert 1 <= one["fertility"] < 6
    assert report["tokenizer"]["normalization"] == tokenizer.normalization

    shards = shutil.copytree(folder / "shards", tmp_path / "shards")  # lengths are kept beside them, of one tokenizer
    source = Source(str(shards), batch_tokens=1024, micro_batch_tokens=512, text=TextChoice(), pack=True)
    batches, faults = Reader("all", source, ShardSet(str(shards)), tokenizer, 256).read_step(0, 0, 1)
    assert not faults
    for batch in batches:
        assert batch.text.document.max() > 0  # several texts a row, each as long as it was counted
        assert batch.text.tokens[:, 0].eq(tokenizer.vocabulary.start).all()
        assert batch.text.tokens[batch.text.present].ne(tokenizer.vocabulary.pad).all()


def test_mistakes_are_one_line(folder, tmp_path, capsys):
    def told(*arguments) -> str:
        assert main(["import", *map(str, arguments)]) == 2
        printed = capsys.readouterr().err
        assert printed.startswith("interlingua tokenizer import: ")
        assert printed.count("\n") == 1, printed
        return printed

    output = ["--output", tmp_path / "a.json"]
    assert "tell no languages; give --languages" in told(folder / "bert", "--as", "bert", *output)
    assert "'no code' is not a language code" in told(folder / "bert", "--as", "bert", *output, "--languages", "no code")
    assert "has neither vocab.txt nor tokenizer.json" in told(
        folder / "xlm-roberta", "--as", "bert", *output, "--languages", "en"
    )
    assert "--preset is 'xlm_hf'; it is for xlm alone" in told(folder / "bert", "--as", "bert", "--preset", "xlm_hf", *output)
    with pytest.raises(SystemExit):
        main(["import", str(folder / "bert"), "--as", "t5", "--output", "a.json"])
    assert "invalid choice: 't5'" in capsys.readouterr().err


def test_what_is_not_installed_is_one_line(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sacremoses", None)
    assert main(["import", str(folder / "xlm" / "hf"), "--as", "xlm", "--output", str(tmp_path / "a.json")]) == 2
    assert "needs sacremoses: pip install interlingua[xlm]" in capsys.readouterr().err
