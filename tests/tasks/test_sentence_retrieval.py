"""Sentence retrieval as it is run: the same figures whatever the batches, the padding and the number of processes."""

import matplotlib.figure
import pytest
import tiny
import torch
from lightning import LightningDataModule
from quiet import quiet_trainer
from ranks import run_on_ranks
from torch.nn import functional as F
from trained import small_tokenizer

from interlingua.modalities.batch import Batch, Text, take
from interlingua.models.encoder import States
from interlingua.tasks.results import read_results
from interlingua.tasks.sentence_chart import write_chart
from interlingua.tasks.sentence_retrieval import SentenceRetrieval
from interlingua.tasks.sentence_views import View, list_views

SENTENCES = 21
LANGUAGES = ("de", "en", "sw")
VOCABULARY = tiny.Vocabulary(1500)
TO, FROM = "sentence_retrieval_to_en", "sentence_retrieval_from_en"
pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers.*", "ignore:.*arguments are not compatible.*")


class Loader(list):
    """Batches as they are."""


class Told(LightningDataModule):
    """What a task asks of its data."""

    def __init__(self, batches, pivot="en", sources=("test",)):
        super().__init__()
        self.batches, self.pivot, self.sources = batches, pivot, dict.fromkeys(sources)

    def test_dataloader(self):
        return Loader(self.batches)


def translations(tokenizer, source="test", left=False, width=20) -> list[Batch]:
    """A batch a language: sentences 5 and 6 read alike in English, 7 is nothing, German shares most words with English."""
    number = torch.arange(SENTENCES)
    batches = []
    for place, code in enumerate(LANGUAGES):
        lengths = [0 if n == 7 and code == "sw" else 4 + n % 9 for n in range(SENTENCES)]
        text = tiny.text(lengths, width, left, seed=0, vocabulary=VOCABULARY, language=tokenizer.language_id(code))
        changed = number[:, None] * 31 % 1400 + 60 + place
        tokens = torch.where((text.word == 1 + place) & text.present, changed, text.tokens)
        if code == "en":
            tokens[6] = tokens[5] if lengths[5] == lengths[6] else tokens[6]
        batches.append(Batch(source, 100 * place + number, number, 0 * number, text=text._replace(tokens=tokens)))
    return batches


def cut(batches, size) -> list[Batch]:
    return [take(batch, torch.arange(i, min(i + size, SENTENCES))) for batch in batches for i in range(0, SENTENCES, size)]


def tower(kind="tower"):
    torch.manual_seed(0)
    if kind == "tower":
        return tiny.text_tower(vocabulary=VOCABULARY)
    return tiny.TwoTowers(tiny.text_tower(vocabulary=VOCABULARY), vector_width=24)


def evaluate(data, folder, batches, encoder=None, strategy="auto", devices=1, told=None, **options) -> dict:
    module = SentenceRetrieval(encoder or tower(), small_tokenizer(data).path, output=str(folder), **options)
    trainer = quiet_trainer(folder, devices=devices, strategy=strategy)
    trainer.test(module, datamodule=told or Told(batches), verbose=False)
    return {record.key: record for record in read_results(folder / "results.json")} if trainer.is_global_zero else {}


def values(records) -> list:
    return [(record.key, record.n, pytest.approx([record.value, record.low, record.high])) for record in records.values()]


def same(left, right) -> bool:
    return values(left) == [(r.key, r.n, [r.value, r.low, r.high]) for r in right.values()]


@pytest.mark.parametrize("kind", ["tower", "two towers"])
def test_writes_all_results(tmp_path, data, capsys, kind):
    """Towers of both kinds: states pooled, or the vectors that the encoder makes itself."""
    found = evaluate(data, tmp_path, translations(small_tokenizer(data)), tower(kind))
    view = "last layer, mean" if kind == "tower" else "projected vectors"
    assert {record.data for record in found.values()} == {f"test, {view}"}
    german = found[TO, f"test, {view}", "de", "accuracy@1"]
    assert (german.n, found[TO, f"test, {view}", "sw", "accuracy@1"].n) == (SENTENCES, SENTENCES - 1)
    assert german.value > 0.5 > found[TO, f"test, {view}", "de", "chance accuracy@1"].value == pytest.approx(1 / SENTENCES)
    assert found[FROM, f"test, {view}", "sw", "gallery size"].value == SENTENCES - 1
    mean = found[FROM, f"test, {view}", "all", "mean accuracy@1"]
    single = [found[FROM, f"test, {view}", code, "accuracy@1"].value for code in ("de", "sw")]
    assert mean.value == pytest.approx(sum(single) / 2)
    name = view.replace(", ", "_").replace(" ", "_")
    assert (tmp_path / f"sentence_retrieval_test_{name}.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / f"sentence_retrieval_test_{name}.html").read_text()
    assert "Translations found between English and 2 languages" in page
    tables = (tmp_path / "results.md").read_text()
    assert f"## Sentence retrieval to en: test, {view}" in tables
    assert "gallery size" in capsys.readouterr().out


def test_batches_padding_and_repetitions_change_nothing(tmp_path, data):
    """Pitfalls M09 and M10: alone as in a batch, left as right, beside long ones and twice: the same figures."""
    tokenizer = small_tokenizer(data)
    whole = evaluate(data, tmp_path / "whole", translations(tokenizer))
    nothing = torch.zeros(0, dtype=torch.int64)
    parts = cut(translations(tokenizer), 4)
    for name, batches in (
        ("alone", cut(translations(tokenizer), 1)),
        ("left", cut(translations(tokenizer, left=True), 5)),
        ("wide", [pad(batch) for batch in parts]),
        ("twice", [*parts[::-1], *parts[:7], Batch("", nothing, nothing, nothing)]),
    ):
        assert same(whole, evaluate(data, tmp_path / name, batches)), name


def pad(batch: Batch) -> Batch:
    return batch._replace(text=Text(*(F.pad(field, (0, 40)) for field in batch.text[:7])))


def test_vectors_do_not_depend_on_their_neighbours(data):
    """Pitfall M10, on the vectors themselves: every view, alone, beside a longer text, padded on either side."""
    tokenizer, encoder = small_tokenizer(data), tower().eval()
    views = list_views(encoder, [0, 1, 2, None], ["mean", "first"])
    whole, left = translations(tokenizer)[1], translations(tokenizer, left=True)[1]
    states = [encoder(batch, keep=[0, 1, 2]) for batch in (whole, left)]
    for row in range(SENTENCES):
        one = take(whole, torch.tensor([row]))
        short = int(one.text.present.sum())
        one = one._replace(text=Text(*(field[:, :short] for field in one.text[:7])))
        alone = encoder(one, keep=[0, 1, 2])
        for view in views:
            wanted = view.look(alone, one.text)[0]
            for batch, state in zip((whole, left), states, strict=True):
                assert torch.allclose(view.look(state, batch.text)[row], wanted, atol=1e-5), (row, view)
    absent = translations(tokenizer)[2]
    assert all(view.look(encoder(absent, keep=[0, 1, 2]), absent.text)[7].eq(0).all() for view in views)
    assert not torch.allclose(views[0].look(states[0], whole.text), views[1].look(states[0], whole.text))


def on_rank(folder, data) -> dict:
    """Two ranks, every second batch each, the last filled up with a repetition (pitfall M09)."""
    rank = torch.distributed.get_rank()
    parts = cut(translations(small_tokenizer(data)), 4)
    mine = [*parts[rank::2], parts[rank]]
    return evaluate(data, folder, mine, strategy="ddp", devices=2)


def test_two_processes_equal_one(tmp_path, data):
    """Pitfall M09: 21 sentences a language, two ranks, batches of 4."""
    two, nothing = run_on_ranks(on_rank, 2, tmp_path / "two", data)
    assert nothing == {}
    assert two == evaluate(data, tmp_path / "one", cut(translations(small_tokenizer(data)), 4))


class Layers(tiny.TextTower):
    """States of layer 1 tell sentences apart; those of layer 2 only on the source `dev`; the last ones never."""

    def forward(self, batch, allow=None, keep=()):
        exact = F.one_hot(batch.sample, 32).float()[:, None].expand(-1, batch.text.tokens.shape[1], -1)
        same = torch.ones_like(exact)
        second = exact if batch.source == "dev" else same
        return States(text=same, layers={1: States(text=exact), 2: States(text=second)})


def test_layers_and_poolings_in_one_pass_chosen_on_another_source(tmp_path, data, capsys):
    """Chosen on the source named, and by it alone: the first of equals; of the others means alone are given."""
    tokenizer = small_tokenizer(data)
    batches = [*translations(tokenizer, "dev"), *translations(tokenizer, "test")]
    encoder = Layers(tiny.embeddings(vocabulary=VOCABULARY), tiny.transformer())
    options = {"layers": [None, 2, 1], "poolings": ["first", "mean"], "margin": 1}
    told = Told(batches, sources=("dev", "test"))
    found = evaluate(data, tmp_path / "a", batches, encoder, told=told, chosen_on="dev", **options)
    assert "chosen on dev: layer 2, first, mean accuracy@1 100.0 %" in capsys.readouterr().out
    names = {key[1] for key in found}
    assert names == {
        f"{source}, {layer}, {pooling}"
        for source in ("dev", "test")
        for layer in ("last layer", "layer 1", "layer 2")
        for pooling in ("first", "mean")
    }
    assert {key[1] for key in found if key[2] == "de"} == {"dev, layer 2, first", "test, layer 2, first"}
    assert found[TO, "test, layer 1, mean", "all", "mean accuracy@1"].value == 1
    assert found[TO, "test, layer 2, first", "de", "accuracy@1"].value == pytest.approx(1 / SENTENCES)
    assert next(iter(found))[1] == "test, layer 2, first", "what is reported comes first"
    pictures = sorted(path.name for path in (tmp_path / "a").glob("*.png"))
    assert pictures == ["sentence_retrieval_test_layer_2_first.png", "sentence_retrieval_test_views.png"]


def test_of_several_views_none_is_the_result_where_none_is_chosen(tmp_path, data, capsys):
    """All means, told as such on the console, in both files and in the picture; the first listed is nothing special."""
    batches = translations(small_tokenizer(data), "test")
    encoder = Layers(tiny.embeddings(vocabulary=VOCABULARY), tiny.transformer())
    found = evaluate(data, tmp_path, batches, encoder, layers=[None, 2, 1], poolings=["first"], margin=None)
    assert {key[1] for key in found} == {f"test, {view}, first (none chosen)" for view in ("last layer", "layer 2", "layer 1")}
    assert {key[2] for key in found} == {"all"}
    told = "*none chosen*: of several layers and poolings none was chosen on other sentences, so none is the result"
    shown, tables = capsys.readouterr().out, (tmp_path / "results.md").read_text()
    assert told in shown
    assert told in tables
    for text in (shown, tables):
        assert "| Sentence retrieval from en: test, layer 1, first (none chosen) | 100.0 |" in text
    assert [path.name for path in tmp_path.glob("*.png")] == ["sentence_retrieval_test_views.png"]


def test_untrained_weights_are_measured_beside(tmp_path, data, monkeypatch):
    """What was built, before the checkpoint fills it, by the same views, as it is measured alone."""
    batches, options = translations(small_tokenizer(data)), {"margin": None}
    torch.manual_seed(1)
    trained = tiny.text_tower(vocabulary=VOCABULARY)
    torch.save({"state_dict": {f"encoder.{name}": one for name, one in trained.state_dict().items()}}, tmp_path / "a.ckpt")
    marks = []
    monkeypatch.setattr("interlingua.tasks.sentence_retrieval.write_chart", lambda *given: marks.append(given))
    both = evaluate(data, tmp_path / "both", batches, checkpoint=str(tmp_path / "a.ckpt"), untrained=True, **options)
    for words, encoder in (("", trained), (", untrained", tower())):
        alone = evaluate(data, tmp_path / f"alone{words}", batches, encoder, **options)
        for (task, view, language, metric), record in alone.items():
            assert both[task, f"{view}{words}", language, metric].value == record.value
    assert "*untrained*: the same encoder with random weights" in (tmp_path / "both" / "results.md").read_text()
    assert [[one[0].data for one in marks[0][4]], marks[1][4]] == [["test, last layer, mean, untrained"] * 2, []]
    with pytest.raises(ValueError, match="untrained is true, but checkpoint is null"):
        evaluate(data, tmp_path, batches, untrained=True)


def test_bars_are_of_what_the_tables_put_first(tmp_path, data, monkeypatch):
    """The margin, where there is one; random weights are a mark on each bar."""
    found = list(evaluate(data, tmp_path, translations(small_tokenizer(data))).values())
    ways = [[record for record in found if record.task == task] for task in (TO, FROM)]
    kept, save = [], matplotlib.figure.Figure.savefig
    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", lambda own, *a, **k: (kept.append(own), save(own, *a, **k)))
    for metric, words, some in (
        ("margin accuracy@1", "by ratio margin", ways),
        ("accuracy@1", "by cosine", [[record for record in way if "margin" not in record.metric] for way in ways]),
    ):
        write_chart(tmp_path / "a.png", *some, "test", some)
        axes = kept[-1].axes[0]
        assert words in axes.get_xlabel()
        wanted = sorted(100 * record.value for way in some for record in way if record.metric == metric)
        assert sorted(bar.get_width() for bar in axes.patches) == pytest.approx(wanted)
        marks = [place for one in axes.collections if len(one.get_offsets()) for place, _ in one.get_offsets()]
        assert sorted(marks)[-len(wanted) :] == pytest.approx(wanted)
        assert any(text.get_text().startswith("untrained: mean") for text in kept[-1].legends[0].get_texts())


def test_a_view_is_not_chosen_by_what_is_reported(tmp_path, data, capsys):
    """Files under a second name are the same files; where there is nothing else to report, it is told."""
    tokenizer = small_tokenizer(data)
    batches = [*translations(tokenizer, "dev"), *translations(tokenizer, "test")]
    told = Told(batches, sources=("dev", "test"))
    options = {"layers": [2, 1], "chosen_on": "dev", "margin": None}
    for other in ("./shards/val", ["shards/test", "shards/val"]):
        told.sources = {"dev": "shards/val", "test": other}
        with pytest.raises(ValueError, match=r"chosen_on is 'dev', but source 'test' reads shards/val, too: what"):
            evaluate(data, tmp_path / "same", batches, told=told, **options)
    told.sources = {"dev": "shards/val", "test": ["shards/test"]}
    encoder = Layers(tiny.embeddings(vocabulary=VOCABULARY), tiny.transformer())
    evaluate(data, tmp_path / "others", batches, encoder, told=told, **options)
    words = (
        "*chosen on itself*: layer and pooling were chosen by the very figures that are reported, which are too high for that"
    )
    assert words not in capsys.readouterr().out
    found = evaluate(data, tmp_path / "alone", batches[:3], encoder, told=Told(batches[:3], sources=["dev"]), **options)
    assert words in capsys.readouterr().out
    assert next(iter(found))[1] == "dev, layer 2, mean (chosen on itself)"
    assert words in (tmp_path / "alone" / "results.md").read_text()
    assert words not in (tmp_path / "others" / "results.md").read_text()


def test_views_that_cannot_be_meant():
    encoder = tower("two towers")
    assert list_views(encoder, [None], ["mean"]) == [View(None, None)]
    assert list_views(encoder, [1, None], ["first"]) == [View(1, "first"), View(None, None)]
    assert list_views(tower(), [None], ["first"]) == [View(None, "first")]
    for layers, poolings, message in (
        ([None], ["first"], "TwoTowers pools and projects by itself; name `layers`"),
        ([1, 1], ["mean"], r"layers is \[1, 1\]; expected one or more, each once"),
        ([1], [], r"poolings is \[\]; expected one or more"),
        ([1, 9], ["mean"], r"layers names \[9\], but TwoTowers has \d blocks"),
    ):
        with pytest.raises(ValueError, match=message):
            list_views(encoder, layers, poolings)
    image = tiny.ImageTower(tiny.Patches(tiny.WIDTH, patch=8, size=16))
    with pytest.raises(ValueError, match="sentence retrieval reads text, and ImageTower reads image"):
        list_views(image, [None], ["mean"])


def test_faults(tmp_path, data):
    tokenizer = small_tokenizer(data)
    batches = translations(tokenizer)
    for told, options, message in (
        (Told(batches, pivot="sw"), {}, "the data's pivot is 'sw', the model's is 'en'; set both alike"),
        (Told(batches), {"chosen_on": "dev"}, "chosen_on is 'dev', but the data's sources are test"),
        (Told(batches[2:]), {}, "test: no text in en, the pivot; languages read: sw"),
        (Told([take(batches[0], torch.arange(0))]), {}, "no sentence to search"),
        (Told(batches), {"layers": [3]}, r"layers names \[3\], but TextTower has 2 blocks"),
        (Told(batches), {"margin": 0}, "margin is 0; expected the number of neighbours"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluate(data, tmp_path, batches, told=told, **options)


def test_broken_vectors_name_their_samples(tmp_path, data):
    """Pitfall M02: one text whose vector is not a number is an error, and no rank."""
    batches, encoder = translations(small_tokenizer(data)), tower()
    only = int(batches[2].text.tokens[4, 3])
    assert (batches[2].text.tokens == only).sum() == 1
    encoder.embeddings.tokens.weight.data[only] = torch.nan
    with pytest.raises(ValueError, match=r"test, last layer, mean: the vectors of \d+ texts are not finite .*sw: sample 4"):
        evaluate(data, tmp_path, batches[1:], encoder)


def test_a_text_whose_pivot_could_not_be_read_is_left_out(tmp_path, data, capsys):
    batches = translations(small_tokenizer(data))
    batches[1] = take(batches[1], torch.arange(2, SENTENCES))
    found = evaluate(data, tmp_path, batches)
    assert found[TO, "test, last layer, mean", "de", "accuracy@1"].n == SENTENCES - 2
    assert "test: 4 texts are left out, since the en text of their sample could not be read" in capsys.readouterr().out


def test_neighbours_of_which_there_are_fewer_are_told(tmp_path, data, capsys):
    evaluate(data, tmp_path, translations(small_tokenizer(data)), margin=SENTENCES)
    told = (
        f"margin is over {SENTENCES} neighbours, but fewer texts are searched (test/sw {SENTENCES - 1}): there it is over all"
    )
    assert told in capsys.readouterr().out
    evaluate(data, tmp_path, translations(small_tokenizer(data)), margin=4)
    assert "fewer texts" not in capsys.readouterr().out
