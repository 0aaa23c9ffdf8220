"""Translation language modelling: what is read, what is hidden of both halves, and what it costs."""

import gzip
import json
import logging
import math
from itertools import islice

import pytest
import tiny
import torch
from learning import reach_half
from torch import nn
from trained import small_tokenizer

from interlingua.modalities.batch import take
from interlingua.modalities.pair import PAIR_FORMS
from interlingua.modalities.text import collate_text
from interlingua.modalities.vocabulary import Vocabulary
from interlingua.models.towers import TextTower
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.translation_language import TranslationLanguage

XLM = Vocabulary(100, pad=2, unknown=3, start=1, end=1, mask=5)


def pairs(first=(7, 5, 9, 4), second=(6, 8, 4, 5), left=False, padded=None, vocabulary=tiny.VOCABULARY, **fields):
    """English and German of some lengths in tokens."""
    text = tiny.text(first, padded, left, 1, vocabulary)
    translation = tiny.text(second, padded, left, 2, vocabulary, language=1)
    return tiny.batch(first, source="parallel", **{"text": text, "translation": translation, **fields})


def connected(vocabulary=tiny.VOCABULARY, languages=0, max_tokens=64, **options):
    torch.manual_seed(0)
    embeddings = tiny.embeddings(vocabulary=vocabulary, languages=languages, max_tokens=max_tokens)
    encoder, objective = TextTower(embeddings, tiny.transformer()), TranslationLanguage(**options)
    objective.connect(encoder)
    return encoder, objective


def read(objective, batch):
    return objective.mark(objective.view(batch))


def score(encoder, objective, marked):
    return objective.loss(objective.read(encoder, marked), marked)


def gradients(encoder, objective, total):
    parameters = [*encoder.parameters(), *objective.parameters()]
    return torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)


def ids(text, row):
    return text.tokens[row][text.present[row]].tolist()


@pytest.mark.parametrize(("pair", "between"), [("xlm-roberta", [3, 3]), ("infoxlm", [3])])
def test_one_row_holds_text_and_translation(pair, between):
    _, objective = connected(pair=pair)
    batch = pairs(alignment=torch.zeros(4, 2, 2, dtype=torch.long))
    view = objective.view(batch)
    assert view.translation is None
    assert view.alignment is None
    for row in range(4):
        first, second = ids(batch.text, row), ids(batch.translation, row)
        assert ids(view.text, row) == [2, *first[1:-1], *between, *second[1:-1], 3]
    assert (view.item == batch.item).all()
    assert view.text.hidden is None


def test_forty_and_ten_tokens_at_thirty_two_with_positions_and_languages_that_switch():
    """Pitfall O11, on the tower that reads both: XLM's row."""
    encoder, objective = connected(XLM, languages=3, max_tokens=32, pair="xlm", rate=0.5)
    batch = pairs([40], [10], vocabulary=XLM)
    view = objective.view(batch).text
    assert view.present.sum() == 42  # a half is cut to the position table, the row of two tables holds both
    assert view.position[0].tolist() == [*range(32), *range(10)]
    assert view.language[0].tolist() == [0] * 32 + [1] * 10
    short = TranslationLanguage("xlm", 32, rate=0.5)
    short.connect(encoder)
    view = short.view(batch).text
    assert view.position[0].tolist() == [*range(22), *range(10)]
    assert view.language[0].tolist() == [0] * 22 + [1] * 10
    assert [view.tokens[0, place].item() for place in (0, 21, 22, 31)] == [1] * 4
    marked = read(short, batch)
    assert score(encoder, short, marked).total.isfinite()
    assert short.longest == 32


@pytest.mark.parametrize("pair", PAIR_FORMS)
def test_both_halves_are_hidden_at_the_rate_and_control_tokens_never(pair):
    """Pitfall O01: over 10,000 tokens."""
    vocabulary = XLM if pair.startswith("xlm-c") or pair == "xlm" else tiny.VOCABULARY
    _, objective = connected(vocabulary, pair=pair)
    lengths = [10 + row % 20 for row in range(400)]
    marked = read(objective, pairs(lengths, lengths[::-1], vocabulary=vocabulary)).text
    ordinary = marked.word >= 0
    assert not (marked.hidden & ~ordinary).any()
    assert ordinary.sum() == 2 * sum(lengths) - 4 * 400 > 10_000
    for half in (0, 1):
        own = ordinary & (marked.segment == half)
        assert abs(marked.hidden[own].float().mean() - 0.15) < 0.015
    shown, truth = marked.shown[marked.hidden], marked.tokens[marked.hidden]
    assert abs((shown == vocabulary.mask).float().mean() - 0.8) < 0.03
    assert abs((shown == truth).float().mean() - 0.1) < 0.03
    others = shown[(shown != vocabulary.mask) & (shown != truth)]
    assert not torch.isin(others, torch.tensor(vocabulary.controls)).any()
    assert (marked.shown[~marked.hidden] == marked.tokens[~marked.hidden]).all()


def test_count_is_the_losses_count_and_an_ignorant_head_costs_log_v_a_token():
    encoder, objective = connected(rate=0.5)
    nn.init.zeros_(encoder.tokens.weight)
    marked = read(objective, pairs())
    loss = score(encoder, objective, marked)
    assert objective.count(marked) == loss.count == marked.text.hidden.sum() > 0
    assert loss.total.item() / loss.count.item() == pytest.approx(math.log(100), rel=1e-5)


def test_a_sample_without_translation_is_masked_language_modelling():
    """Pitfall O11: an empty side, in a batch with others and in one without any."""
    encoder, objective = connected(rate=0.5)
    plain = MaskedLanguage(rate=0.5)
    plain.connect(encoder)
    plain.key = objective.key
    batch = pairs([9, 9, 9], [8, 0, 2])
    wanted = plain.mark(batch._replace(translation=None)).text
    mixed, alone = read(objective, batch).text, read(objective, batch._replace(translation=None)).text
    for text, rows in ((mixed, (1, 2)), (alone, (0, 1, 2))):
        for row in rows:
            for field in ("tokens", "shown", "hidden", "position", "language", "word"):
                there = getattr(text, field)[row][text.present[row]]
                assert (there == getattr(wanted, field)[row][wanted.present[row]]).all(), field
    swapped = read(objective, batch._replace(text=None, translation=batch.text)).text
    assert ids(swapped, 0) == ids(alone, 0)
    nothing = batch._replace(text=None, translation=None)
    assert objective.view(nothing) is nothing
    loss = objective.loss(encoder(batch), objective.mark(nothing))
    assert loss.total.item() == 0
    assert loss.total.requires_grad


@pytest.mark.parametrize(("rate", "lengths"), [(0.0, (7, 5)), (1.0, (2, 2)), (1.0, (0, 0))], ids=["rate", "controls", "absent"])
def test_nothing_hidden_costs_exactly_nothing_with_finite_gradients(rate, lengths):
    """Pitfall O03 a and b."""
    encoder, objective = connected(rate=rate)
    marked = read(objective, pairs(lengths, lengths))
    loss = score(encoder, objective, marked)
    assert loss.total.item() == 0
    assert loss.count == objective.count(marked) == 0
    assert loss.total.requires_grad
    assert all(gradient.isfinite().all() for gradient in gradients(encoder, objective, loss.total))


def test_an_empty_row_changes_neither_loss_nor_gradient():
    """Pitfall O03 c."""
    encoder, objective = connected(rate=1.0)
    batches = (pairs([6, 4, 0], [5, 3, 0]), pairs([6, 4], [5, 3]))
    losses = [score(encoder, objective, read(objective, batch)) for batch in batches]
    assert losses[0].count == losses[1].count == 4 + 2 + 3 + 1
    means = [loss.total / loss.count for loss in losses]
    torch.testing.assert_close(*means, rtol=1e-6, atol=1e-6)
    for pair in zip(*(gradients(encoder, objective, mean) for mean in means), strict=True):
        torch.testing.assert_close(*pair, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("orders", ["given", "drawn"])
def test_the_whole_is_the_sum_of_its_samples_and_means_of_means_are_not(orders):
    """Pitfall O09; marks and order of a sample alone are those in a batch."""
    encoder, objective = connected(rate=0.4, orders=orders)
    whole = pairs([9, 3, 12, 5, 20], [4, 0, 30, 6, 3])
    marked = read(objective, whole)
    loss = score(encoder, objective, marked)
    alone = [read(objective, take(whole, torch.tensor([row]))) for row in range(5)]
    parts = [score(encoder, objective, one) for one in alone]
    for row, one in enumerate(alone):
        for field in ("tokens", "hidden", "shown"):
            there = getattr(one.text, field)[0][one.text.present[0]]
            assert (there == getattr(marked.text, field)[row][marked.text.present[row]]).all()
    torch.testing.assert_close(sum(part.total for part in parts), loss.total, rtol=1e-5, atol=1e-5)
    assert sum(part.count for part in parts) == loss.count
    means = [part.total / part.count for part in parts if part.count]
    assert abs(sum(means) / len(means) - loss.total / loss.count) > 1e-4


@pytest.mark.parametrize("pair", ["xlm-roberta", "xlm"])
def test_padding_on_either_side_costs_the_same(pair):
    encoder, objective = connected(XLM, languages=2, pair=pair, rate=0.5, orders="drawn")
    losses = [
        score(encoder, objective, read(objective, pairs(left=left, padded=padded, vocabulary=XLM)))
        for left, padded in ((False, None), (True, None), (True, 30))
    ]
    assert losses[0].count > 0
    for loss in losses[1:]:
        assert loss.count == losses[0].count
        torch.testing.assert_close(loss.total, losses[0].total, rtol=1e-6, atol=1e-6)


def test_half_of_the_pairs_are_read_the_other_way_round_by_sample_and_epoch():
    _, objective = connected(orders="drawn")
    _, given = connected()
    whole = pairs([6] * 400, [5] * 400)

    def turned(batch):
        view = objective.view(batch).text
        return view.language[:, 0] == 1

    found = turned(whole)
    assert abs(found.float().mean() - 0.5) < 0.08
    assert not (given.view(whole).text.language[:, 0] == 1).any()
    order = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    assert (turned(take(whole, order)) == found[order]).all()
    assert (turned(whole._replace(epoch=whole.epoch + 1)) != found).any()
    view = objective.view(whole).text
    row = int(found.nonzero()[0])
    assert ids(view, row) == [2, *ids(whole.translation, row)[1:-1], 3, 3, *ids(whole.text, row)[1:-1], 3]


def test_swapping_one_language_id_changes_that_row_alone():
    """Pitfalls T09 c and O11: languages are read token by token, the second half's from its first token on."""
    encoder, objective = connected(XLM, languages=3, pair="xlm", rate=0.0)
    batch = pairs(vocabulary=XLM)
    other = batch.translation.language.clone()
    other[1] = 2
    languages = (batch.translation.language, other)
    views = [objective.view(batch._replace(translation=batch.translation._replace(language=one))) for one in languages]
    changed = views[0].text.language != views[1].text.language
    assert (changed == ((views[0].text.segment == 1) & (torch.arange(4) == 1)[:, None])).all()
    states = [encoder(view).text for view in views]
    differ = (states[0] - states[1]).abs().amax((1, 2)) > 1e-4
    assert differ.tolist() == [False, True, False, False]
    # The well-known wrong choice, one long text of one language, is another reading.
    wrong = views[0].text._replace(language=torch.zeros_like(other[:, :1]).expand_as(views[0].text.language))
    assert (encoder(views[0]._replace(text=wrong)).text - states[0]).abs().amax((1, 2)).gt(1e-4).all()
    present = views[0].text.present
    run_on = views[0].text._replace(position=(present.cumsum(1) - 1).clamp_min(0))
    assert (encoder(views[0]._replace(text=run_on)).text - states[0]).abs().amax((1, 2)).gt(1e-4).all()


def test_pairs_that_are_none_are_said_once(caplog):
    """Pitfall O11: en-en, and the same file on both sides."""
    _, objective = connected()
    batch = pairs()
    english = batch._replace(translation=batch.translation._replace(language=0 * batch.translation.language))
    same_file = batch._replace(translation=batch.text._replace(language=batch.translation.language[:, :1].expand(-1, 9)))
    with caplog.at_level(logging.WARNING):
        objective.view(batch)
        objective.view(batch._replace(translation=None))
        assert not caplog.messages
        objective.view(english)
        objective.view(english)
        objective.view(same_file._replace(source="other"))
    assert len(caplog.messages) == 2
    assert "source parallel: of 4 pairs of a micro-batch, 4 are of one language" in caplog.messages[0]
    assert "source other: of 4 pairs of a micro-batch, 0 are of one language" in caplog.messages[1]
    assert "4 read the same" in caplog.messages[1]


def test_the_cost_halves_in_sixty_steps():
    encoder, objective = connected()
    marked = read(objective, pairs([20, 30, 25], [18, 30, 28]))
    reach_half(lambda: score(encoder, objective, marked).total, encoder, objective)


def test_real_sentences_in_one_row_read_as_they_were_written(data):
    """Pitfalls T01 and O11: English and others, from the tokenizer on, cut at 48 tokens."""
    tokenizer = small_tokenizer(data)
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as file:
        wanted = (record for record in map(json.loads, file) if record["tgt_lang"] in ("de", "ar", "ja"))
        rows = [((one["src_lang"], one["src"]), (one["tgt_lang"], one["tgt"])) for one in islice(wanted, 0, 6000, 100)]
    assert {row[1][0] for row in rows} == {"de", "ar", "ja"}
    first, second = (
        collate_text([row[half][1] for row in rows], [row[half][0] for row in rows], tokenizer, 64) for half in (0, 1)
    )
    _, objective = connected(tokenizer.vocabulary, max_tokens=48)
    text = objective.view(tiny.batch([4] * len(rows))._replace(text=first, translation=second)).text
    cut = 0
    for number, row in enumerate(rows):
        there = text.present[number]
        assert there.sum() <= 48
        assert text.tokens[number][there][-1] == tokenizer.vocabulary.end
        cut += int(there.sum() == 48)
        for half in (0, 1):
            own = there & (text.segment[number] == half)
            assert text.language[number][own].unique().tolist() == [tokenizer.language_id(row[half][0])]
            written = tokenizer.decode(text.tokens[number][own].tolist())
            assert written
            assert tokenizer.normalize(row[half][1]).startswith(written.strip(" ⁇\ufffd"))
    assert cut > 3


def test_packed_rows_are_refused():
    _, objective = connected()
    batch = pairs([5], [5])
    packed = batch.text._replace(document=torch.tensor([[0, 0, 0, 1, 1]]))
    with pytest.raises(ValueError, match="rows of source 'parallel' are packed"):
        objective.view(batch._replace(text=packed))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pair": "roberta"}, "pair is 'roberta', expected one of bert"),
        ({"pair": "xlm", "max_tokens": 5}, "max_tokens is 5; pairs of the form xlm need at least 6"),
        ({"rate": 1.5}, "translation language: rate is 1.5"),
    ],
)
def test_refuses_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        TranslationLanguage(**options)


@pytest.mark.parametrize(("pair", "limit"), [("infoxlm", 64), ("xlm", 128)])
def test_refuses_rows_longer_than_the_encoder_reads(pair, limit):
    TranslationLanguage(pair, limit).connect(tiny.text_tower())
    with pytest.raises(ValueError, match=f"max_tokens is {limit + 1}, but the encoder reads at most 64 positions"):
        TranslationLanguage(pair, limit + 1).connect(tiny.text_tower())


def test_refuses_an_encoder_without_text():
    with pytest.raises(ValueError, match="reads text with a token table; ImageTower reads image"):
        TranslationLanguage().connect(tiny.two_towers().image)


def test_saves_its_head_without_the_table():
    _, objective = connected()
    assert set(objective.state_dict()) == {f"head.{name}" for name in objective.head.state_dict()}
