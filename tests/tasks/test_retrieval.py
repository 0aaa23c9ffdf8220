"""The evaluation as it is run: every sample once, whatever the batches and the number of processes (M09, M10)."""

import json
from pathlib import Path

import pytest
import torch
import torch.multiprocessing as multiprocessing
from quiet import quiet_trainer
from torch import nn

from interlingua.modalities.batch import Batch, Image, Text, number_positions, take
from interlingua.modalities.tokenizer import write_tokenizer
from interlingua.models.encoder import Encoder, States, Vectors
from interlingua.tasks.restore import load_encoder
from interlingua.tasks.results import read_results, show
from interlingua.tasks.retrieval import Retrieval, shrink

ITEMS = 21
LANGUAGES = ("en", "de", "ar")


class MeanColor(Encoder):
    """A text's vector is the mean of its tokens' rows, a picture's its mean colour: small, and exact to reason about."""

    vector_width = 3
    languages = 0

    def __init__(self):
        super().__init__()
        self.widths = {"text": 3, "image": 3}
        self.table = nn.Embedding(64, 3)

    def forward(self, batch: Batch) -> States:
        text = image = None
        if batch.text is not None:
            there = batch.text.present[..., None]
            text = (self.table(batch.text.tokens) * there).sum(1) / there.sum(1).clamp_min(1)
        if batch.image is not None:
            image = batch.image.pixels.float().mean((2, 3)) - 127.5
        return States(vectors=Vectors(text=text, image=image))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> str:
    """A SentencePiece model of a few dozen letters."""
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["abcdefghij klmnop qrstuv wxyz"] * 20),
        model_writer=model,
        model_type="char",
        vocab_size=34,
        hard_vocab_limit=False,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        control_symbols=["<mask>"],
        normalization_rule_name="identity",
        minloglevel=2,
    )
    path = tmp_path_factory.mktemp("tokenizer") / "letters.model"
    write_tokenizer(path, model.getvalue(), LANGUAGES, {})
    return str(path)


def pictures(source: str, first: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(first)
    pixels = torch.randint(256, (ITEMS, 3, 8, 8), dtype=torch.uint8, generator=generator)
    pixels = (pixels.float() / 4 + torch.randint(192, (ITEMS, 3, 1, 1), generator=generator)).to(torch.uint8)
    number = torch.arange(ITEMS)
    return Batch(source, number + first, number, torch.zeros_like(number), image=Image(pixels, number >= 0))


def texts(source: str, language: int, first: int = 0) -> Batch:
    """One text an item, 2 to 4 letters; every third reads the same in all languages."""
    number = torch.arange(ITEMS)
    tokens = torch.stack([5 + number % 7, 12 + number // 7, 15 + language + 0 * number, 19 + number % 3], dim=1)
    tokens[::3, 2] = 15
    present = torch.arange(4) < 2 + torch.arange(ITEMS)[:, None].remainder(2) + 1
    text = Text(
        tokens.where(present, 0),
        present,
        torch.full_like(tokens, language),
        tokens * 0,
        tokens * 0,
        tokens * 0,
        number_positions(present),
    )
    return Batch(source, number + first, 100 * language + number, torch.zeros_like(number), text=text)


def everything() -> list[Batch]:
    """Two sources as whole batches."""
    parts = []
    for source, first in (("small/validation", 0), ("small/test", 1000)):
        parts += [pictures(source, first), *(texts(source, language, first) for language in range(len(LANGUAGES)))]
    return parts


def cut(batches: list[Batch], size: int) -> list[Batch]:
    return [take(batch, torch.arange(i, min(i + size, ITEMS))) for batch in batches for i in range(0, ITEMS, size)]


def evaluate(
    batches: list[Batch], folder: Path, tokenizer: str, strategy="auto", devices: int = 1, encoder: Encoder | None = None
) -> list:
    torch.manual_seed(0)
    module = Retrieval(encoder or MeanColor(), tokenizer, output=str(folder), data="small/novel")
    trainer = quiet_trainer(folder, devices=devices, strategy=strategy)
    trainer.test(module, Loader(batches), verbose=False)
    return read_results(folder / "results.json") if trainer.is_global_zero else []


class Loader(list):
    """Batches as they are."""


pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers.*", "ignore:.*arguments are not compatible.*")


def test_writes_all_results(tmp_path, tokenizer):
    records = evaluate(cut(everything(), 8), tmp_path, tokenizer)
    rows = json.loads((tmp_path / "results.json").read_text())
    form = {"task", "data", "language", "metric", "value", "low", "high", "n"}
    assert all(set(row) == form for row in rows)
    found = {record.key: record for record in records}
    assert {record.data for record in records} == {
        name + more for name in ("small/validation", "small/test", "small/novel") for more in ("", ", texts unlike en")
    }
    novel = found["text_to_image_retrieval", "small/novel", "de", "recall@10"]
    assert novel.n == 2 * ITEMS
    assert found["text_to_image_retrieval", "small/test", "de", "recall@10"].n == ITEMS
    assert found["text_to_image_retrieval", "small/novel", "de", "gallery size"].value == 2 * ITEMS
    assert novel.low <= novel.value <= novel.high
    mean = found["text_to_image_retrieval", "small/novel", "all but en", "mean recall@10"]
    others = [found["text_to_image_retrieval", "small/novel", language, "recall@10"].value for language in ("de", "ar")]
    assert mean.value == pytest.approx(sum(others) / 2)
    # Both sources have the same texts, so two of the 42 pictures are right for each.
    by_chance = found["text_to_image_retrieval", "small/novel", "de", "chance recall@10"]
    assert by_chance.value == pytest.approx(1 - (32 * 31) / (42 * 41))
    assert (tmp_path / "results.html").stat().st_size > 10_000
    assert (tmp_path / "results.png").read_bytes().startswith(b"\x89PNG")
    assert records[0].data == "small/novel", "what the evaluation stands for comes first"
    tables = (tmp_path / "results.md").read_text()
    assert tables.splitlines()[4].startswith(f"| Text to image retrieval: small/novel | {show(mean)} |")
    assert "| *mean over all but en* |" in tables


def test_texts_that_read_alike_are_told_apart(tmp_path, tokenizer):
    """The third letter tells the languages apart where it is present and not one of every third item."""
    records = evaluate(everything()[:4], tmp_path, tokenizer)
    unlike = [r for r in records if r.data == "small/validation, texts unlike en" and r.metric == "recall@10"]
    assert {record.language for record in unlike} == {"de", "ar"}
    differing = sum(number % 3 != 0 for number in range(ITEMS))
    assert {record.n for record in unlike} == {differing}


def pad(batch: Batch) -> Batch:
    return batch._replace(text=Text(*(nn.functional.pad(field, (0, 9)) for field in batch.text[:7])))


def test_batches_and_repetitions_change_nothing(tmp_path, tokenizer):
    """Pitfalls M09 and M10: small batches, large ones, rows read twice, padding, empty batches: the same records."""
    whole = evaluate(everything(), tmp_path / "whole", tokenizer)
    parts = cut(everything(), 4)
    padded = [batch if batch.text is None else pad(batch) for batch in parts]
    nothing = torch.zeros(0, dtype=torch.int64)
    repeated = evaluate([*padded[::-1], *parts[:9], Batch("", nothing, nothing, nothing)], tmp_path / "parts", tokenizer)
    assert repeated == whole


def run_rank(rank: int, folder: str, tokenizer: str, port: int) -> None:
    import os
    import warnings

    warnings.simplefilter("ignore")
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE="2", LOCAL_RANK=str(rank), NODE_RANK="0", RANK=str(rank)
    )
    parts = cut(everything(), 4)
    mine = parts[rank::2]
    if rank:
        mine[-1] = parts[0]  # filled up with a repetition
        mine.append(parts[-1])
    else:
        mine.append(parts[1])
    evaluate(mine, Path(folder), tokenizer, strategy="ddp", devices=2)


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path, tokenizer):
    """Pitfall M09: 21 samples, two ranks, batches of 4, the last filled up with repetitions."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(run_rank, (str(tmp_path / "two"), tokenizer, port), nprocs=2)
    assert read_results(tmp_path / "two" / "results.json") == evaluate(cut(everything(), 4), tmp_path / "one", tokenizer)


def test_broken_vectors_name_their_samples(tmp_path, tokenizer):
    batches = everything()[:4]
    module = Retrieval(MeanColor(), tokenizer, output=str(tmp_path))
    torch.nn.init.constant_(module.encoder.table.weight, torch.nan)
    with pytest.raises(ValueError, match=r"vectors of 63 of 63 texts are not finite \(small/validation sample 0"):
        quiet_trainer(tmp_path).test(module, Loader(batches), verbose=False)


def test_collapsed_encoder_scores_chance(tmp_path, tokenizer):
    """Pitfall M02, from end to end: every vector equal, in every language and both ways."""
    batches = [batch if batch.image is None else grey(batch) for batch in everything()]
    records = {record.key: record for record in evaluate(batches, tmp_path, tokenizer, encoder=Constant())}
    chances = [record for record in records.values() if record.metric.startswith("chance ")]
    assert len(chances) > 50
    for chance in chances:
        assert records[chance._replace(metric=chance.metric.removeprefix("chance ")).key].value == pytest.approx(chance.value)


def grey(batch: Batch) -> Batch:
    return batch._replace(image=batch.image._replace(pixels=torch.full_like(batch.image.pixels, 9)))


class Constant(MeanColor):
    """The same vector for everything, in half the precision."""

    def forward(self, batch: Batch) -> States:
        same = torch.full((batch.size, 3), 0.3, dtype=torch.bfloat16)
        return States(vectors=Vectors(text=same, image=same))


def test_texts_without_their_picture_are_left_out(tmp_path, tokenizer):
    """A picture that could not be read: its texts are no queries, whatever the language."""
    batches = everything()[:4]
    batches[0] = take(batches[0], torch.arange(1, ITEMS))
    records = evaluate(batches, tmp_path, tokenizer)
    assert {record.n for record in records if record.metric == "recall@1" and "unlike" not in record.data} == {ITEMS - 1}


def test_checkpoint_is_loaded_whole_or_not_at_all(tmp_path):
    source, target, said = MeanColor(), MeanColor(), []
    state = {f"encoder.{name}": value for name, value in source.state_dict().items()} | {"objectives.mlm.bias": torch.zeros(3)}

    def save(state: dict) -> Path:
        torch.save({"state_dict": state, "epoch": 1}, tmp_path / "last.ckpt")
        return tmp_path / "last.ckpt"

    load_encoder(target, save(state), said.append)
    assert torch.equal(source.table.weight, target.table.weight)
    assert said[0].endswith("1 weights matched, 0 missing, 0 unexpected")
    for broken, named in (
        ({"objectives.mlm.bias": torch.zeros(3)}, "0 weights matched, missing: table.weight"),
        (state | {"encoder.more": torch.zeros(1)}, "unexpected: more"),
        ({"encoder.table.weight": torch.zeros(8, 3)}, r"table.weight: checkpoint \(8, 3\), encoder \(64, 3\)"),
    ):
        with pytest.raises(ValueError, match=named):
            load_encoder(target, save(broken), said.append)
    with pytest.raises(FileNotFoundError, match=r"none\.ckpt does not exist"):
        load_encoder(target, tmp_path / "none.ckpt")


def test_thumbnails_keep_their_proportions():
    assert shrink(torch.full((2, 3, 128, 256), 200, dtype=torch.uint8)).shape == (2, 3, 32, 64)
    small = torch.zeros(1, 3, 5, 7, dtype=torch.uint8)
    assert shrink(small) is small
