"""`interlingua test --config configs/evaluate/sentences.yaml`, on real sentences and a text tower that has learnt nothing."""

import gzip
import json

import pytest
import yaml

from interlingua.__main__ import main
from interlingua.datamodules.shards.command import main as shards
from interlingua.datamodules.train_tokenizer import train_tokenizer
from interlingua.reading_length import fit_length
from interlingua.tasks.results import read_results

LANGUAGES = ("en", "de", "ja")


@pytest.fixture(scope="module")
def parallel(tmp_path_factory, data):
    """Shards of held-out sentences in three languages, and a tokenizer trained on others."""
    folder = tmp_path_factory.mktemp("parallel")
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = [line for line in file if '"tgt_lang": "de"' in line or '"tgt_lang": "ja"' in line]
    lines = [line for line in lines if '"source": "stamps"' in line]
    (folder / "rows.jsonl").write_text("".join(lines), encoding="utf-8")
    arguments = ["write", "jsonl", str(folder / "rows.jsonl"), str(folder / "test"), "--group", "source", "id", "src"]
    assert shards([*arguments, "--where", "split=test"]) == 0
    train = [row for row in map(json.loads, lines) if row["split"] == "train"][::4]
    texts = [(row[f"{side}_lang"], row[side]) for row in train for side in ("src", "tgt")]
    train_tokenizer(texts, folder / "tokenizer.model", size=900, report=lambda line: None)
    return folder


def test_from_shards_to_figures(tmp_path, parallel, capsys):
    encoder = {
        "class_path": "interlingua.models.towers.TextTower",
        "init_args": {
            "embeddings": {
                "class_path": "interlingua.models.embeddings.TextEmbeddings",
                "init_args": {"vocabulary": {"size": 900}, "width": 32, "max_tokens": 32},
            },
            "transformer": {
                "class_path": "interlingua.models.transformer.Transformer",
                "init_args": {"width": 32, "layers": 1, "heads": 2},
            },
        },
    }
    own = {
        "trainer": {"default_root_dir": str(tmp_path), "enable_progress_bar": False},
        "model": {"init_args": {"encoder": encoder, "checkpoint": None, "output": str(tmp_path), "layers": [None]}},
        "data": {
            "init_args": {
                "sources": {"parallel/test": str(parallel / "test")},
                "tokenizer": str(parallel / "tokenizer.model"),
                "limit": 80,
                "least": 80,
                "workers": 0,
            }
        },
    }
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(own))
    status = main(["test", "--config", "configs/evaluate/sentences.yaml", "--config", str(tmp_path / "own.yaml")])
    told = capsys.readouterr()
    assert status == 0, told.err
    assert "Sentence retrieval to en, parallel/test, last layer, mean, in per cent" in told.out
    found = {record.key: record for record in read_results(tmp_path / "results.json")}
    for task in ("sentence_retrieval_to_en", "sentence_retrieval_from_en"):
        for language in ("de", "ja"):
            record = found[task, "parallel/test, last layer, mean", language, "accuracy@1"]
            assert record.n == 80
            assert 0.005 < record.value < 0.9, "names and numbers that translations share, and no more"
        assert 70 < found[task, "parallel/test, last layer, mean", "de", "gallery size"].value <= 80
    assert (tmp_path / "sentence_retrieval_parallel_test_last_layer_mean.png").exists()


def test_what_does_not_fit_is_told_in_a_line(tmp_path, parallel, capsys):
    arguments = ["test", "--config", "configs/evaluate/sentences.yaml", "--model.checkpoint", str(tmp_path / "none.ckpt")]
    assert main(arguments) == 2
    assert "none.ckpt does not exist; train it with `interlingua fit`" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["predict", "validate", "fit"])
@pytest.mark.parametrize("name", ["bucc", "sentences", "tatoeba"])
def test_a_command_that_has_nothing_to_do_is_told_so(capsys, command, name):
    """Before its options are: `verbose` is one of testing alone."""
    assert (
        main([command, "--config", f"configs/evaluate/{name}.yaml", "--model.encoder", "null", "--model.checkpoint", "null"])
        == 2
    )
    told = capsys.readouterr().err
    assert f"so `interlingua {command}` has nothing to run; it is for test" in told
    assert "no such key" not in told


def test_texts_are_read_as_long_as_the_encoder_reads_where_nobody_says():
    """XLM of 64 tokens under data that read 128 by default; what is given stays, and is refused where it does not fit."""
    tower = {"class_path": "x", "init_args": {"text": {"class_path": "y", "init_args": {"max_tokens": 64}}}}
    for path in ("sentences.SentenceRetrievalData", "labelled.sentence_mining.BuccData", "labelled.sentence_pairs.TatoebaData"):
        data = {"class_path": f"interlingua.datamodules.{path}", "init_args": {"tokenizer": "a"}}
        told = fit_length({"model": {"init_args": {"encoder": tower}}, "data": data})
        assert told == "data.max_tokens is 64, as the encoder reads no longer texts (by default 128)"
        assert data["init_args"] == {"tokenizer": "a", "max_tokens": 64}
        assert fit_length({"model": {"init_args": {"encoder": tower}}, "data": data}) is None
        data["init_args"] = {"max_tokens": 100}
        assert fit_length({"model": {"init_args": {"encoder": tower}}, "data": data}) is None
        data["init_args"], longer = {}, {"init_args": {"max_tokens": 512}}
        assert fit_length({"model": {"init_args": {"encoder": longer}}, "data": data}) is None
        assert data["init_args"] == {}
