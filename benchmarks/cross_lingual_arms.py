"""Arms of `cross_lingual.py`: what is changed of `configs/pretrain/infoxlm_small.yaml`, as arguments of `interlingua fit`."""

import json
from collections.abc import Mapping

OBJECTIVES = "interlingua.tasks.objectives"
MLM_ALONE = ["--model.objectives.tlm", "null", "--model.objectives.xlco", "null"]
NO_PAIRS = [
    *MLM_ALONE,
    *("--model.passes.parallel", "null", "--data.sources.parallel", "null"),
    *("--data.sources.monolingual.batch_tokens", "4096", "--data.sources.monolingual.micro_batch_tokens", "4096"),
]
DOCUMENTS = {
    **{"shards": "DATA/parallel_documents/train", "text": {}, "translation": {}, "alternate": 16},
    **{"sampling": {"exponent": 0.7}, "batch_tokens": 2048, "micro_batch_tokens": 2048},
}


def node(path: str, options: Mapping[str, object]) -> dict[str, object]:
    """An objective as configurations name it."""
    return {"class_path": f"{OBJECTIVES}.{path}", "init_args": dict(options)}


def instead(**added: tuple[str, Mapping[str, object]]) -> list[str]:
    """Arguments that put objectives in the place of the contrast, each in a reading of its own."""
    arguments = ["--model.objectives.xlco", "null", "--model.passes.parallel", json.dumps([["tlm"], *([one] for one in added)])]
    for one, (path, options) in added.items():
        arguments += [f"--model.objectives.{one}", json.dumps(node(path, options))]
    return arguments


ARMS: dict[str, list[str]] = {
    "untrained": [*NO_PAIRS, "--model.optimization.learning_rate", "1e-9"],
    "MLM": NO_PAIRS,
    "MLM + TLM": instead(),
    "MLM + TLM + XlCo": [],
    "MLM + TLM + HICTL": instead(
        sctl=("interpolated_contrast.InterpolatedContrast", {"temperature": 0.07, "pooling": "mean"}),
        wctl=("word_contrast.WordContrast", {"pair": "infoxlm", "others": 256, "temperature": 0.1}),
    ),
    "MLM + TLM + CAMLM": instead(
        camlm=(
            "cross_attention_language.CrossAttentionLanguage",
            {"pair": "infoxlm", "orders": "drawn", "scheme": "word", "rate": 0.4},
        ),
    ),
}
FURTHER: dict[str, list[str]] = {
    "MLM + TLM + CLWR": instead(clwr=("word_recovery.WordRecovery", {"orders": "drawn"})),
    "MLM + TLM + CLPC": instead(clpc=("paraphrase.Paraphrase", {"pair": "infoxlm", "orders": "drawn", "negatives": "mined"})),
    "MLM + TLM + CAMLM + BTMLM": [
        *ARMS["MLM + TLM + CAMLM"],
        *("--model.passes.monolingual", json.dumps([["mlm"], ["btmlm"]]), "--model.objectives.btmlm"),
        json.dumps(node("back_translation_language.BackTranslationLanguage", {"pair": "infoxlm", "ratio": 0.5})),
    ],
    "MLM + ALM": [
        *(*MLM_ALONE, "--model.passes.parallel", json.dumps([["alm"]])),
        *("--model.objectives.alm", json.dumps(node("code_switching.CodeSwitching", {}))),
        *("--data.sources.parallel.shards", "DATA/aligned"),
    ],
    "MLM + documents": [
        *(*MLM_ALONE, "--model.passes.parallel", "null", "--data.sources.parallel", "null"),
        *("--model.passes.documents", json.dumps([["mlm"]]), "--data.sources.documents", json.dumps(DOCUMENTS)),
        *("--data.max_tokens", "120"),
    ],
}
"""Arms that are run where `--arms` names them. DATA stands for the data folder, in which docs/text.md writes `aligned` and
`parallel_documents`."""
