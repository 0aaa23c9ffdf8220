"""Real sentences in folders as Tatoeba and BUCC have them, and a text tower that has learnt nothing."""

import gzip
import json
import re
from collections import defaultdict

import pytest
import tiny
import torch
import yaml
from quiet import quiet_trainer
from trained import small_tokenizer

from interlingua.__main__ import main
from interlingua.datamodules.labelled.sentence_pairs import TatoebaData
from interlingua.datamodules.sample import Caption
from interlingua.datamodules.sentences import SentenceRetrievalData
from interlingua.datamodules.shards.writer import ShardWriter
from interlingua.modalities.chance import salt
from interlingua.tasks.results import read_results
from interlingua.tasks.sentence_retrieval import SentenceRetrieval

pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers.*")
HIDDEN, DISTRACTORS = 200, 300
ENCODER = {
    "class_path": "interlingua.models.towers.TextTower",
    "init_args": {
        "embeddings": {
            "class_path": "interlingua.models.embeddings.TextEmbeddings",
            "init_args": {"vocabulary": {"size": 1500}, "width": 64, "max_tokens": 48},
        },
        "transformer": {
            "class_path": "interlingua.models.transformer.Transformer",
            "init_args": {"width": 64, "layers": 1, "heads": 2},
        },
    },
}


@pytest.fixture(scope="module")
def rows(data):
    """German and Japanese sentences with their English ones."""
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = [line for line in file if '"tgt_lang": "de"' in line or '"tgt_lang": "ja"' in line]
    return [json.loads(line) for line in lines]


def write_bucc(folder, rows):
    """For each split 200 pairs, and on either side 300 sentences of which the other has no translation."""
    pairs = {row["src"].strip(): row["tgt"].strip() for row in rows if row["tgt_lang"] == "de"}
    pairs = {german: english for english, german in pairs.items() if len(english) > 15}
    order = sorted(pairs, key=salt)
    folder.mkdir()
    size = HIDDEN + 2 * DISTRACTORS
    for split, own in (("dev", order[:size]), ("test", order[size : 2 * size])):
        assert len(own) == size
        german = own[: HIDDEN + DISTRACTORS]
        english = [pairs[text] for text in own[:HIDDEN] + own[HIDDEN + DISTRACTORS :]]
        key = {text: f"de-{place:06}" for place, text in enumerate(sorted(german))}
        answer = {text: f"en-{place:06}" for place, text in enumerate(sorted(set(english)))}
        for side, keys in (("de", key), ("en", answer)):
            lines = "".join(f"{code}\t{text}\n" for text, code in keys.items())
            (folder / f"de-en.{split}.{side}").write_text(lines, encoding="utf-8")
        gold = "".join(f"{key[text]}\t{answer[pairs[text]]}\n" for text in own[:HIDDEN])
        (folder / f"de-en.{split}.gold").write_text(gold, encoding="utf-8")


def configure(folder, data, name, model, own):
    """A configuration laid over a published one, and the status of the command."""
    made = {
        "trainer": {"default_root_dir": str(folder), "enable_progress_bar": False},
        "model": {"init_args": {"encoder": ENCODER, "checkpoint": None, "output": str(folder), **model}},
        "data": {"init_args": {"tokenizer": str(small_tokenizer(data).path), "max_tokens": 48, "workers": 0, **own}},
    }
    (folder / "own.yaml").write_text(yaml.safe_dump(made))
    return main(["test", "--config", f"configs/evaluate/{name}.yaml", "--config", str(folder / "own.yaml")])


def test_translations_hidden_among_distractors(tmp_path, data, rows, capsys):
    """By names and numbers alone, far more than guessing finds: 500 pairs drawn by lot have an F1 of 0.1 %."""
    write_bucc(tmp_path / "bucc2018", rows)
    sources = {f"bucc/{split}": {"folder": str(tmp_path / "bucc2018"), "split": split} for split in ("dev", "test")}
    status = configure(tmp_path, data, "bucc", {"layers": [0, None]}, {"sources": sources})
    told = capsys.readouterr()
    assert status == 0, told.err
    (view,) = re.findall(r"chosen on bucc/dev: (.*, mean), mean F1", told.out)
    assert f"Sentence mining, bucc/test, {view}, shares in per cent" in told.out
    found = {record.key[1:]: record for record in read_results(tmp_path / "results.json")}
    file = tmp_path / f"sentence_mining_bucc_test_de_{view.replace(', ', '_').replace(' ', '_')}.tsv"
    _, key, other, german, english, gold = file.read_text().splitlines()[1].split("\t")
    for code, text_key, text in (("de", key, german), ("en", other, english)):
        assert f"{text_key}\t{text}" in (tmp_path / "bucc2018" / f"de-en.test.{code}").read_text().splitlines()
    pair = f"{key}\t{other}" in (tmp_path / "bucc2018" / "de-en.test.gold").read_text().splitlines()
    assert pair == (gold == "yes")
    own = {name: found[f"bucc/test, {view}", "de", name] for name in ("F1", "precision", "gold size", "threshold")}
    assert own["gold size"].value == HIDDEN
    assert own["F1"].n == HIDDEN + DISTRACTORS
    assert 0.02 < own["F1"].value < 0.9
    assert own["F1"].low > 0.002
    assert own["threshold"].value == found[f"bucc/dev, {view}", "de", "threshold"].value > 1


def test_mining_without_a_split_to_tune_on(tmp_path, data, capsys):
    sources = {"bucc/test": {"folder": str(tmp_path), "split": "test"}}
    (tmp_path / "de-en.test.de").write_text("de-1\tDer Hund\n")
    (tmp_path / "de-en.test.en").write_text("en-1\tThe dog\n")
    (tmp_path / "de-en.test.gold").write_text("de-1\ten-1\n")
    assert configure(tmp_path, data, "bucc", {}, {"sources": {"bucc/dev": None, **sources}}) == 2
    told = capsys.readouterr().err
    assert "thresholds are tuned on 'bucc/dev' and reported on another source, but the data's sources are bucc/test" in told


@pytest.fixture(scope="module")
def translated(rows):
    """Translations by English sentence, of the captions that are for testing."""
    found = defaultdict(dict)
    for row in rows:
        if row["source"] == "stamps" and row["split"] == "test":
            found[row["id"], row["src"]][row["tgt_lang"]] = row["tgt"]
    return {english: own for (_, english), own in found.items()}


def write_tatoeba(folder, translated):
    folder.mkdir(exist_ok=True)
    for code, name in (("de", "deu"), ("ja", "jpn")):
        pairs = [(own[code], english) for english, own in translated.items() if code in own]
        for side, texts in zip((name, "eng"), zip(*pairs, strict=True), strict=True):
            lines = "".join(f"{text}\n" for text in texts)
            (folder / f"tatoeba.{name}-eng.{side}").write_text(lines, encoding="utf-8")


def test_folders_give_the_figures_of_shards(tmp_path, data, translated):
    """The same sentences as shards and as Tatoeba's files: the same figures, intervals among them."""
    write_tatoeba(tmp_path / "folder", translated)
    with ShardWriter(tmp_path / "shards") as writer:
        for number, (english, own) in enumerate(translated.items()):
            writer.write(
                f"{number:04}", [Caption("en", english, "x"), *(Caption(code, text, "x") for code, text in own.items())]
            )
    path = small_tokenizer(data).path
    options = {"tokenizer": path, "max_tokens": 48, "workers": 0, "batch_size": 16, "least": 50}
    figures = []
    for place, (kind, source) in enumerate(((SentenceRetrievalData, "shards"), (TatoebaData, "folder"))):
        torch.manual_seed(0)
        tower = tiny.TextTower(tiny.embeddings(vocabulary=tiny.Vocabulary(1500)), tiny.transformer())
        module = SentenceRetrieval(tower, path, output=str(tmp_path / str(place)))
        data_module = kind({"own": str(tmp_path / source)}, **options)
        quiet_trainer(tmp_path).test(module, datamodule=data_module, verbose=False)
        figures.append(read_results(tmp_path / str(place) / "results.json"))
    shards, folder = figures
    assert len(shards) > 15
    for left, right in zip(shards, folder, strict=True):
        assert (left.key, left.n) == (right.key, right.n)
        assert [left.value, left.low, left.high] == pytest.approx([right.value, right.low, right.high], abs=1e-6), left.key


def test_tatoeba_by_its_configuration(tmp_path, data, translated, capsys):
    write_tatoeba(tmp_path / "tatoeba", translated)
    status = configure(
        tmp_path,
        data,
        "tatoeba",
        {"layers": [0, 1, None], "poolings": ["mean", "first"]},
        {"sources": {"tatoeba": str(tmp_path / "tatoeba")}, "languages": ["de"]},
    )
    told = capsys.readouterr()
    assert status == 0, told.err
    assert "Sentence retrieval to en: tatoeba, layer 0, mean (none chosen)" in told.out
    assert "none was chosen on other sentences, so none is the result" in told.out
    assert not (tmp_path / "sentence_retrieval_tatoeba_layer_0_mean.png").exists()
    assert (tmp_path / "sentence_retrieval_tatoeba_views.png").read_bytes().startswith(b"\x89PNG")
