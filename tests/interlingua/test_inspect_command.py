"""`interlingua inspect` over a run on real pictures with captions in two languages."""

import json
import re
import tarfile

import pytest
import yaml
from PIL import Image
from trained import small_tokenizer

from interlingua.__main__ import main
from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards.writer import ShardWriter

OBJECTIVES = "interlingua.tasks.objectives"


def write_shards(data, folder):
    """Stamps with their own English and German captions."""
    with tarfile.open(data / "stamps-val.tar") as tar, ShardWriter(folder) as writer:
        members = {member.name: member for member in tar}
        for name in sorted(members)[:60]:
            record = json.load(tar.extractfile(members[name])) if name.endswith("json") else {}
            if {"en", "de"} <= record.get("captions", {}).keys():
                picture = tar.extractfile(members[name.replace("json", "webp")]).read()
                texts = [Caption(code, record["captions"][code]) for code in ("en", "de")]
                writer.write(name[:-5], texts, item=record["id"], image=picture)


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspect")
    write_shards(data, folder / "shards")
    tokenizer = str(small_tokenizer(data).path)
    source = {"shards": str(folder / "shards"), "batch_size": 8, "text": {"languages": ["en", "de"]}, "image": {"size": 16}}
    tower = {"vocabulary": {"size": 1500}, "size": {"width": 32, "layers": 2, "heads": 4}, "max_tokens": 32}
    patches = {
        "class_path": "interlingua.modalities.image_front_ends.Patches",
        "init_args": {"width": 32, "patch": 8, "size": 16},
    }
    text = {"class_path": "interlingua.models.presets.bert", "init_args": tower}
    encoder = {
        "class_path": "interlingua.models.pixel_presets.vilt",
        "init_args": {"plan": "2 joint", "text": text, "front_end": patches},
    }
    objectives = {
        "itm": {"class_path": f"{OBJECTIVES}.image_text_matching.ImageTextMatching"},
        "mlm": {"class_path": f"{OBJECTIVES}.masked_language.MaskedLanguage", "init_args": {"rate": 0.3}},
    }
    model = {"encoder": encoder, "objectives": objectives, "passes": {"captions": [["itm", "mlm"]]}, "tokenizer": tokenizer}
    shards = {"tokenizer": tokenizer, "max_tokens": 32, "workers": 0, "sources": {"captions": source}}
    configuration = {
        "trainer": {"max_steps": 2, "default_root_dir": str(folder / "run")},
        "model": {
            "class_path": "interlingua.tasks.pretraining.Pretraining",
            "init_args": {**model, "optimization": {"learning_rate": 1e-3}},
        },
        "data": {
            "class_path": "interlingua.datamodules.training.Shards",
            "init_args": {**shards, "validation": {"captions": source}},
        },
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(configuration))
    assert main(["fit", "--config", str(folder / "run.yaml")]) == 0
    return folder / "run" / "checkpoints" / "last.ckpt"


def inspect(run, *arguments):
    return main(["inspect", str(run), *map(str, arguments)])


def test_pictures_page_and_ablation(run, tmp_path, capsys):
    assert inspect(run, "--output", tmp_path, "--language", "de", "--samples", 0, 3) == 0
    out = capsys.readouterr().out
    assert "page.html, inspect.json, attention_0.png, attention_3.png" in out
    found = json.loads((tmp_path / "inspect.json").read_text())
    row, share = found["ablation"]
    assert (found["source"], row["objective"], row["taken"]) == ("captions", "mlm", "picture")
    assert (row["figure"], share["figure"]) == ("loss", "accuracy")
    assert min(row["whole"], row["without"], row["swapped"]) > 5
    assert all(0 <= share[name] <= 1 for name in ("whole", "without", "swapped"))
    assert row["count"] == share["count"] > 50
    assert f"{row['whole']:.3f}" in out
    page = (tmp_path / "page.html").read_text()
    assert page.count("<img") == 2
    assert f"{row['without']:.3f}" in page
    for number in (0, 3):
        with Image.open(tmp_path / f"attention_{number}.png") as picture:
            assert min(picture.size) > 200
            assert len(set(picture.convert("RGB").resize((60, 60)).getdata())) > 30  # something is drawn


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--samples", 1000], r"--samples 1000: captions has \d+ samples, numbered from 0"),
        (["--samples", -1], "expected 1 or more, and 0 or more"),
        (["--batches", 0], "expected 1 or more"),
        (["--layer", 7], "--layer 7: text attends to the picture in layers 1, 2"),
        (["--layer", 0], "--layer 0: text attends to the picture in layers 1, 2"),
        (["--language", "fr"], "--language fr: captions has de, en"),
        (["--source", "others"], "--source others: validation sources with text and picture are captions"),
    ],
)
def test_what_is_not_there_is_told_in_a_line(run, tmp_path, capsys, arguments, message):
    assert inspect(run, "--output", tmp_path / "out", *arguments) == 2
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 1
    assert re.search(message, err[0]), err[0]


def test_other_files_are_told_in_a_line(run, tmp_path, capsys):
    assert main(["inspect", str(tmp_path / "none.ckpt"), "--output", str(tmp_path / "out")]) == 2
    assert "none.ckpt" in capsys.readouterr().err
    (tmp_path / "text.ckpt").write_text("no checkpoint")
    assert main(["inspect", str(tmp_path / "text.ckpt"), "--output", str(tmp_path / "out")]) == 2
    assert "not a checkpoint" in capsys.readouterr().err
    assert inspect(run, "--output", tmp_path / "text.ckpt") == 2
    assert "is a file; expected a folder" in capsys.readouterr().err
