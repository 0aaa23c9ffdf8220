"""Scores of every text with every picture, by encoders that read both at once: what the matching head makes of each pair.

(Caption-based retrieval of ViLBERT, arXiv:1908.02265, section 3.2; likewise IGLUE, arXiv:2201.11732.)
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

import torch
from jaxtyping import Float32
from torch import Tensor, nn

from ..modalities.batch import Batch, take
from ..models.encoder import Encoder
from ..models.loading import load_whole
from .objectives.pairs import build_head

HEADS = ("ImageTextMatching", "HardImageTextMatching")
"""Objectives that have a matching head, by their class."""


def read_head(checkpoint: dict, path: str, encoder: Encoder, objective: str | None = None) -> nn.Linear:
    """The matching head of a pretraining checkpoint.

    Args:
        checkpoint: As loaded.
        path: Where it is from.
        encoder: What it was trained on.
        objective: Name of its objective; None: the only one.

    Raises:
        ValueError: It has none, or several, or not that one.
    """
    model = checkpoint.get("configuration", {}).get("model", {}).get("init_args", {})
    classes = {name: str(node.get("class_path", "")) for name, node in model.get("objectives", {}).items() if node}
    found = [name for name, one in classes.items() if one.rpartition(".")[2] in HEADS]
    chosen = found if objective is None else [name for name in found if name == objective]
    if len(chosen) != 1:
        wanted = "" if objective is None else f" called {objective!r}"
        raise ValueError(
            f"{path}: expected one objective{wanted} of image-text matching, whose head scores pairs; found "
            f"{', '.join(found) or 'none'}" + (", of which `model.objective` names one" if len(found) > 1 else "")
        )
    head, start = build_head(encoder), f"objectives.{chosen[0]}.head."
    weights = {name[len(start) :]: value for name, value in checkpoint["state_dict"].items() if name.startswith(start)}
    load_whole(head, weights, f"head of {chosen[0]}")
    return head


@torch.no_grad()
def score_pairs(
    encoder: Encoder,
    head: nn.Linear,
    texts: Batch,
    pictures: Batch,
    rows: int,
    send: Callable[[Batch], Batch],
    context: Callable[[], AbstractContextManager],
    watch: Callable[[range], Iterable[int]] = iter,
) -> Float32[Tensor, "T N"]:
    """The logit of class 1, a match, less that of class 0, of every text with every picture.

    Args:
        encoder, head: What scores; in evaluation mode.
        texts, pictures: Rows with a text each, and with a picture each.
        rows: Pairs that are read at a time.
        send: Moves a batch to the device.
        context: Of the precision.
        watch: Shows how far the batches are.
    """
    count, pairs = pictures.size, texts.size * pictures.size
    scores = torch.zeros(pairs)
    # Long texts stand beside long ones, so that batches cost alike and rows fit.
    order = texts.text.present.sum(1).argsort(stable=True)
    for start in watch(range(0, pairs, rows)):
        place = torch.arange(start, min(start + rows, pairs))
        text = order[place // count]
        both = take(pictures, place % count)._replace(text=take(texts.text, text))
        with context():
            logits = head(encoder(send(both)).joint).float()
        scores[text * count + place % count] = (logits[:, 1] - logits[:, 0]).cpu()
    return scores.view(texts.size, count)
