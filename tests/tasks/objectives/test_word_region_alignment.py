"""Word-region alignment: plans against a slow one in float64, costs in closed form, and pairs that do not belong."""

import pytest
import tiny
import torch
from costs import score
from learning import reach_half
from region_pairs import NOTHING, check_alone_as_in_a_batch, connected, pictures

from interlingua.models.crossing import Cross
from interlingua.models.region_embeddings import SummedRegions
from interlingua.models.towers import TextTower
from interlingua.models.transformer import Transformer
from interlingua.tasks.objectives.image_text_matching import ImageTextMatching
from interlingua.tasks.objectives.masked_region_features import MaskedRegionFeatures
from interlingua.tasks.objectives.word_region_alignment import WordRegionAlignment, plan_transport, transport_cost


def slow_plan(cost, beta, iterations, inner):
    """IPOT of one pair, number by number, in float64 and without logarithms."""
    rows, columns = cost.shape
    plan = [[1.0] * columns for _ in range(rows)]
    scale = [1 / columns] * columns
    pull = [[float(torch.exp(-cost[i, j].double() / beta)) for j in range(columns)] for i in range(rows)]
    for _ in range(iterations):
        moved = [[pull[i][j] * plan[i][j] for j in range(columns)] for i in range(rows)]
        for _ in range(inner):
            delta = [1 / (rows * sum(moved[i][j] * scale[j] for j in range(columns))) for i in range(rows)]
            scale = [1 / (columns * sum(moved[i][j] * delta[i] for i in range(rows))) for j in range(columns)]
        plan = [[delta[i] * moved[i][j] * scale[j] for j in range(columns)] for i in range(rows)]
    return torch.tensor(plan, dtype=torch.float64)


def there(*lengths, padded=None):
    return torch.arange(padded or max(lengths))[None] < torch.tensor(lengths)[:, None]


def cost_of(words, places, some=None, others=None, steps=50):
    some = torch.ones(words.shape[:2], dtype=torch.bool) if some is None else some
    others = torch.ones(places.shape[:2], dtype=torch.bool) if others is None else others
    return transport_cost(words, places, some, others, 0.5, steps, 1)


@pytest.mark.parametrize(("beta", "iterations", "inner"), [(0.5, 50, 1), (0.5, 3, 1), (1.0, 10, 2), (0.1, 20, 1)])
def test_plans_are_those_of_a_slow_one_in_float64(beta, iterations, inner):
    sizes, places = (7, 3, 1, 5), (4, 6, 3, 1)
    cost = 2 * torch.rand(4, 8, 9, generator=torch.Generator().manual_seed(0))
    some, others = there(*sizes, padded=8), there(*places, padded=9)
    found = plan_transport(cost, some, others, beta, iterations, inner)
    assert found.dtype == torch.float32
    for row in range(4):
        expected = slow_plan(cost[row, : sizes[row], : places[row]], beta, iterations, inner)
        torch.testing.assert_close(found[row, : sizes[row], : places[row]].double(), expected, rtol=2e-4, atol=1e-6)
    assert (found[~(some[:, :, None] & others[:, None])] == 0).all()
    torch.testing.assert_close(found.sum(1), others / torch.tensor(places)[:, None])  # each place is as heavy as the others
    torch.testing.assert_close(found.sum((1, 2)), torch.ones(4))


def test_one_word_and_one_region_cost_one_less_their_cosine():
    words, places = torch.tensor([[[3.0, 0.0]]]), torch.tensor([[[1.0, 1.0]]])
    assert cost_of(words, places).item() == pytest.approx(1 - 0.5**0.5, rel=1e-6)
    assert cost_of(words, -words).item() == pytest.approx(2.0)


def test_equal_sets_cost_nothing_in_any_order_and_unlike_ones_all():
    words = torch.eye(6)[None] * torch.arange(1.0, 7)[:, None]
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    assert cost_of(words, words).item() == pytest.approx(0, abs=1e-5)
    assert cost_of(words, words[:, order]).item() == pytest.approx(0, abs=1e-5)
    plan = plan_transport(1 - torch.eye(6)[None][:, :, order], there(6), there(6))
    torch.testing.assert_close(plan[0], torch.eye(6)[:, order] / 6, rtol=0, atol=1e-5)
    assert cost_of(words[:, :3], words[:, 3:]).item() == pytest.approx(1, rel=1e-5)


def test_the_least_cost_is_found():
    """Two words, two regions: the dearer single move is taken where the sum is less."""
    cost = torch.tensor([[[0.0, 0.1], [0.2, 1.0]]])
    plan = plan_transport(cost, there(2), there(2), iterations=500)
    torch.testing.assert_close(plan[0], torch.tensor([[0.0, 0.5], [0.5, 0.0]]), rtol=0, atol=1e-4)


def test_orders_change_nothing_and_padding_takes_no_part():
    generator = torch.Generator().manual_seed(0)
    words, places = torch.randn(1, 5, 8, generator=generator), torch.randn(1, 4, 8, generator=generator)
    first = cost_of(words, places)
    torch.testing.assert_close(cost_of(words[:, [4, 2, 0, 1, 3]], places[:, [2, 3, 1, 0]]), first)
    padding = torch.full((1, 3, 8), 9.0)
    wide = torch.cat([words, padding], 1), torch.cat([padding, places], 1)
    some, others = there(5, padded=8), there(4, padded=7).flip(1)
    torch.testing.assert_close(cost_of(*wide, some, others), first)
    leaves = [one.clone().requires_grad_() for one in wide]
    cost_of(*leaves, some, others).sum().backward()
    for leaf, present in zip(leaves, (some, others), strict=True):
        assert (leaf.grad[~present] == 0).all()
        assert (leaf.grad[present] != 0).any(1).all()


def test_many_steps_and_states_of_nothing_stay_finite():
    """Pitfall O10: no row of nothing is no number; 1,000 steps do not underflow."""
    words, places = torch.zeros(1, 3, 4).requires_grad_(), torch.randn(1, 2, 4)
    assert cost_of(words, places, steps=1000).item() == pytest.approx(1.0)
    cost_of(words, places).sum().backward()
    assert words.grad.isfinite().all()
    far = plan_transport(torch.tensor([[[0.0, 2.0], [2.0, 0.0]]]), there(2), there(2), 0.01, 1000)
    torch.testing.assert_close(far[0], torch.eye(2) / 2)


def test_the_plan_is_in_float32_and_has_no_gradient():
    encoder, objective = connected(WordRegionAlignment())
    marked = pictures()
    states = encoder(marked)
    half = states._replace(text=states.text.bfloat16(), regions=states.regions.bfloat16())
    whole = half._replace(text=half.text.float(), regions=half.regions.float())
    with torch.autocast("cpu", torch.bfloat16):
        assert objective.loss(half, marked).total == objective.loss(whole, marked).total
    assert objective.loss(half, marked).total.dtype == torch.float32
    words, places = torch.randn(1, 3, 4).requires_grad_(), torch.randn(1, 2, 4)
    cost_of(words, places).backward()
    plan = plan_transport(1 - torch.cosine_similarity(words[:, :, None], places[:, None], 3).detach(), there(3), there(2))
    other = words.detach().clone().requires_grad_()
    (plan * (1 - torch.cosine_similarity(other[:, :, None], places[:, None], 3))).sum().backward()
    torch.testing.assert_close(words.grad, other.grad, rtol=1e-4, atol=1e-6)


def test_pairs_that_do_not_belong_are_moved_apart():
    """(Sum over matched less sum over mismatched) / all of them."""
    encoder, objective = connected(WordRegionAlignment())
    marked = pictures()._replace(matched=torch.tensor([True, False, True, True]))
    states, loss = encoder(marked), score(encoder, objective, marked)
    costs = cost_of(states.text, states.regions, marked.text.present, marked.regions.present)
    torch.testing.assert_close(loss.total, costs[[0, 2, 3]].sum() - costs[1])
    assert loss.count == objective.count(marked) == 4
    assert 0 < costs.min() < costs.max() < 2
    assert objective.weight == 0.1


def test_start_and_end_tokens_are_words_or_not():
    encoder, with_controls = connected(WordRegionAlignment())
    _, without = connected(WordRegionAlignment(controls=False), encoder)
    batch = pictures([4, 3], [6, 2])
    assert (with_controls.count(batch), without.count(batch)) == (2, 1)
    states = encoder(batch)
    expected = cost_of(states.text[:1, 1:5], states.regions[:1], None, batch.regions.present[:1])
    torch.testing.assert_close(without.loss(states, batch).total, expected.sum())


def test_words_move_to_patches_as_well():
    """ViLT's."""
    encoder, objective = connected(WordRegionAlignment(controls=False), tiny.single_stream())
    image = tiny.image(3)
    batch = tiny.batch([7, 5, 9], image=image._replace(present=torch.tensor([True, False, True])))
    states, loss = encoder(batch), score(encoder, objective, batch)
    assert loss.count == objective.count(batch) == 2
    expected = cost_of(states.text, states.image, batch.text.word >= 0)
    torch.testing.assert_close(loss.total, expected[[0, 2]].sum())


def test_it_shares_the_reading_of_image_text_matching():
    encoder, objective = connected(WordRegionAlignment())
    itm, regions = (connected(one, encoder)[1] for one in (ImageTextMatching(), MaskedRegionFeatures()))
    marked = objective.mark(regions.mark(itm.mark(pictures([5, 3, 6, 4, 3, 2]))))
    assert 0 < marked.matched.sum() < 6
    states = encoder(marked)
    for one in (itm, regions, objective):
        assert one.loss(states, marked).total.isfinite()
    assert objective.count(marked) == itm.count(marked) == 6


@pytest.mark.parametrize("batch", [*NOTHING, "no text", "only controls"])
def test_nothing_to_move_costs_nothing(batch):
    """Pitfall R03."""
    encoder, objective = connected(WordRegionAlignment(controls=False))
    given = {"no text": lambda: pictures()._replace(text=None), "only controls": lambda: pictures([3, 2], [2, 2]), **NOTHING}[
        batch
    ]()
    loss = score(encoder, objective, objective.mark(given))
    assert loss.total.item() == loss.count.item() == objective.count(given).item() == 0
    assert loss.total.requires_grad
    loss.total.backward()
    assert all(one.grad is None or one.grad.isfinite().all() for one in encoder.parameters())


def test_alone_as_in_a_batch():
    check_alone_as_in_a_batch(*connected(WordRegionAlignment()), pictures([5, 0, 6, 4, 3, 7]))


def test_the_cost_halves_in_sixty_steps():
    encoder, objective = connected(WordRegionAlignment())
    batch = pictures()
    reach_half(lambda: score(encoder, objective, batch).total, encoder, objective)
    assert not objective.state_dict()


@pytest.mark.parametrize("options", [{"beta": 0.0}, {"iterations": 0}, {"inner": 0}])
def test_refuses_numbers_out_of_range(options):
    with pytest.raises(ValueError, match=f"word-region alignment: {next(iter(options))} is 0"):
        WordRegionAlignment(**options)


def test_refuses_streams_of_two_widths_or_one():
    text, layers = TextTower(tiny.embeddings(), tiny.transformer(1)), Transformer(48, 1, heads=4, dropout=0.0)
    picture = SummedRegions(tiny.FEATURES, 48, dropout=0.0)
    wide = tiny.fused("text, picture, cross", text, picture, layers=layers, cross=Cross(width=32, heads=4))
    with pytest.raises(ValueError, match=r"of one width; Fused reads text \(32\), translation \(32\), regions \(48\)"):
        connected(WordRegionAlignment(), wide)
    with pytest.raises(ValueError, match=r"TextTower reads text \(32\)"):
        connected(WordRegionAlignment(), tiny.text_tower())
