"""A whole pretraining at the smallest size, from real shards: for tests of the command line that need the real thing."""

import io
from pathlib import Path

import yaml
from PIL import Image
from trained import small_tokenizer

from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards import ShardWriter

EMBEDDINGS = {"vocabulary": {"size": 600}, "width": 8, "max_tokens": 32}
ENCODER = {
    "class_path": "interlingua.models.two_towers.TwoTowers",
    "init_args": {
        "vector_width": 8,
        "text": {
            "class_path": "interlingua.models.towers.TextTower",
            "init_args": {
                "embeddings": {"class_path": "interlingua.models.embeddings.TextEmbeddings", "init_args": EMBEDDINGS},
                "transformer": {
                    "class_path": "interlingua.models.transformer.Transformer",
                    "init_args": {"width": 8, "layers": 1, "heads": 2},
                },
            },
        },
        "image": {
            "class_path": "interlingua.models.towers.ImageTower",
            "init_args": {
                "front_end": {
                    "class_path": "interlingua.modalities.image_front_ends.ConvolutionStem",
                    "init_args": {"width": 8, "channels": [8], "size": 32},
                }
            },
        },
    },
}
CONTRAST = "interlingua.tasks.objectives.contrast.Contrast"
EXPERIMENT = {
    "trainer": {
        "max_steps": 2,
        "accelerator": "cpu",
        "log_every_n_steps": 1,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "logger": False,
    },
    "model": {
        "class_path": "interlingua.tasks.pretraining.Pretraining",
        "init_args": {
            "encoder": ENCODER,
            "objectives": {
                "picture": {"class_path": CONTRAST, "init_args": {"left": "text", "right": "image"}},
                "mlm": {"class_path": "interlingua.tasks.objectives.masked_language.MaskedLanguage"},
            },
            "passes": {"pictures": [["picture"], ["mlm"]]},
            "optimization": {"learning_rate": 0.001, "schedule": "constant"},
        },
    },
    "data": {
        "class_path": "interlingua.datamodules.training.Shards",
        "init_args": {
            "max_tokens": 32,
            "workers": 0,
            "sources": {"pictures": {"batch_size": 4, "text": {"languages": ["en"]}, "image": {"size": 32}}},
        },
    },
}


def write_parts(data: Path, folder: Path, cut_short: int | None = None) -> tuple[str, str, int]:
    """Write six pictures with names in three languages; paths of the shards and of a tokenizer, and its size.

    Args:
        data: The development data.
        folder: For the shards.
        cut_short: Number of a picture that cannot be read.
    """
    with ShardWriter(folder / "shards") as writer:
        for number in range(6):
            stored = io.BytesIO()
            Image.new("RGB", (8, 8), (40 * number, 100, 200)).save(stored, "PNG")
            texts = [Caption(code, f"dog {number}") for code in ("en", "de", "sw")]
            writer.write(f"{number}", texts, number, stored.getvalue()[: 40 if number == cut_short else None])
    made = small_tokenizer(data)
    return str(folder / "shards"), made.path, made.vocabulary.size


def write_experiment(parts: tuple[str, str, int]) -> None:
    """Write `experiment.yaml` into the working folder."""
    shards, tokenizer, size = parts
    experiment = yaml.safe_load(yaml.safe_dump(EXPERIMENT))
    data = experiment["data"]["init_args"]
    data["tokenizer"], data["sources"]["pictures"]["shards"] = tokenizer, shards
    embeddings = experiment["model"]["init_args"]["encoder"]["init_args"]["text"]["init_args"]["embeddings"]
    embeddings["init_args"]["vocabulary"]["size"] = size
    Path("experiment.yaml").write_text(yaml.safe_dump(experiment))
