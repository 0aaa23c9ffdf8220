"""Translation language modelling: the row that text and translation are read in."""

import gzip
import json
import logging
from itertools import islice

import pytest
import tiny
import torch
from costs import read, score
from trained import small_tokenizer
from translation_pairs import XLM, connected, ids, pairs

from interlingua.modalities.batch import take
from interlingua.modalities.text import collate_text
from interlingua.tasks.objectives.translation_language import TranslationLanguage


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
    assert (short.joining.row, short.joining.half) == (32, 32)


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
        assert not caplog.messages
        objective.view(english)
        objective.view(english)
        objective.view(same_file._replace(source="other"))
    assert len(caplog.messages) == 2
    assert "source parallel: of 4 pairs of a micro-batch, 4 are of one language" in caplog.messages[0]
    assert "source other: of 4 pairs of a micro-batch, 0 are of one language" in caplog.messages[1]
    assert "4 read the same" in caplog.messages[1]


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


@pytest.mark.parametrize(("pair", "limit"), [("infoxlm", 64), ("xlm", 128)])
def test_refuses_rows_longer_than_the_encoder_reads(pair, limit):
    TranslationLanguage(pair, limit).connect(tiny.text_tower())
    with pytest.raises(ValueError, match=f"max_tokens is {limit + 1}, but the encoder reads at most 64 positions"):
        TranslationLanguage(pair, limit + 1).connect(tiny.text_tower())
