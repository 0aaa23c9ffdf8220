"""Files and command line merged into one mapping."""

import pytest

from interlingua.configuration import ConfigurationError, locate, merge, packaged_configurations, read_arguments

PRETRAINING = """
model:
  class_path: package.Pretraining
  init_args:
    encoder: {class_path: package.Tower, init_args: {width: 8, depth: 2}}
    objectives:
      mlm: {class_path: package.Mlm, init_args: {rate: 0.15, weight: 2.0}}
      itc: {class_path: package.Itc}
    passes: [[mlm], [itc]]
trainer: {max_steps: 10, callbacks: [{class_path: package.Stop, init_args: {patience: 3}}]}
"""


@pytest.fixture(autouse=True)
def base(tmp_path, monkeypatch):
    """A folder with `base.yaml`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.yaml").write_text(PRETRAINING)


def read(*arguments, text=None):
    """The configuration of base.yaml, then `text`, then the arguments."""
    if text is not None:
        with open("second.yaml", "w") as file:
            file.write(text)
        arguments = ("--config", "second.yaml", *arguments)
    return read_arguments(["--config=base.yaml", *arguments]).configuration


def arguments_of(configuration):
    return configuration["model"]["init_args"]


def test_second_file_touches_one_objective_and_keeps_the_rest():
    merged = read(text="model: {init_args: {objectives: {mlm: {init_args: {rate: 0.4}}}}}")
    objectives = arguments_of(merged)["objectives"]
    assert objectives["mlm"] == {"class_path": "package.Mlm", "init_args": {"rate": 0.4, "weight": 2.0}}
    assert objectives["itc"] == {"class_path": "package.Itc"}
    assert arguments_of(merged)["encoder"]["init_args"] == {"width": 8, "depth": 2}


def test_changed_class_drops_arguments_of_the_old_one():
    merged = read(text="model: {init_args: {encoder: {class_path: package.Fused, init_args: {layers: 3}}}}")
    assert arguments_of(merged)["encoder"] == {"class_path": "package.Fused", "init_args": {"layers": 3}}


def test_same_class_keeps_arguments():
    merged = read(text="model: {init_args: {encoder: {class_path: package.Tower, init_args: {depth: 3}}}}")
    assert arguments_of(merged)["encoder"]["init_args"] == {"width": 8, "depth": 3}


def test_null_removes_and_lists_replace():
    merged = read(text="model: {init_args: {objectives: {itc: null}, passes: [[mlm]]}}\ntrainer: {max_steps: null}")
    assert list(arguments_of(merged)["objectives"]) == ["mlm"]
    assert arguments_of(merged)["passes"] == [["mlm"]]
    assert "max_steps" not in merged["trainer"]


def test_null_for_what_no_file_said_is_kept():
    assert read(text="trainer: {logger: null}")["trainer"]["logger"] is None


def test_merge_alters_neither():
    first, second = {"a": {"b": 1}}, {"a": {"c": [1]}}
    assert merge(first, second) == {"a": {"b": 1, "c": [1]}}
    assert (first, second) == ({"a": {"b": 1}}, {"a": {"c": [1]}})


@pytest.mark.parametrize("address", ["model.objectives.mlm.rate", "model.init_args.objectives.mlm.init_args.rate"])
def test_objective_by_its_name_on_the_command_line(address):
    objectives = arguments_of(read(f"--{address}", "0.4"))["objectives"]
    assert objectives["mlm"]["init_args"] == {"rate": 0.4, "weight": 2.0}
    assert "itc" in objectives


def test_command_line_wins_wherever_it_stands():
    assert read_arguments(["--trainer.max_steps=20", "--config", "base.yaml"]).configuration["trainer"]["max_steps"] == 20


def test_command_line_changes_classes_removes_and_counts_through_lists():
    changed = read(
        *("--model.encoder", "package.Fused", "--model.encoder.layers", "3"),
        *("--model.objectives.itc", "null", "--trainer.callbacks.0.patience", "5"),
    )
    assert arguments_of(changed)["encoder"] == {"class_path": "package.Fused", "init_args": {"layers": 3}}
    assert list(arguments_of(changed)["objectives"]) == ["mlm"]
    assert changed["trainer"]["callbacks"][0]["init_args"] == {"patience": 5}


def test_new_objective_on_the_command_line():
    changed = read("--model.objectives.tlm.class_path", "package.Tlm", "--model.objectives.tlm.rate", "0.3")
    assert arguments_of(changed)["objectives"]["tlm"] == {"class_path": "package.Tlm", "init_args": {"rate": 0.3}}


def test_model_by_its_class_alone():
    assert read_arguments(["--model", "package.Other"]).configuration == {"model": {"class_path": "package.Other"}}


def test_norwegian_is_no_boolean_and_exponents_are_numbers():
    merged = read(text="data: {languages: [no, en, on], rate: 1e-3, day: 2020-01-01, flag: true, whole: 12, half: .5}")
    expected = {"languages": ["no", "en", "on"], "rate": 1e-3, "day": "2020-01-01", "flag": True, "whole": 12, "half": 0.5}
    assert merged["data"] == expected


@pytest.mark.parametrize("text", ["-1", "1e5", "-2.5e-3", "1.0", ".inf", "0.1"])
def test_numbers(text):
    assert read(f"--trainer.x={text}")["trainer"]["x"] == float(text.replace(".inf", "inf"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("trainer: {max_steps: 1}\ntrainer: {max_steps: 2}", "second.yaml: line 1, column 1: found 'trainer' twice"),
        ("trainer: [1", "second.yaml: line"),
        ("just words", "second.yaml: found a str, expected a mapping"),
    ],
)
def test_file_that_cannot_be_read(text, told):
    with pytest.raises(ConfigurationError, match=told) as caught:
        read(text=text)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["fast"], "unexpected argument 'fast'; expected --config FILE or --address value"),
        (["--trainer.max_steps"], "--trainer.max_steps has no value"),
        (["--trainer.max_steps", "--trainer.devices"], "--trainer.max_steps has no value"),
        (["--trainer.max_steps.x", "1"], "trainer.max_steps is 10 and has no key 'x'"),
        (["--trainer.callbacks.1.patience", "1"], "'1' is no place in a list of 1; expected 0 to 0"),
        (["--trainer.x", "[1"], r"--trainer.x: cannot read '\[1' as YAML"),
        (["--config", "nowhere.yaml"], "--config nowhere.yaml: no such file in"),
    ],
)
def test_argument_that_cannot_be_read(arguments, told):
    with pytest.raises(ConfigurationError, match=told) as caught:
        read(*arguments)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["configs/pretrain/quickstart.yaml"])
def test_installed_configuration_is_found_from_anywhere(name, capsys):
    assert locate(name) == packaged_configurations()[name]
    assert f"{name} is not in this folder; reading the installed" in capsys.readouterr().err


def test_own_file_goes_before_the_installed_one(tmp_path):
    (tmp_path / "configs" / "pretrain").mkdir(parents=True)
    own = tmp_path / "configs" / "pretrain" / "quickstart.yaml"
    own.write_text("trainer: {max_steps: 1}")
    assert locate("configs/pretrain/quickstart.yaml").resolve() == own


def test_misspelt_installed_configuration():
    with pytest.raises(ConfigurationError, match=r"the nearest is 'configs/pretrain/quickstart.yaml'"):
        locate("configs/pretrain/quickstrat.yaml")
