"""`interlingua transfer`: two small runs on real intents, from their checkpoints to figures over seeds."""

import csv
import json
import os
import shutil
from types import SimpleNamespace

import pytest
import torch
import yaml
from small_transfer import LANGUAGES, transfer

from interlingua.checkpoints import load_model
from interlingua.configuration import ConfigurationError
from interlingua.run_checkpoints import sort_by_step
from interlingua.run_plans import check_seeds
from interlingua.tasks.results import Record, read_results, write_results

SHOWN = "intents from en, checkpoint chosen on en dev"
ORACLE = "intents from en, each language's checkpoint chosen on its own dev (oracle, not zero-shot)"


@pytest.fixture(scope="module")
def runs(transfer_runs):
    """A folder with runs `a` and `b`, of two seeds, trained on English, with a checkpoint at each of three validations."""
    return transfer_runs


def read_scores(folder):
    return json.loads((folder / "transfer.json").read_text())


def test_from_runs_to_figures_over_seeds(runs, tmp_path, capsys):
    status, out, err = transfer(capsys, runs / "a", runs / "b", "--output", tmp_path)
    assert status == 0, err
    assert "a: scoring 3 checkpoints and the average of their weights" in out
    assert "Reported is accuracy." in out
    assert SHOWN in out
    found = {record.key: record for record in read_results(tmp_path / "results.json")}
    kept = [read_scores(runs / name) for name in "ab"]
    assert [one["name"] for one in kept[0]["checkpoints"]] == ["step=15", "step=30", "step=45"]  # last.ckpt is one
    for language in LANGUAGES:
        values = []
        for one in kept:
            right = [entry["scores"]["validation"]["en"]["intent/accuracy"][0] for entry in one["checkpoints"]]
            best = one["checkpoints"][right.index(max(right))]["scores"]["test"][language]["intent/accuracy"]
            values.append(best[0] / best[1])
        record = found["zero_shot_transfer", SHOWN, language, "accuracy"]
        assert record.value == pytest.approx(sum(values) / 2)
        reach = 12.7062 * abs(values[0] - values[1]) / 2  # t of one degree, times the deviation over the root of two
        assert record.low == pytest.approx(max(0.0, record.value - reach), abs=1e-4)
        assert record.high == pytest.approx(min(1.0, record.value + reach), abs=1e-4)
    assert ("transfer", ORACLE, "all", "mean accuracy") in found
    assert (tmp_path / "transfer.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    with open(runs / "intents.jsonl") as lines:
        rows = [json.loads(line) for line in lines]
    for language in LANGUAGES:
        labels = [row["intent"] for row in rows if row["lang"] == language and row["split"] == "test"]
        most = max(map(labels.count, labels))
        assert found["zero_shot_transfer", SHOWN, language, "majority"].value == pytest.approx(most / len(labels))
    assert page.count("<polyline") == 2 + 2 * 2  # a loss a seed; accuracy in English and in the others


def test_scores_are_those_that_training_logged(runs, tmp_path, capsys):
    """The same examples, the same marks: what validation said after step 45 is what the checkpoint of step 45 is told to be."""
    assert transfer(capsys, runs / "a", "--output", tmp_path)[0] == 0
    with open(next((runs / "a" / "logs").glob("version_*/metrics.csv")), newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get("validation/intents/en/accuracy")]
    entries = read_scores(runs / "a")["checkpoints"]
    assert len(rows) == len(entries) == 3
    for row, entry in zip(rows, entries, strict=True):
        for language in LANGUAGES:
            right, of, n = entry["scores"]["validation"][language]["intent/accuracy"]
            assert right / of == pytest.approx(float(row[f"validation/intents/{language}/accuracy"]), abs=1e-5)
            assert n == of


def test_what_runs_read_is_told_once(runs, tmp_path, capsys, caplog):
    for name in "ab":
        (runs / name / "transfer.json").unlink(missing_ok=True)
    with caplog.at_level("INFO"):
        assert transfer(capsys, runs / "a", runs / "b", "--output", tmp_path)[0] == 0
    said = [message for message in caplog.messages if message.startswith(("validation: ", "test: "))]
    assert [message.partition(":")[0] for message in said] == ["validation", "validation", "test", "test"]  # and what is cut
    assert len(set(said)) == 4


def test_a_folder_shows_one_report(runs, tmp_path, capsys):
    """What stood there of another report goes, and figures of other evaluations stay."""
    other = Record("text_to_image_retrieval", "pictures", "en", "recall@1", 0.5, 0.4, 0.6, 10)
    before = Record("zero_shot_transfer", "pos from en, last checkpoint", "en", "mean span_f1", 0.5, 0.4, 0.6, 10)
    write_results([other, before], tmp_path)
    (tmp_path / "transfer_span_f1.png").write_text("")
    (tmp_path / "mine.png").write_text("")
    status, out, err = transfer(capsys, runs / "a", "--output", tmp_path)
    assert status == 0, err
    found = read_results(tmp_path / "results.json")
    assert other in found
    assert {record.data.partition(" ")[0] for record in found} == {"pictures", "intents"}
    assert sorted(file.name for file in tmp_path.glob("*.png")) == ["mine.png", "transfer.png"]
    assert "another report stood there (pos from en, last checkpoint); it is replaced" in out


def test_one_checkpoint_a_run_needs_no_dev_and_is_reported_once(runs, tmp_path, capsys):
    for name in "ab":
        (tmp_path / name / "checkpoints").mkdir(parents=True)
        shutil.copy(runs / name / "checkpoints" / "last.ckpt", tmp_path / name / "checkpoints")
    (tmp_path / "data.yaml").write_text("data: {init_args: {validation: null, held_out: 0}}")
    arguments = [tmp_path / "a", tmp_path / "b", "--output", tmp_path / "out", "--data", tmp_path / "data.yaml"]
    status, out, err = transfer(capsys, *arguments)
    assert status == 0, err
    assert "a: scoring its only checkpoint" in out
    assert "One checkpoint: nothing to choose." in out
    assert "oracle" not in out.lower()
    assert {record.data for record in read_results(tmp_path / "out" / "results.json")} == {
        "intents from en, the only checkpoint"
    }
    kept = [json.loads((tmp_path / name / "transfer.json").read_text()) for name in "ab"]
    assert all(one["checkpoints"][0]["scores"] == one["average"]["scores"] for one in kept)
    assert "taken from" in transfer(capsys, *arguments)[1]


def test_the_average_is_of_weights_not_of_figures(runs, tmp_path, capsys):
    """Loaded, averaged and scored by hand."""
    from lightning import LightningDataModule

    from interlingua.checking import build
    from interlingua.checkpoints import read_configuration

    assert transfer(capsys, runs / "a", "--output", tmp_path)[0] == 0
    files = [runs / "a" / "checkpoints" / f"step={step}.ckpt" for step in (15, 30, 45)]
    states = [load_model(file).state_dict() for file in files]
    model = load_model(files[0])
    model.load_state_dict({name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]})
    data = build(LightningDataModule, read_configuration(files[0])["data"])
    data.setup("test")
    right = {language: [0, 0] for language in LANGUAGES}
    for part in data._reader("intents/test", data.examples["intents/test"]).once():
        batch = part().batch
        language = data.tokenizer.languages[int(batch.text.language[0, 0])]
        scores = model.objectives["intent"].scores(model.encoder(batch), batch)
        right[language][0] += int((scores.argmax(1) == batch.target.label).sum())
        right[language][1] += batch.size
    found = read_scores(runs / "a")["average"]["scores"]["test"]
    assert {language: found[language]["intent/accuracy"][:2] for language in LANGUAGES} == right


def test_scores_are_used_again_until_something_changes(runs, tmp_path, capsys):
    assert transfer(capsys, runs / "a", "--output", tmp_path)[0] == 0
    first = read_scores(runs / "a")
    out = transfer(capsys, runs / "a", "--output", tmp_path)[1]
    assert "scored before, and nothing has changed since" in out
    assert "One seed: no interval." in out
    assert read_scores(runs / "a") == first
    os.utime(runs / "intents.jsonl", (1, 1))
    out = transfer(capsys, runs / "a", "--output", tmp_path)[1]
    assert "scoring 3 checkpoints" in out
    again = read_scores(runs / "a")
    assert again["key"] != first["key"]
    assert again["checkpoints"] == first["checkpoints"]


def test_other_data(runs, tmp_path, capsys):
    """A configuration whose `data` is merged over the run's: other files, and so other scores, of fewer languages."""
    rows = [json.loads(line) for line in (runs / "intents.jsonl").read_text().splitlines()]
    few = tmp_path / "few.jsonl"
    few.write_text("".join(f"{json.dumps(row)}\n" for row in rows if row["lang"] != "ru"))
    (tmp_path / "data.yaml").write_text(yaml.safe_dump({"data": {"init_args": {"test": str(few)}}}))
    status, _, err = transfer(capsys, runs / "b", "--output", tmp_path, "--data", tmp_path / "data.yaml")
    assert status == 0, err
    assert sorted(read_scores(runs / "b")["average"]["scores"]["test"]) == ["de", "en"]
    assert sorted(read_scores(runs / "b")["average"]["scores"]["validation"]) == ["de", "en", "ru"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere/checkpoints: there is no such folder; give the folder of a run"),
        (["a", "a"], "a is given twice; each run counts as one seed"),
        (["a", "--figure", "f1"], "--figure f1: there is intent/accuracy; the nearest is 'intent/accuracy'"),
        (["a", "--language", "sw"], "--language sw: a was trained in en; give --language CODE"),
        (["a", "--data", "a.yaml"], "expected `data:` alone, a mapping"),
        (["a", "--data", "other.yaml"], "the data's source is 'other', but no pass of the model reads it"),
    ],
)
def test_mistakes_are_told_in_a_line(arguments, words, runs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(runs)
    (runs / "other.yaml").write_text("data: {init_args: {name: other}}\n")
    status, _, err = transfer(capsys, *arguments, "--output", tmp_path)
    assert status == 2
    assert words in err
    assert err.strip().count("\n") == 0


def test_scores_that_cannot_be_kept_are_reported_all_the_same(runs, tmp_path, capsys):
    os.utime(runs / "intents.jsonl", (2, 2))
    beside = runs / "a" / "transfer.json.partial"
    beside.mkdir()
    status, out, err = transfer(capsys, runs / "a", "--output", tmp_path)
    beside.rmdir()
    assert status == 0, err
    assert "transfer.json: cannot be written (Is a directory): the scores are not kept" in out
    assert SHOWN in out


def test_runs_of_one_seed_are_told():
    """They differ by nothing that chance decides: an interval over them is too narrow."""

    def run(name, seed, data="intents"):
        return SimpleNamespace(folder=name, seed=[seed, seed], name=data)

    assert check_seeds([run("a", 0)]) == ["One seed: no interval."]
    assert check_seeds([run("a", 0), run("b", 1)]) == []
    assert check_seeds([run("a", 0), run("b", 1), run("c", 0)]) == ["a and c have the same seed: intervals say too little."]
    with pytest.raises(ConfigurationError, match="runs are of different data, intents and xnli; report them apart"):
        check_seeds([run("a", 0), run("b", 1, "xnli")])


def test_the_name_that_tells_the_step_is_taken(tmp_path):
    """`last.ckpt` is a copy of another, or the only one of its step; names do not order, steps do."""
    for name, step in (("step=100", 100), ("step=20", 20), ("last", 100)):
        torch.save({"global_step": step}, tmp_path / f"{name}.ckpt")
    found = sort_by_step(tmp_path.glob("*.ckpt"))
    assert [(file.stem, step) for file, step in found.items()] == [("step=20", 20), ("step=100", 100)]
    torch.save({"global_step": 120}, tmp_path / "last.ckpt")
    assert [file.stem for file in sort_by_step(tmp_path.glob("*.ckpt"))] == ["step=20", "step=100", "last"]
