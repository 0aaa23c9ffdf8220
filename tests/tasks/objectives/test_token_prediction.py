"""Objectives that predict tokens of one table do so by one head, unless they are told not to."""

import tiny
import torch

from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.translation_language import TranslationLanguage
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining

PASSES = {"texts": [["mlm"]], "pairs": [["tlm"]]}


def module(**options) -> Pretraining:
    torch.manual_seed(0)
    objectives = {"mlm": MaskedLanguage(rate=0.5), "tlm": TranslationLanguage(rate=0.5)}
    return Pretraining(tiny.text_tower(), objectives, PASSES, Optimization(1e-3, schedule="constant"), **options)


def test_mlm_and_tlm_share_a_head_whose_gradient_is_their_sum():
    model = module()
    heads = [model.objectives[name].head for name in ("mlm", "tlm")]
    assert heads[0] is heads[1]
    batches = {
        "mlm": tiny.batch(source="texts"),
        "tlm": tiny.batch(source="pairs", translation=tiny.text((5, 9, 4, 7), seed=1)),
    }
    gradients = []
    for names in (["mlm"], ["tlm"], ["mlm", "tlm"]):
        model.zero_grad()
        for name in names:
            objective = model.objectives[name]
            marked = objective.mark(objective.view(batches[name]))
            objective.loss(objective.read(model.encoder, marked), marked).total.backward()
        gradients.append(heads[0].dense.weight.grad.clone())
    torch.testing.assert_close(gradients[0] + gradients[1], gradients[2])
    assert gradients[0].abs().sum() > 0 < gradients[1].abs().sum()


def test_a_shared_head_is_trained_once_and_comes_back_shared_from_a_checkpoint():
    model, again = module(), module()
    apart = module(share_heads=False)
    own = sum(parameter.numel() for parameter in model.objectives["mlm"].parameters())
    count = [sum(parameter.numel() for parameter in one.parameters()) for one in (model, apart)]
    assert count[1] - count[0] == own
    with torch.no_grad():
        model.objectives["tlm"].head.bias.add_(1)
    again.load_state_dict(model.state_dict())
    assert again.objectives["mlm"].head is again.objectives["tlm"].head
    assert again.objectives["mlm"].head.bias.mean() == 1
    optimizer = model.optimization.configure(model)[0][0]
    listed = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    assert len(listed) == len(set(listed)) == len(list(model.parameters()))
