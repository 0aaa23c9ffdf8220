"""Two small runs of fine-tuning on real intents, and the command that measures them."""

import gzip
import json

import yaml
from trained import small_tokenizer

from interlingua.__main__ import main

LABELS = ["HassTurnOn", "HassTurnOff", "HassLightSet", "HassGetState", "HassMediaNext", "HassStartTimer"]
LANGUAGES = ("en", "de", "ru")


def train_runs(folder, data):
    """Runs `a` and `b`, of two seeds, trained on English, with a checkpoint at each of three validations."""
    with gzip.open(data / "intents.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    kept = [row for row in rows if row["intent"] in LABELS and row["lang"] in LANGUAGES]
    (folder / "intents.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in kept[::2]), encoding="utf-8")
    for number, name in enumerate("ab"):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(configure(folder, folder / name, data, number)))
        assert main(["fit", "--config", str(folder / f"{name}.yaml")]) == 0


def configure(folder, root, data, seed):
    def node(path, **arguments):
        return {"class_path": f"interlingua.{path}", "init_args": arguments}

    def read(split):
        return node("datamodules.labelled.json_lines.JsonLines", label="intent", language="lang", conditions={"split": split})

    tokenizer = small_tokenizer(data)
    embeddings = node(
        "models.embeddings.TextEmbeddings", vocabulary={"size": tokenizer.vocabulary.size}, width=32, max_tokens=32
    )
    transformer = node("models.transformer.Transformer", width=32, layers=1, heads=2)
    encoder = node("models.towers.TextTower", embeddings=embeddings, transformer=transformer)
    intent = node("tasks.objectives.sentence_classification.SentenceClassification", classes=len(LABELS), pooling="mean")
    keep = {"dirpath": str(root / "checkpoints"), "filename": "{step}", "save_top_k": -1, "save_last": True}
    return {
        "seed_everything": seed,
        "trainer": {
            "accelerator": "cpu",
            "max_steps": 45,
            "val_check_interval": 15,
            "log_every_n_steps": 2,
            "default_root_dir": str(root),
            "enable_progress_bar": False,
            "callbacks": [
                {
                    "class_path": "lightning.pytorch.callbacks.ModelCheckpoint",
                    "init_args": {**keep, "enable_version_counter": False},
                }
            ],
        },
        "model": node(
            "tasks.pretraining.Pretraining",
            encoder=encoder,
            objectives={"intent": intent},
            passes={"intents": [["intent"]]},
            optimization={"learning_rate": 1e-2},
            seed=seed,
        ),
        "data": node(
            "datamodules.labelled.data.Labelled",
            format=read("train"),
            test_format=read("test"),
            tokenizer=str(tokenizer.path),
            train={"en": str(folder / "intents.jsonl")},
            validation=str(folder / "intents.jsonl"),
            test=str(folder / "intents.jsonl"),
            labels=LABELS,
            held_out=0.3,
            max_tokens=32,
            batch_size=16,
            workers=0,
            seed=seed,
            name="intents",
        ),
    }


def transfer(capsys, *arguments):
    """Exit status, and what was told."""
    capsys.readouterr()
    status = main(["transfer", *map(str, arguments)])
    told = capsys.readouterr()
    return status, told.out, told.err
