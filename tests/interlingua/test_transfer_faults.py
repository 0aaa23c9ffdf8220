"""`interlingua transfer` over runs that are damaged, unequal or none of fine-tuning: told in a line, before any scoring."""

import json
import shutil

import pytest
import torch
import yaml
from small_transfer import transfer


@pytest.fixture
def copies(transfer_runs, tmp_path, monkeypatch):
    """Copies of both runs, in the working folder, that have not been scored."""
    for name in "ab":
        shutil.copytree(transfer_runs / name, tmp_path / name, ignore=shutil.ignore_patterns("transfer.json*"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys, words, *arguments):
    """The command says these words in one line, and has scored nothing."""
    status, out, err = transfer(capsys, *arguments, "--output", "out")
    assert status == 2, out + err
    assert words in err
    assert err.strip().count("\n") == 0
    assert "scoring" not in out
    assert "object at 0x" not in err


def change(file, **changed):
    """Write a checkpoint anew with other parts; `data.x` and so on are of its configuration."""
    found = torch.load(file, weights_only=True)
    for address, value in changed.items():
        *parents, last = address.split("__")
        node = found
        for parent in parents:
            node = node[parent]
        node[last] = value
    torch.save(found, file)


def checkpoints(run):
    return sorted((run / "checkpoints").glob("*.ckpt"))


def change_all(run, **changed):
    for file in checkpoints(run):
        change(file, **changed)


DATA = "configuration__data__init_args__"


def test_a_run_that_is_no_fine_tuning_says_what_it_is_and_what_is_expected(copies, capsys):
    change_all(copies / "a", configuration__data={"class_path": "interlingua.datamodules.training.Shards", "init_args": {}})
    refused(capsys, "a is no run of fine-tuning: its `data` is interlingua.datamodules.training.Shards, expected", "a")
    _, _, err = transfer(capsys, "a", "--output", "out")
    assert "interlingua.datamodules.labelled.data.Labelled, as in configs/transfer; to fine-tune what it has trained" in err
    change_all(copies / "b", configuration__model={"class_path": "interlingua.tasks.retrieval.Retrieval", "init_args": {}})
    refused(capsys, "b is no run of fine-tuning: its `model` is interlingua.tasks.retrieval.Retrieval, expected", "b")


def test_figures_and_languages_are_refused_before_any_scoring(copies, capsys):
    refused(capsys, "--figure f1: there is intent/accuracy; the nearest is 'intent/accuracy'", "a", "b", "--figure", "f1")
    refused(capsys, "--language de: a was trained in en; give --language CODE", "a", "b", "--language", "de")
    assert not (copies / "a" / "transfer.json").exists()


def test_a_language_without_test_or_dev_data_is_refused_before_any_scoring(copies, transfer_runs, capsys):
    rows = [json.loads(line) for line in (transfer_runs / "intents.jsonl").read_text().splitlines()]
    for name, kept in (
        ("no_en", [row for row in rows if row["lang"] != "en"]),
        ("bare", [{**row, "intent": ""} for row in rows]),
    ):
        (copies / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in kept))

    def give(split, name):
        (copies / "data.yaml").write_text(yaml.safe_dump({"data": {"init_args": {split: f"{name}.jsonl"}}}))
        return "a", "--data", "data.yaml"

    (copies / "data.yaml").write_text("data: {init_args: {test: null}}")
    refused(capsys, "a: no test data in any language; give `test`, files by language, by --data", "a", "--data", "data.yaml")
    refused(capsys, "no test data in en, the language of training; found de, ru", *give("test", "no_en"))
    refused(
        capsys,
        "--language en: no dev data in it to choose a checkpoint on; dev is there in de, ru",
        *give("validation", "no_en"),
    )
    refused(capsys, "of data.test in it has a label, so nothing can be right or wrong", *give("test", "bare"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "--data data.yaml: no such file in"),
        ("data: [", "--data data.yaml: line 1, column 8: "),
        ("data: {a: 1, a: 2}", "--data data.yaml: line 1, column "),
        ("- a", "--data data.yaml: found a list, expected a mapping"),
        ("", "--data data.yaml: found nothing, expected `data:` alone"),
        ("trainer: {}\ndata: {}", "--data data.yaml: found trainer, data, expected `data:` alone"),
        ("data: 3", "--data data.yaml: found data, expected `data:` alone, a mapping"),
        ("data: {test: x.jsonl}", "--data data.yaml: found test under `data:`, expected init_args, a mapping"),
        ("data: {init_args: {tests: x}}", "--data data.yaml: data.tests: no such key (found 'x'); the nearest is 'test'"),
        ("data: {init_args: {test: 3}}", "--data data.yaml: data.test: found 3, expected a text, a list of texts or a mapping"),
        ("data: {init_args: {test: gone.jsonl}}", "--data data.yaml: data.test: there is no file gone.jsonl"),
        ("data: {init_args: {tokenizer: gone.model}}", "--data data.yaml: data: tokenizer file gone.model does not exist"),
        ("data: {init_args: {labels: [x]}}", "--data data.yaml: "),
        (
            "data: {init_args: {max_tokens: 100}}",
            "--data data.yaml: the data's max_tokens is 100, but the encoder reads at most 32",
        ),
        (
            "data: {class_path: interlingua.datamodules.training.Shards}",
            "a is no run of fine-tuning: its `data` is interlingua.",
        ),
        (b"\xff\xfe", "--data data.yaml: not UTF-8 at byte 0"),
    ],
)
def test_what_is_wrong_with_other_data_is_told_of_them(copies, capsys, content, words):
    if content is not None:
        (copies / "data.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(capsys, words, "a", "--data", "data.yaml")
    assert "--config data.yaml" not in transfer(capsys, "a", "--data", "data.yaml", "--output", "out")[2]


def test_files_that_have_moved_are_told_with_the_way_out(copies, capsys):
    change_all(copies / "a", **{f"{DATA}test": "gone.jsonl"})
    refused(capsys, "a: data.test: there is no file gone.jsonl; where files have moved, give --data FILE.yaml", "a")


def test_damaged_checkpoints_are_named(copies, capsys):
    second = copies / "a" / "checkpoints" / "step=30.ckpt"
    whole = second.read_bytes()
    for content, words in (
        (whole[:5000], "step=30.ckpt: not a checkpoint, or cut short (5,000 bytes)"),
        (b"", "step=30.ckpt: not a checkpoint"),
        (b"text", "step=30.ckpt: not a checkpoint"),
    ):
        second.write_bytes(content)
        refused(capsys, words, "a")
    second.unlink()
    second.mkdir()
    refused(capsys, "step=30.ckpt: cannot be read: Is a directory", "a")
    second.rmdir()
    torch.save([1], second)
    refused(capsys, "step=30.ckpt: not a checkpoint; found a list", "a")
    torch.save({"global_step": 30, "state_dict": {}}, second)
    refused(capsys, "step=30.ckpt: holds no configuration of model and data; give a run of `interlingua fit`", "a")


def test_weights_that_are_not_finite_are_refused(copies, capsys):
    file = copies / "a" / "checkpoints" / "step=30.ckpt"
    found = torch.load(file, weights_only=True)
    found["state_dict"][next(iter(found["state_dict"]))].fill_(float("nan"))
    torch.save(found, file)
    status, _, err = transfer(capsys, "a", "--output", "out")
    assert status == 2
    assert "step=30.ckpt: encoder" in err
    assert "holds numbers that are not finite, so training had failed by then" in err


def test_checkpoints_of_two_runs_in_one_folder_are_refused(copies, capsys):
    """What `--overwrite` leaves of an earlier run, or a copy that went astray."""
    file = copies / "a" / "checkpoints" / "step=30.ckpt"
    whole = file.read_bytes()
    shutil.copy(copies / "b" / "checkpoints" / "step=30.ckpt", file)
    refused(capsys, "step=30.ckpt: of another run than step=45.ckpt (seed_everything 1, there 0; model.seed 1, there 0)", "a")
    file.write_bytes(whole)
    found = torch.load(file, weights_only=True)
    name = next(iter(found["state_dict"]))
    found["state_dict"][name] = found["state_dict"][name][:-1]
    torch.save(found, file)
    refused(capsys, f"step=30.ckpt: of another model than step=45.ckpt; weights differ in {name}", "a")
    file.write_bytes(whole)
    change(copies / "a" / "checkpoints" / "last.ckpt", global_step=30)
    refused(capsys, "last.ckpt is of step 30, but step=45.ckpt of step 45: they are of two runs in one folder", "a")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder.mkdir(), "none/checkpoints: no .ckpt there; give the folder of a run"),
        (lambda folder: (folder / "checkpoints").mkdir(parents=True), "none/checkpoints: no .ckpt there"),
        (lambda folder: folder.write_text(""), "none/checkpoints: none is a file; give the folder of a run"),
    ],
)
def test_folders_without_checkpoints(copies, capsys, make, words):
    make(copies / "none")
    refused(capsys, words, "a", "none")


def test_the_same_run_twice_by_another_path_is_refused(copies, capsys):
    (copies / "link").symlink_to("a")
    refused(capsys, "link is given twice; each run counts as one seed", "a", "link")


def test_unequal_runs_are_refused_before_any_scoring(copies, capsys, transfer_runs):
    def restore():
        shutil.rmtree(copies / "b")
        shutil.copytree(transfer_runs / "b", copies / "b", ignore=shutil.ignore_patterns("transfer.json*"))

    rows = [json.loads(line) for line in (transfer_runs / "intents.jsonl").read_text().splitlines()]
    (copies / "few.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows if row["lang"] != "ru"))
    change_all(copies / "b", **{f"{DATA}test": "few.jsonl"})
    refused(capsys, "b: test has de ", "a", "b")
    restore()
    change_all(copies / "b", **{f"{DATA}name": "other", "configuration__model__init_args__passes": {"other": [["intent"]]}})
    refused(capsys, "runs are of different data, intents and other; report them apart", "a", "b")
    restore()
    labels = torch.load(checkpoints(copies / "b")[0], weights_only=True)["configuration"]["data"]["init_args"]["labels"]
    for name in ("intents.jsonl", "renamed.jsonl"):
        (copies / name).write_text((transfer_runs / "intents.jsonl").read_text().replace("HassTurnOn", "Renamed"))
    files = {f"{DATA}{split}": "renamed.jsonl" for split in ("validation", "test")}
    change_all(copies / "b", Labelled={}, **files, **{f"{DATA}labels": ["Renamed", *labels[1:]]})
    refused(capsys, "runs are of different tasks: labels of b are ", "a", "b")


def test_other_numbers_of_checkpoints_changed_options_and_runs_cut_short_are_noted(copies, capsys):
    for name in ("step=45.ckpt", "last.ckpt"):
        (copies / "b" / "checkpoints" / name).unlink()
    change(copies / "a" / "checkpoints" / "step=15.ckpt", configuration__model__init_args__optimization={"learning_rate": 0.5})
    (copies / "a" / "config.yaml").unlink()
    table = next((copies / "b" / "logs").glob("version_*/metrics.csv"))
    table.write_text(table.read_text()[:-20] + "\n1,nonsense,2,x\n")
    status, out, err = transfer(capsys, "a", "b", "--output", "out")
    assert status == 0, err
    page = (copies / "out" / "page.html").read_text(encoding="utf-8")
    for words in (
        "b: its last checkpoint is of step 30, but it was to be trained 45 steps.",
        "Runs have different checkpoints to choose from and to average (a 3 up to step 45, b 2 up to step 30).",
        "a/checkpoints/step=15.ckpt was trained with other options than step=45.ckpt: model.optimization.learning_rate 0.5",
        f"No curves of b: {table.relative_to(copies)}, line ",
    ):
        assert words in out
        assert words in page
    assert "nan" not in (copies / "out" / "results.json").read_text().lower()


def test_results_that_cannot_be_written_are_refused_before_any_scoring(copies, capsys):
    (copies / "file").write_text("")
    for output, words in (
        ("file", "--output is file, which is a file; expected a folder"),
        ("file/below", "file (Not a directory); choose another folder"),
        ("/proc/none", "--output is /proc/none, but no file can be made in /proc ("),
    ):
        status, out, err = transfer(capsys, "a", "--output", output)
        assert status == 2
        assert words in err
        assert "scoring" not in out


def test_results_that_others_cannot_join_are_refused_before_any_scoring(copies, capsys):
    (copies / "out").mkdir()
    (copies / "out" / "results.json").write_text("{")
    refused(capsys, "out/results.json: expected a list of records", "a")


def test_results_may_stand_in_the_run_itself(copies, capsys):
    assert transfer(capsys, "a", "--output", "a")[0] == 0
    assert {"config.yaml", "checkpoints", "page.html", "results.json", "transfer.json"} <= {
        one.name for one in (copies / "a").iterdir()
    }
    assert "taken from a/transfer.json" in transfer(capsys, "a", "--output", "a")[1]


@pytest.mark.parametrize("content", ["{", "[]", "{}", None])
def test_kept_scores_that_are_damaged_are_made_anew(copies, capsys, content):
    assert transfer(capsys, "a", "--output", "out")[0] == 0
    kept = copies / "a" / "transfer.json"
    whole = json.loads(kept.read_text())
    kept.write_text(json.dumps({"key": whole["key"]}) if content is None else content)
    assert "a: scoring 3 checkpoints" in transfer(capsys, "a", "--output", "out")[1]
    assert json.loads(kept.read_text()) == whole
