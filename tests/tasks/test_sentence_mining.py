"""Sentence mining as it is run: thresholds come of one source, figures of another, whatever the batches and the processes."""

from functools import partial

import numpy as np
import pytest
import tiny
import torch
from lightning import LightningDataModule
from quiet import quiet_trainer
from ranks import run_on_ranks
from torch.nn import functional as F
from trained import small_tokenizer

from interlingua.modalities.batch import Batch, take
from interlingua.models.encoder import States
from interlingua.tasks.mining_scores import are_right, count, find_candidates, tune
from interlingua.tasks.ranking import normalize
from interlingua.tasks.results import read_results
from interlingua.tasks.sentence_mining import SentenceMining

SIZES = {"dev/de": (40, 50, 12), "dev/sw": (30, 35, 9), "test/de": (55, 45, 15), "test/sw": (40, 45, 10)}
"""Texts on the left, on the right, and pairs."""
VOCABULARY = tiny.Vocabulary(1500)
VIEW = "last layer, mean"
pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers.*", "ignore:.*arguments are not compatible.*")


def vectors(source, language, width=16) -> torch.Tensor:
    """What the encoder below makes of each text: pairs are the same but for noise, of which dev has less than test."""
    left, right, pairs = SIZES[source]
    generator = torch.Generator().manual_seed(sorted(SIZES).index(source))
    sides = [torch.randn(size, width, generator=generator) + 0.5 for size in (left, right)]
    sides[1][:pairs] = sides[0][:pairs] + (0.8 if "dev" in source else 1.1) * torch.randn(pairs, width, generator=generator)
    return sides[language == "en"]


class Planted(tiny.TextTower):
    """Vectors by source, language and item; layer 1 is the last, layer 0 tells nothing."""

    def forward(self, batch, allow=None, keep=()):
        code = "en" if int(batch.text.language[0, 0]) == self.english else batch.source[-2:]
        own = vectors(batch.source, code)[batch.item // 7]
        states = own[:, None].expand(-1, batch.text.tokens.shape[1], -1)
        return States(text=states, layers={0: States(text=torch.ones_like(states)), 1: States(text=states)})


def encoder(tokenizer):
    tower = Planted(tiny.embeddings(vocabulary=VOCABULARY), tiny.transformer())
    tower.english = tokenizer.language_id("en")
    return tower


def batches(tokenizer, sources=tuple(SIZES)) -> list[Batch]:
    """A batch a side; the first pairs have the same sample, and text n the item 7n."""
    made = []
    for source in sources:
        left, right, pairs = SIZES[source]
        for code, size, start in ((source[-2:], left, 1000), ("en", right, 2000)):
            number = torch.arange(size)
            text = tiny.text([4 + n % 5 for n in range(size)], vocabulary=VOCABULARY, language=tokenizer.language_id(code))
            sample = torch.where(number < pairs, number, number + start)
            made.append(Batch(source, 7 * number, sample, 0 * number, text=text))
    return made


def cut(some, size) -> list[Batch]:
    return [take(b, torch.arange(i, min(i + size, b.size))) for b in some for i in range(0, b.size, size)]


class Loader(list):
    """Batches as they are; of a plain list Lightning makes a loader each."""


class Told(LightningDataModule):
    """What a task asks of its data."""

    def __init__(self, given, pivot="en", sources=("dev", "test")):
        super().__init__()
        self.batches, self.pivot, self.sources = given, pivot, dict.fromkeys(sources)

    def test_dataloader(self):
        return Loader(self.batches)


class Telling(Told):
    """Tells texts, too: text n of a side, by its sample."""

    def read_texts(self, source, language):
        left, right, pairs = SIZES[source]
        size, start = (left, 1000) if language != "en" else (right, 2000)
        return {n if n < pairs else n + start: (f"{language}-{n}", f"text\t{n}\n of {language}") for n in range(size)}


def evaluate(data, folder, given=None, told=None, strategy="auto", devices=1, **options) -> dict:
    tokenizer = small_tokenizer(data)
    module = SentenceMining(encoder(tokenizer), tokenizer.path, output=str(folder), **{"tuned_on": "dev", **options})
    trainer = quiet_trainer(folder, devices=devices, strategy=strategy)
    trainer.test(module, datamodule=told or Told(given or batches(tokenizer)), verbose=False)
    return {record.key: record for record in read_results(folder / "results.json")} if trainer.is_global_zero else {}


def same(left, right) -> bool:
    found = [(r.key, r.n, pytest.approx([r.value, r.low, r.high])) for r in left.values()]
    return found == [(r.key, r.n, [r.value, r.low, r.high]) for r in right.values()]


def mined(source, margin=4, way="max"):
    """Candidates of a source, which of them are right, and how many could be."""
    sides = [normalize(vectors(source, code)) for code in (source[-2:], "en")]
    candidates = find_candidates(*sides, margin, way)
    pairs = SIZES[source][2]
    return candidates, are_right(candidates, np.stack([np.arange(pairs)] * 2, axis=1)), pairs


@pytest.mark.parametrize(("way", "margin"), [("max", 4), ("forward", 4), ("backward", 2), ("max", None)])
def test_thresholds_come_of_dev_and_figures_of_test(tmp_path, data, capsys, way, margin):
    found, task = (
        evaluate(data, tmp_path, way=way, margin=margin),
        "sentence_mining" if way == "max" else f"sentence_mining_{way}",
    )
    assert {key[0] for key in found} == {task}
    moved = 0
    for language in ("de", "sw"):
        threshold = tune(*mined(f"dev/{language}", margin, way))
        for split in ("dev", "test"):
            own = mined(f"{split}/{language}", margin, way)
            counts = count(*own, threshold)
            record = {key[3]: one for key, one in found.items() if key[1:3] == (f"{split}, {VIEW}", language)}
            assert [record[name].value for name in ("F1", "precision", "recall")] == pytest.approx(counts.shares)
            sizes = [record[f"{name} size"].value for name in ("found", "right", "gold")]
            assert sizes == [*counts]
            assert record["threshold"].value == pytest.approx(threshold)
            assert record["gallery size"].value == SIZES[f"{split}/{language}"][1]
            assert record["F1"].n == SIZES[f"{split}/{language}"][0]
            assert record["F1"].low <= record["F1"].value <= record["F1"].high
        moved += count(*own, tune(*own)).shares[0] - counts.shares[0]
    assert moved > 0.005, "tuned on what it reports, it would say more"
    mean = found[task, f"test, {VIEW}", "all", "mean F1"]
    assert mean.value == pytest.approx(sum(found[task, f"test, {VIEW}", code, "F1"].value for code in ("de", "sw")) / 2)
    assert next(iter(found))[1] == f"test, {VIEW}", "what is reported comes first"
    tables = (tmp_path / "results.md").read_text()
    assert f"| F1 | mean over all |\n|---|---:|\n| {task.replace('_', ' ').capitalize()}: test, {VIEW} |" in tables
    assert f"{found[task, f'test, {VIEW}', 'de', 'threshold'].value:.5f} |" in tables
    assert f"{task.replace('_', ' ').capitalize()}, test, {VIEW}, shares in per cent" in capsys.readouterr().out


def test_batches_and_repetitions_change_nothing(tmp_path, data):
    """Pitfall M09: whatever the batches, in any order, and some twice."""
    tokenizer = small_tokenizer(data)
    whole, nothing = evaluate(data, tmp_path / "whole"), torch.zeros(0, dtype=torch.int64)
    parts = cut(batches(tokenizer), 7)
    for name, given in (
        ("alone", cut(batches(tokenizer), 1)),
        ("twice", [*parts[::-1], *parts[:9], Batch("", nothing, nothing, nothing)]),
    ):
        assert same(whole, evaluate(data, tmp_path / name, given)), name


def on_rank(folder, data) -> dict:
    rank = torch.distributed.get_rank()
    parts = cut(batches(small_tokenizer(data)), 7)
    return evaluate(data, folder, [*parts[rank::2], parts[rank]], strategy="ddp", devices=2)


def test_two_processes_equal_one(tmp_path, data):
    """Pitfall M09: every second batch each, the last filled up with a repetition."""
    two, nothing = run_on_ranks(on_rank, 2, tmp_path / "two", data)
    assert nothing == {}
    assert same(two, evaluate(data, tmp_path / "one"))


def test_a_text_that_stands_twice_is_one(tmp_path, data):
    """Under two keys, of which one is in a pair: it is searched once, and found whichever key the pair has."""
    tokenizer = small_tokenizer(data)
    given = batches(tokenizer)
    doubled = [torch.cat([torch.arange(batch.size), torch.tensor([0, 1, 20])]) for batch in given]
    more = []
    for batch, rows in zip(given, doubled, strict=True):
        more.append(
            take(batch, rows)._replace(sample=torch.cat([batch.sample, torch.tensor([7001, 7002, 7003]) + 10 * len(more)]))
        )
    assert same(evaluate(data, tmp_path / "a"), evaluate(data, tmp_path / "b", more))


def test_several_translations_of_a_text_are_all_gold(tmp_path, data):
    """A row for each pair: the text counts once, the pairs each."""
    given = batches(small_tokenizer(data))
    left, right = given[0], given[1]
    rows = torch.cat([torch.arange(left.size), torch.tensor([0])])
    sample = torch.cat([left.sample, right.sample[45:46]])
    given[0] = take(left, rows)._replace(sample=sample)
    found = evaluate(data, tmp_path, given)
    record = found["sentence_mining", f"dev, {VIEW}", "de", "gold size"]
    assert (record.value, record.n) == (SIZES["dev/de"][2] + 1, SIZES["dev/de"][0])


def test_the_view_is_chosen_where_thresholds_are(tmp_path, data, capsys):
    """Of layers that are not reported the means on dev are told, and nothing of test is looked at."""
    found = evaluate(data, tmp_path, layers=[0, 1], poolings=["mean", "first"])
    assert "chosen on dev: layer 1, mean, mean F1 " in capsys.readouterr().out
    assert {key[1] for key in found if key[1].startswith("test")} == {"test, layer 1, mean"}
    means = {key[1]: one.value for key, one in found.items() if key[3] == "mean F1"}
    assert means["dev, layer 1, mean"] == means["dev, layer 1, first"] > 0.5 > 0.1 > means["dev, layer 0, mean"]
    assert {key[1] for key in found if key[2] == "de"} == {"test, layer 1, mean", "dev, layer 1, mean"}


def test_a_view_that_is_best_on_dev_is_reported_though_another_is_on_test(tmp_path, data, monkeypatch):
    """On dev layer 0 finds all pairs, as they have the same vectors; on test all its vectors are equal, and of pairs that are
    all equally good at most one is taken."""

    class Misleading(Planted):
        def forward(self, batch, allow=None, keep=()):
            states, number = super().forward(batch, allow, keep), batch.item // 7
            alone = 64 if int(batch.text.language[0, 0]) == self.english else 128
            exact = F.one_hot(torch.where(number < SIZES[batch.source][2], number, number + alone), 192).float() + 0.1
            own = exact if batch.source.startswith("dev") else torch.ones_like(exact)
            layer = own[:, None].expand(-1, batch.text.tokens.shape[1], -1)
            return states._replace(layers={0: States(text=layer), 1: states})

    monkeypatch.setitem(globals(), "Planted", Misleading)
    found = evaluate(data, tmp_path, layers=[1, 0])
    means = {key[1]: one.value for key, one in found.items() if key[3] == "mean F1"}
    assert means.keys() == {"test, layer 0, mean", "dev, layer 0, mean", "dev, layer 1, mean"}
    assert means["dev, layer 0, mean"] == 1 > means["dev, layer 1, mean"]
    assert means["test, layer 0, mean"] < 0.2
    other = [count(*mined(f"test/{code}"), tune(*mined(f"dev/{code}"))).shares[0] for code in ("de", "sw")]
    assert sum(other) / 2 > 0.3, "which is what a choice by test would say"


def test_faults(tmp_path, data):
    tokenizer = small_tokenizer(data)
    every = batches(tokenizer)
    apart = [batch._replace(sample=torch.arange(batch.size) + 1000 * place) for place, batch in enumerate(every)]
    for told, options, message in (
        (Told(every, pivot="sw"), {}, "the data's pivot is 'sw', the model's is 'en'; set both alike"),
        (Told(every, sources=["test"]), {}, "tuned on 'dev' and reported on another source, .* sources are test; add"),
        (Told(every, sources=["dev"]), {}, "tuned on 'dev' and reported on another source, .* sources are dev; add"),
        (Told(every[:4]), {}, "reported on another source, but the data's sources are dev; add"),
        (Told(every[4:]), {}, "tuned on 'dev' and reported on another source, but the data's sources are test; add"),
        (Told(every[:2] + every[4:]), {}, "test has sw, but dev has not: no threshold can be tuned for it"),
        (Told([every[0], *every[2:]]), {}, "dev/de: found texts in de; expected de and the pivot en, both and no other"),
        (Told(apart), {}, "dev/de: no text has a translation: nothing can be scored"),
        (Told(every), {"margin": 0}, "margin is 0; expected the number of neighbours"),
        (Told(every), {"layers": [3]}, r"layers names \[3\], but Planted has 2 blocks"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluate(data, tmp_path, told=told, **options)
    assert not (tmp_path / "results.json").exists()


def test_broken_vectors_name_their_samples(tmp_path, data, monkeypatch):
    """Pitfall M02: a vector that is not a number is an error, and no candidate."""
    whole = vectors

    def broken(source, language):
        found = whole(source, language)
        found[20] = torch.nan if (source, language) == ("test/de", "en") else found[20]
        return found

    monkeypatch.setitem(globals(), "vectors", broken)
    with pytest.raises(
        ValueError, match=r"test/de, last layer, mean: the vectors of 1 texts are not finite \(in en; en: sample"
    ):
        evaluate(data, tmp_path)


def test_the_pairs_that_were_taken_are_written(tmp_path, data, capsys):
    """By language: score, keys, texts and whether they are gold pairs, as many as the figures say."""
    found = evaluate(data, tmp_path, told=Telling(batches(small_tokenizer(data))))
    for language in ("de", "sw"):
        file = tmp_path / f"sentence_mining_test_{language}_last_layer_mean.tsv"
        head, *rows = [line.split("\t") for line in file.read_text().splitlines()]
        assert head == ["score", f"key_{language}", "key_en", f"text_{language}", "text_en", "in_gold"]
        own = {key[3]: one.value for key, one in found.items() if key[1:3] == (f"test, {VIEW}", language)}
        assert len(rows) == own["found size"] > 0
        assert sum(row[5] == "yes" for row in rows) == own["right size"]
        scores = [float(row[0]) for row in rows]
        assert scores == sorted(scores, reverse=True)
        assert min(scores) >= own["threshold"] - 1e-6
        for _, key, other, text, translation, gold in rows:
            number, partner = int(key[3:]), int(other[3:])
            assert (text, translation) == (f"text {number} of {language}", f"text {partner} of en")
            assert (gold == "yes") == (number == partner < SIZES[f"test/{language}"][2])
        assert f"{len(rows)} pairs of test/{language}: {file}" in capsys.readouterr().out or language == "sw"
    assert not list(tmp_path.glob("*dev*"))
    page = (tmp_path / "sentence_mining_test_last_layer_mean.html").read_text()
    assert f'<td class="text" dir="auto" lang="{language}">{rows[0][3]}</td>' in page
    assert (tmp_path / "sentence_mining_test_last_layer_mean.png").read_bytes().startswith(b"\x89PNG")


class Learnt(Planted):
    """Vectors that tell something once there is a checkpoint, and nothing before."""

    def forward(self, batch, allow=None, keep=()):
        states = super().forward(batch, allow, keep)
        return states if self.embeddings.tokens.weight[0, 0] == 7 else states._replace(text=torch.randn_like(states.text).abs())


def test_untrained_weights_are_measured_beside(tmp_path, data):
    """With thresholds of their own; without a checkpoint there is nothing that they stand beside."""
    tokenizer = small_tokenizer(data)
    tower = Learnt(tiny.embeddings(vocabulary=VOCABULARY), tiny.transformer())
    tower.english = tokenizer.language_id("en")
    weights = {f"encoder.{name}": value.clone() for name, value in tower.state_dict().items()}
    weights["encoder.embeddings.tokens.weight"][0, 0] = 7
    torch.save({"state_dict": weights}, tmp_path / "a.ckpt")
    options = {"output": str(tmp_path), "tuned_on": "dev"}
    module = SentenceMining(tower, tokenizer.path, checkpoint=str(tmp_path / "a.ckpt"), untrained=True, **options)
    quiet_trainer(tmp_path).test(module, datamodule=Told(batches(tokenizer)), verbose=False)
    found = {record.key: record.value for record in read_results(tmp_path / "results.json")}
    trained, bare = (f"test, {VIEW}{words}" for words in ("", ", untrained"))
    assert (
        found["sentence_mining", trained, "all", "mean F1"]
        == evaluate(data, tmp_path / "alone")["sentence_mining", trained, "all", "mean F1"].value
    )
    assert found["sentence_mining", bare, "all", "mean F1"] < 0.5 * found["sentence_mining", trained, "all", "mean F1"]
    with pytest.raises(ValueError, match="untrained is true, but checkpoint is null"):
        SentenceMining(tower, tokenizer.path, untrained=True, **options)


def test_neighbours_of_which_there_are_fewer_are_told(tmp_path, data, capsys, monkeypatch):
    few = partial(find_candidates, margin=4)  # of so many these vectors are at right angles
    monkeypatch.setattr("interlingua.tasks.sentence_mining.find_candidates", lambda left, right, *_: few(left, right))
    evaluate(data, tmp_path, margin=42)
    said = [line for line in capsys.readouterr().out.splitlines() if "fewer texts are searched" in line]
    assert [line.partition("(")[2].partition(")")[0] for line in said] == ["dev/de 40", "dev/sw 30", "test/sw 40"]
