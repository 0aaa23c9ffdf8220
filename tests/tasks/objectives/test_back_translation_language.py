"""Back-translation language: what is hidden of a text, what is made up of it and filled in, and what is refused."""

from unittest import mock

import pytest
import tiny
import torch
from back_translations import connected, made_up, texts
from costs import read, score
from halves import pack_first_row
from trained import names, small_tokenizer
from translation_pairs import XLM, ids

from interlingua.modalities.batch import take
from interlingua.modalities.text import collate_text
from interlingua.models.packing import same_document
from interlingua.tasks.objectives.back_translation_language import BackTranslationLanguage, places
from interlingua.tasks.objectives.cross_attention_language import across_halves
from interlingua.tasks.objectives.masked_language import MaskedLanguage


def test_mask_tokens_stand_behind_the_text_and_only_the_text_is_hidden():
    vocabulary = tiny.VOCABULARY
    _, objective = connected(ratio=0.5, rate=1.0)
    batch = texts([7, 3, 12, 2, 0])
    marked = read(objective, batch)
    text = marked.text
    for row, count in enumerate((2, 1, 5)):  # half of 5, 1 and 10 pieces
        behind = [vocabulary.end, *[vocabulary.mask] * count, vocabulary.end]
        assert ids(text, row) == [*ids(batch.text, row), *behind]
        pieces = ids(batch.text, row)[1:-1]
        ordinary = (text.word[row] >= 0)[text.present[row]].tolist()
        assert ordinary == [False, *[True] * len(pieces), False, False, *[True] * count, False]
        assert places(text)[row].sum() == count
    assert not text.present[3:].any()
    assert text.hidden.sum(1).tolist() == [5, 1, 10, 0, 0]
    assert not (text.hidden & (text.segment == 1)).any()
    assert objective.count(marked) == 16


def test_marks_of_the_text_are_those_of_masked_language():
    options = {"rate": 0.5, "scheme": "word", "keep": 0.2, "random": 0.3}
    encoder, objective = connected(**options)
    plain = MaskedLanguage(**options)
    plain.connect(encoder)
    plain.key = objective.key
    batch = texts([20, 30, 12])
    wanted, found = plain.mark(batch).text, read(objective, batch).text
    width = wanted.tokens.shape[1]
    for row in range(3):
        there = wanted.present[row]
        for field in ("tokens", "shown", "hidden", "word", "position"):
            assert getattr(found, field)[row, :width][there].equal(getattr(wanted, field)[row][there]), field


def readings(encoder, objective, marked):
    """What `read` reads: batch, rule, whether in training mode, whether with gradient."""
    calls = []

    def note(module, arguments, options):
        calls.append((arguments[0], options.get("allow", same_document), module.training, torch.is_grad_enabled()))

    hook = encoder.register_forward_pre_hook(note, with_kwargs=True)
    objective.read(encoder, marked)
    hook.remove()
    return calls


def test_the_whole_text_is_translated_and_what_is_left_of_it_is_read_with_that():
    encoder, objective = connected(rate=0.5, spread=5.0)
    marked = read(objective, texts())
    first, second = readings(encoder, objective, marked)
    wanted = places(marked.text)
    assert first[1:] == (across_halves, False, False)
    assert second[1:] == (same_document, True, True)
    assert first[0].text.read.equal(marked.text.tokens)
    assert first[0].text.hidden.equal(wanted)
    assert second[0].text.hidden.equal(marked.text.hidden)
    assert second[0].text.tokens.equal(marked.text.tokens)
    assert second[0].text.read[~wanted].equal(marked.text.shown[~wanted])
    scores = objective.head(encoder(first[0], allow=across_halves).text[wanted])
    scores[:, list(tiny.VOCABULARY.controls)] = -torch.inf
    assert second[0].text.read[wanted].equal(scores.argmax(1))
    assert len(set(scores.argmax(1).tolist())) > 5
    # The well-known wrong choice, to translate the text as it is shown, makes up something else.
    blind = objective.fill(encoder, marked._replace(text=marked.text._replace(tokens=marked.text.shown))).text
    assert not blind.read[wanted].equal(second[0].text.read[wanted])


def test_filling_leaves_modes_and_random_numbers_alone_and_has_no_dropout():
    encoder, objective = connected(rate=0.5, spread=5.0, dropout=0.3)
    encoder.train()
    encoder.transformer.blocks[0].eval()  # frozen
    modes = [module.training for module in encoder.modules()]
    marked = read(objective, texts())
    before = torch.get_rng_state()
    filled = objective.fill(encoder, marked)
    assert torch.get_rng_state().equal(before)
    assert [module.training for module in encoder.modules()] == modes
    quiet, other = connected(rate=0.5, spread=5.0)
    assert filled.text.read.equal(other.fill(quiet, marked).text.read)
    torch.manual_seed(1)
    found = objective.read(encoder, marked).text
    torch.manual_seed(1)
    assert found.equal(encoder(filled).text)
    # The well-known wrong choice: with dropout, what is made up hangs on the step's generator.
    whole = marked._replace(text=marked.text._replace(shown=None, hidden=places(marked.text)))
    awake = [encoder(whole, allow=across_halves).text[places(marked.text)] for _ in range(2)]
    draw = torch.zeros(17, dtype=torch.float64)
    assert not objective._choose(awake[0], draw).equal(objective._choose(awake[1], draw))


def test_modes_come_back_after_an_error():
    encoder, objective = connected(rate=0.5)
    marked = read(objective, texts())
    failing = mock.patch.object(encoder, "encode", side_effect=RuntimeError("no memory"))
    with failing, pytest.raises(RuntimeError, match="no memory"):
        objective.read(encoder, marked)
    assert all(module.training for module in encoder.modules())


def test_entries_are_drawn_by_their_shares_counter_based():
    encoder, objective = connected(temperature=0.5)
    marked = read(objective, texts([12] * 300))
    state = torch.randn(tiny.WIDTH, generator=torch.Generator().manual_seed(0))
    draw = torch.rand(20000, generator=torch.Generator().manual_seed(1)).double()
    found = objective._choose(state.expand(20000, -1), draw).bincount(minlength=100)
    scores = objective.head(state[None])[0].detach().double()
    scores[list(tiny.VOCABULARY.controls)] = -torch.inf
    shares = (scores / 0.5).softmax(0)
    assert found[:5].sum() == 0
    assert (found / 20000 - shares).abs().max() < 4 * (shares.max() / 20000).sqrt()
    whole = made_up(encoder, objective, marked)
    assert len({tuple(row) for row in whole}) == 300
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))[:20]
    assert made_up(encoder, objective, take(marked, order)) == [whole[row] for row in order.tolist()]
    assert made_up(encoder, objective, marked) == whole
    assert made_up(encoder, objective, marked._replace(epoch=marked.epoch + 1)) != whole


def test_at_a_low_temperature_the_best_entry_is_drawn():
    encoder, objective = connected(spread=5.0)
    _, drawn = connected(spread=5.0, temperature=1e-3)
    marked = read(objective, texts())
    assert made_up(encoder, drawn, marked) == made_up(encoder, objective, marked)


def test_the_last_draw_is_still_an_entry():
    _, objective = connected(temperature=1.0)
    found = objective._choose(torch.zeros(1, tiny.WIDTH), torch.tensor([1.0], dtype=torch.float64))
    assert found.item() == 99


@pytest.mark.parametrize(("languages", "others"), [(None, [0, 2, 3]), ([3, 1, 1], [3]), ([0, 3], [0, 3])])
def test_another_language_is_drawn_for_each_sample_and_epoch(languages, others):
    _, objective = connected(XLM, 4, languages=languages, pair="xlm")
    batch = texts([5] * 600, vocabulary=XLM, language=1)

    def drawn(batch):
        text = objective.view(batch).text
        assert (text.language[text.segment == 0] == 1).all()
        rows = torch.where(places(text), text.language, -1).amax(1)
        assert text.language[text.segment == 1].equal(rows[:, None].expand_as(text.segment)[text.segment == 1])
        assert text.position[0].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]
        return rows

    found = drawn(batch)
    counts = found.bincount(minlength=4) / 600
    assert all(abs(counts[one] - 1 / len(others)) < 0.08 for one in others)
    assert counts.nonzero()[:, 0].tolist() == others
    order = torch.randperm(600, generator=torch.Generator().manual_seed(0))
    assert drawn(take(batch, order)).equal(found[order])
    assert drawn(batch._replace(epoch=batch.epoch + 1)).equal(found) == (len(others) == 1)


def test_a_tower_with_language_vectors_is_told_the_language():
    encoder, objective = connected(XLM, 4, pair="xlm", spread=5.0)
    marked = read(objective, texts(vocabulary=XLM, language=1))
    text = marked.text
    other = text._replace(language=torch.where(text.segment == 1, (text.language + 1) % 4, text.language))
    assert made_up(encoder, objective, marked) != made_up(encoder, objective, marked._replace(text=other))
    assert text.language[text.present & (text.segment == 0)].unique().tolist() == [1]
    _, plain = connected()
    assert plain.view(texts(language=1)).text.language.unique().tolist() == [1]


def test_many_places_are_filled_part_by_part(monkeypatch):
    encoder, objective = connected(spread=3.0)
    marked = read(objective, texts())
    whole = made_up(encoder, objective, marked)
    monkeypatch.setattr("interlingua.tasks.objectives.back_translation_language.SCORES", 350)
    assert made_up(encoder, objective, marked) == whole


def test_real_names_in_other_languages(data):
    tokenizer = small_tokenizer(data)
    rows = names(data)[::40]
    batch = tiny.batch([4] * len(rows))._replace(
        text=collate_text([text for _, text in rows], [code for code, _ in rows], tokenizer, 24)
    )
    encoder, objective = connected(tokenizer.vocabulary, len(tokenizer.languages), pair="xlm", rate=0.3, spread=3.0)
    marked = read(objective, batch)
    text = marked.text
    own = torch.where(text.segment == 0, text.language, -1).amax(1)
    other = torch.where(places(text), text.language, -1).amax(1)
    assert (own != other).all()
    assert len(other.unique()) == len(tokenizer.languages)
    assert places(text).sum(1).equal((text.present & (text.segment == 0) & (text.word >= 0)).sum(1))
    loss = score(encoder, objective, marked)
    assert loss.total.isfinite()
    assert abs(loss.count / (batch.text.word >= 0).sum() - 0.3) < 0.05
    found = {entry for row in made_up(encoder, objective, marked) for entry in row}
    assert len(found - set(tokenizer.vocabulary.controls)) == len(found) > 20


def test_refuses_translations_packed_rows_and_no_text():
    _, objective = connected()
    batch = texts([5])
    with pytest.raises(ValueError, match=r"source 'pages' reads a translation; give it a source of texts alone \(`text: {}`\)"):
        objective.view(batch._replace(translation=batch.text))
    with pytest.raises(ValueError, match="source 'pages' reads no text"):
        objective.view(batch._replace(text=None))
    with pytest.raises(ValueError, match="scores one item a row, but rows of source 'pages' are packed"):
        objective.view(batch._replace(text=pack_first_row(batch.text)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": 0.0}, "ratio is 0.0; expected a number from 0.25 to 4 times the text's own length"),
        ({"ratio": 50.0}, "back-translation language: ratio is 50.0; .* a translation is about as long as its text"),
        ({"temperature": -1.0}, "temperature is -1.0; expected a number from .*, or 0"),
        ({"pair": "roberta"}, "pair is 'roberta', expected one of bert"),
        ({"rate": 1.5}, "back-translation language: rate is 1.5"),
    ],
)
def test_refuses_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        BackTranslationLanguage(**options)


def test_refuses_unfit_encoders_and_languages():
    with pytest.raises(ValueError, match="reads text with a token table; ImageTower reads image"):
        BackTranslationLanguage().connect(tiny.two_towers().image)
    with pytest.raises(ValueError, match=r"languages is \[0, 1\], but the encoder has no language vectors"):
        BackTranslationLanguage(languages=[0, 1]).connect(tiny.text_tower())
    for languages in ([1], [1, 4], [-1, 1]):
        with pytest.raises(ValueError, match=r"expected two at least, .* from 0 to 3, as the encoder knows them"):
            BackTranslationLanguage(languages=languages, pair="xlm").connect(tiny.text_tower(languages=4))
