"""One optimiser step of `Pretraining` without a trainer, on one rank or several, and a single stream to train."""

import tiny
import torch

from interlingua.modalities.batch import Step
from interlingua.modalities.image_front_ends import Patches
from interlingua.models.towers import ImageTower, TextTower
from interlingua.models.two_towers import TwoTowers
from interlingua.tasks.objectives.contrast import Contrast
from interlingua.tasks.objectives.image_text_matching import ImageTextMatching
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining
from interlingua.tasks.ranks import sum_gradients, sum_over_ranks


def single_stream(encoder=None, rate=0.5, hidden=0.3) -> Pretraining:
    """Image-text matching and masked language modelling in one pass over a fused encoder."""
    torch.manual_seed(0)
    objectives = {"itm": ImageTextMatching(rate), "mlm": MaskedLanguage(hidden)}
    options = Optimization(1e-2, warmup_steps=2, weight_decay=0.1)
    return Pretraining(encoder or tiny.single_stream(), objectives, {"captions": [["itm", "mlm"]]}, options, seed=3)


def two_towers(tokenizer, hidden=0.3) -> Pretraining:
    """Image-text contrast and masked language modelling over two towers, for texts of a tokenizer."""
    torch.manual_seed(0)
    text = TextTower(tiny.embeddings(vocabulary=tokenizer.vocabulary), tiny.transformer(layers=1))
    encoder = TwoTowers(text, ImageTower(Patches(tiny.WIDTH, patch=8, size=16), tiny.transformer(layers=1)), vector_width=24)
    objectives = {"itc": Contrast("text", "image"), "mlm": MaskedLanguage(hidden)}
    options = Optimization(1e-2, warmup_steps=2, weight_decay=0.1)
    return Pretraining(encoder, objectives, {"captions": [["itc", "mlm"]]}, options, tokenizer.path, seed=3)


def one_step(model: Pretraining, step: Step) -> tuple[dict[str, float], dict[str, int], dict[str, torch.Tensor]]:
    """Mean loss and count of each objective over all ranks, and the gradients summed over ranks."""
    model.zero_grad()
    model.manual_backward = lambda loss: loss.backward()
    losses, counts = model.backward_step(step)
    sum_gradients(model.parameters())
    means = {}
    for name, count in zip(model.objectives, counts.tolist(), strict=True):
        own = losses[name].total.double() if name in losses else torch.zeros((), dtype=torch.float64)
        means[name] = sum_over_ranks(own).item() / max(1, count)
    gradients = {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}
    return means, dict(zip(model.objectives, counts.tolist(), strict=True)), gradients


def assert_equal_steps(one, other, tolerance=1e-5):
    """Losses, counts and gradients of two steps agree; the largest gradients to five digits."""
    (means, counts, gradients), (means_too, counts_too, gradients_too) = one, other
    assert counts == counts_too
    assert gradients.keys() == gradients_too.keys()
    for name, mean in means.items():
        assert abs(mean - means_too[name]) < tolerance, name
    for name, gradient in gradients.items():
        assert torch.allclose(gradient, gradients_too[name], atol=tolerance), name
