"""Retrieval by a matching head: each text read with each picture, whatever the batches and the number of processes."""

from contextlib import nullcontext
from pathlib import Path

import pytest
import tiny
import torch
import torch.multiprocessing as multiprocessing
from quiet import quiet_trainer
from test_retrieval import Loader, tokenizer  # noqa: F401, a fixture

from interlingua.modalities.batch import take
from interlingua.modalities.tokenizer import Tokenizer
from interlingua.models.region_embeddings import TypedRegions
from interlingua.models.towers import TextTower
from interlingua.tasks.matching import score_pairs
from interlingua.tasks.objectives.pairs import build_head
from interlingua.tasks.results import read_results
from interlingua.tasks.retrieval import Retrieval

pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers.*", "ignore:.*arguments are not compatible.*")
ITM = "interlingua.tasks.objectives.image_text_matching.ImageTextMatching"
MLM = "interlingua.tasks.objectives.masked_language.MaskedLanguage"
ITEMS = 5
LENGTHS, COUNTS = (6, 3, 8, 4, 5), (3, 1, 4, 2, 3)


def build(vocabulary=tiny.VOCABULARY):
    """An encoder with large random weights, so that scores are far apart, with dropout that must be off."""
    torch.manual_seed(0)
    text = TextTower(tiny.embeddings(dropout=0.5, segments=2, vocabulary=vocabulary), tiny.transformer())
    encoder = tiny.fused("2 joint", text, TypedRegions(tiny.FEATURES, tiny.WIDTH, dropout=0.5))
    head = build_head(encoder)
    for weight in (*encoder.parameters(), *head.parameters()):
        torch.nn.init.normal_(weight, std=0.2 if weight.ndim > 1 else 1.0)
    return encoder, head


def save(folder, encoder, objectives: dict) -> str:
    """A checkpoint of objectives: the class and the head of each."""
    weights = {f"encoder.{name}": value for name, value in encoder.state_dict().items()}
    for name, (_, head) in objectives.items():
        weights |= {f"objectives.{name}.head.{part}": value for part, value in head.state_dict().items()}
    nodes = {name: {"class_path": one} for name, (one, _) in objectives.items()}
    path = folder / "last.ckpt"
    torch.save({"state_dict": weights, "configuration": {"model": {"init_args": {"objectives": nodes}}}}, path)
    return str(path)


def pictures():
    number = torch.arange(ITEMS)
    return tiny.batch(LENGTHS, source="some")._replace(sample=number, text=None, regions=tiny.regions(COUNTS))


def texts(language=0, left=False, vocabulary=tiny.VOCABULARY):
    options = {"left": left, "language": language, "seed": 1 + language, "vocabulary": vocabulary}
    own = tiny.batch(LENGTHS, source="some")._replace(text=tiny.text(LENGTHS, 9, **options))
    return own._replace(sample=own.sample + 10 * language)


def score(rows, left=False):
    encoder, head = build()
    own = texts(left=left), pictures()
    return score_pairs(encoder.eval(), head, *own, rows=rows, send=lambda batch: batch, context=nullcontext)


def test_scores_are_those_of_each_pair_alone():
    """However many pairs are read at a time; class 1 is a match."""
    encoder, head = build()
    encoder.eval()
    expected = torch.zeros(ITEMS, ITEMS)
    with torch.no_grad():
        for text in range(ITEMS):
            for picture in range(ITEMS):
                row = take(texts(), torch.tensor([text])).text
                both = take(pictures(), torch.tensor([picture]))._replace(text=row)
                no, yes = head(encoder(both).joint)[0]
                expected[text, picture] = yes - no
    assert expected.std() > 1e-2
    for rows in (1, 7, 512):
        assert torch.allclose(score(rows), expected, atol=1e-6)
    assert torch.allclose(score(7, left=True), expected, atol=1e-6)


def evaluate(folder, path, changed=None, strategy="auto", devices=1, batches=None, **options):
    known = Tokenizer(path)
    encoder, head = build(known.vocabulary)
    if changed is not None:
        changed(head)
    checkpoint = save(Path(folder), encoder, {"itm": (ITM, head), "mlm": (MLM, head)})
    options = {"checkpoint": checkpoint, "output": str(folder), "by": "matching", "pairs": 4, **options}
    module = Retrieval(build(known.vocabulary)[0], path, **options)
    parts = [pictures(), *(texts(language, vocabulary=known.vocabulary) for language in (0, 1))]
    trainer = quiet_trainer(Path(folder), devices=devices, strategy=strategy)
    trainer.test(module, Loader(parts if batches is None else batches(parts)), verbose=False)
    return read_results(Path(folder) / "results.json") if trainer.is_global_zero else []


def median_rank(records, language):
    wanted = ("text_to_image_retrieval", "some", language, "median rank")
    (found,) = (one.value for one in records if one[:4] == wanted)
    return found


def test_ranks_are_those_of_the_scores_and_turned_round_with_the_heads_rows(tmp_path, tokenizer):  # noqa: F811
    """Class 0 taken for a match, as in ViLBERT's head, would find the worst picture first."""
    encoder, head = build(Tokenizer(tokenizer).vocabulary)
    own = texts(vocabulary=Tokenizer(tokenizer).vocabulary), pictures()
    scores = score_pairs(encoder.eval(), head, *own, rows=9, send=lambda batch: batch, context=nullcontext)
    expected = (scores > scores.diagonal()[:, None]).sum(1) + 1
    assert median_rank(evaluate(tmp_path, tokenizer), "en") == expected.double().median()

    def turn(head):
        for weight in head.parameters():
            weight.data = weight.data.flip(0)

    turned = median_rank(evaluate(tmp_path, tokenizer, turn), "en")
    assert turned == ITEMS + 1 - expected.double().median()


def test_a_head_that_tells_nothing_scores_chance(tmp_path, tokenizer):  # noqa: F811
    def empty(head):
        torch.nn.init.zeros_(head.weight)

    records = evaluate(tmp_path, tokenizer, empty)
    assert median_rank(records, "de") == (ITEMS + 1) / 2


def run_rank(rank, folder, path, port):
    import os
    import warnings

    warnings.simplefilter("ignore")
    names = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "NODE_RANK": 0, "RANK": rank}
    os.environ.update({name: str(value) for name, value in names.items()})
    mine = Path(folder) / str(rank)
    mine.mkdir()
    evaluate(mine, path, strategy="ddp", devices=2, batches=lambda parts: [parts[rank], parts[2]])


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path, tokenizer):  # noqa: F811
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(run_rank, (str(tmp_path), tokenizer, port), nprocs=2)
    assert read_results(tmp_path / "0" / "results.json") == evaluate(tmp_path, tokenizer)


def test_scores_that_are_not_finite_name_their_samples(tmp_path, tokenizer):  # noqa: F811
    def spoil(head):
        head.bias.data.fill_(float("nan"))

    with pytest.raises(ValueError, match=r"vectors of 10 of 10 texts are not finite \(some sample 0"):
        evaluate(tmp_path, tokenizer, spoil)


def test_what_cannot_match_is_refused(tmp_path, tokenizer):  # noqa: F811
    encoder, head = build(Tokenizer(tokenizer).vocabulary)
    with pytest.raises(ValueError, match="by matching scores pairs by a head that was trained: give `checkpoint`"):
        Retrieval(encoder, tokenizer)
    with pytest.raises(ValueError, match=r"compares vectors, and Fused makes none; .*or `by: matching`"):
        Retrieval(encoder, tokenizer, "x.ckpt", by="vectors")
    with pytest.raises(ValueError, match="fuses nothing; use a fused encoder"):
        Retrieval(tiny.two_towers(), tokenizer, "x.ckpt", by="matching")
    with pytest.raises(ValueError, match="pairs is 0; expected 1 or more"):
        Retrieval(encoder, tokenizer, "x.ckpt", pairs=0)
    path = save(tmp_path, encoder, {"mlm": (MLM, head)})
    for objectives, name, told in (
        ({"mlm": (MLM, head)}, None, r"found none$"),
        ({"one": (ITM, head), "two": (ITM, head)}, None, "found one, two, of which `model.objective` names one"),
        ({"one": (ITM, head)}, "two", "expected one objective called 'two' of image-text matching.*found one"),
    ):
        path = save(tmp_path, encoder, objectives)
        with pytest.raises(ValueError, match=told):
            quiet_trainer(tmp_path).test(
                Retrieval(encoder, tokenizer, path, str(tmp_path), objective=name), Loader([pictures()]), verbose=False
            )
