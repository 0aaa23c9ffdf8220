"""Arms of `cross_modal.py`: configurations of `interlingua fit`, of one implementation (`models.fused_presets.vilbert`) by
three plans of five layers, with the same embeddings, vector of both and heads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlingua.models.plan import lay_out

OBJECTIVES = "interlingua.tasks.objectives"
PICTURED, BESIDE, NEVER = "en", ["de", "fr"], ["hi", "ko", "sw"]
"""The language of captions beside pictures; those that VTLM shows beside them, too; and those of texts alone in every arm."""
OTHERS = [*BESIDE, "es", "ru", *NEVER]
WIDTH, VECTOR = 128, 64
PLANS = {"single stream": "5 joint", "dual stream": "text, cross, own", "two towers": "3 text, 2 picture"}
"""A layer of both streams with weights of its own for each, as `cross` and `own` are, is as large as two."""
ARMS = [
    *PLANS,
    *("single stream + TLM", "single stream + TLM + VTLM"),
    *("dual stream + TLM", "dual stream + contrast"),
    *("two towers + TLM", "two towers + contrast"),
]


def node(path: str, **options: Any) -> dict[str, Any]:
    """A class as configurations name it."""
    return {"class_path": f"interlingua.{path}", "init_args": options}


def encoder(plan: str, vectors: bool) -> dict[str, Any]:
    size = {"width": WIDTH, "layers": lay_out(plan).layers["text"], "heads": 4}
    text = {"vocabulary": {"size": 6000}, "size": size, "max_tokens": 32, "dropout": 0, "attention_dropout": 0}
    options = {"plan": plan, "width": WIDTH, "heads": 4, "inner": 4 * WIDTH, "cross": {"width": WIDTH, "heads": 4}}
    if vectors:
        options["vector_width"] = VECTOR
    pool = {"how": "product", "width": WIDTH, "activation": "tanh"}
    return node("models.fused_presets.vilbert", text=node("models.presets.bert", **text), features=WIDTH, pool=pool, **options)


def objectives(towers: bool, added: list[str]) -> tuple[dict[str, Any], dict[str, list[list[str]]]]:
    """By name, and which are read together of which source."""
    every = {
        "itm": node("tasks.objectives.image_text_matching.ImageTextMatching", replaced="either"),
        "mlm": node("tasks.objectives.masked_language.MaskedLanguage", on="matched"),
        "mrc": node(
            "tasks.objectives.masked_region_classification.MaskedRegionClassification",
            classes=64,
            target="soft",
            hiding="vilbert",
        ),
    }
    passes = {"captions": [["itm", "mlm", "mrc"]], "names": [["mlm"]]}
    if towers:
        every["itc"] = node("tasks.objectives.contrast.Contrast")
        passes["captions"].insert(0, ["itc"])
    if "TLM" in added:
        every["tlm"] = node("tasks.objectives.translation_language.TranslationLanguage", pair="xlm")
        passes["pairs"] = [["tlm"]]
    if "contrast" in added:
        every["xlco"] = node("tasks.objectives.contrast.Contrast", left="text", right="translation")
        passes["pairs"] = [["xlco"]]
    if "VTLM" in added:
        every["vtlm"] = node("tasks.objectives.visual_translation_language.VisualTranslationLanguage", max_tokens=48)
        passes["pictured_pairs"] = [["vtlm"]]
    return every, passes


def sources(data: Path, split: str, size: int, passes: Mapping[str, Any]) -> dict[str, Any]:
    """What is read: captions in English beside their pictures; the rest as texts."""
    shards, english = str(data / split), {"languages": [PICTURED]}
    every = {
        "captions": {"shards": shards, "text": english, "regions": {}},
        "names": {"shards": shards, "text": {"languages": [PICTURED, *OTHERS]}},
        "pairs": {"shards": shards, "text": english, "translation": {"languages": OTHERS}},
        "pictured_pairs": {
            "shards": str(data / "aligned") if split == "train" else shards,
            **{"text": english, "translation": {"languages": BESIDE}, "regions": {}},
        },
    }
    return {name: {**every[name], "batch_size": size} for name in passes}


def configuration(arm: str, seed: int, data: Path, steps: int, folder: Path) -> dict[str, Any]:
    """What `interlingua fit` is given."""
    kind, *added = arm.split(" + ")
    towers = kind == "two towers"
    every, passes = objectives(towers, added)
    rates = {"learning_rate": 1e-3, "warmup_steps": steps // 10, "schedule": "linear", "weight_decay": 0.01}
    model = node(
        "tasks.pretraining.Pretraining",
        encoder=encoder(PLANS[kind], towers or "contrast" in added),
        objectives=every,
        passes=passes,
        optimization={**rates, "betas": [0.9, 0.98], "max_gradient_norm": 1},
        seed=seed,
    )
    shards = node(
        "datamodules.training.Shards",
        **{"tokenizer": str(data / "tokenizer.model"), "max_tokens": 24, "workers": 0, "seed": seed},
        sources=sources(data, "train", 64, passes),
        validation=sources(data, "val", 128, {"captions": passes["captions"]}),
    )
    trainer = {"max_steps": steps, "val_check_interval": steps, "default_root_dir": str(folder)}
    return {"seed_everything": seed, "trainer": trainer, "model": model, "data": shards}
