"""The batch contract: what Lightning, `pin_memory`, workers and `torch.compile` do to it, and its two helpers."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest
import torch
from jaxtyping import TypeCheckError
from torch.utils.data import DataLoader
from torch.utils.data._utils.pin_memory import pin_memory

from interlingua.modalities.batch import Audio, Batch, Codes, Fault, Image, Regions, Step, Text, number_positions, take


def make_text(rows=3, length=4) -> Text:
    numbers = torch.arange(rows * length).view(rows, length)
    present = torch.ones(rows, length, dtype=torch.bool)
    return Text(numbers, present, numbers, numbers, numbers, numbers, number_positions(present))


def make_batch() -> Batch:
    """Three samples with every modality and some marks."""
    yes = torch.ones(3, 2, dtype=torch.bool)
    return Batch(
        source="captions",
        item=torch.tensor([7, 7, 9]),
        sample=torch.arange(3),
        epoch=torch.zeros(3, dtype=torch.int64),
        text=make_text()._replace(hidden=torch.eye(3, 4).bool()),
        image=Image(torch.arange(3 * 12, dtype=torch.uint8).view(3, 3, 2, 2), yes[:, 0]),
        regions=Regions(torch.rand(3, 2, 5), torch.rand(3, 2, 4), yes),
        audio=Audio(torch.rand(3, 2), yes, 16000),
        codes=Codes(torch.arange(6).view(3, 2), yes),
        alignment=torch.full((3, 1, 2), -1),
    )


def leaves(rows) -> list:
    """Every field that is no NamedTuple, in order."""
    found = []
    for field in rows:
        found += leaves(field) if isinstance(field, tuple) else [field]
    return found


def same(one, two) -> bool:
    pairs = zip(leaves(one), leaves(two), strict=True)
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)


def types(rows) -> list[type]:
    return [type(rows), *(kind for field in rows if isinstance(field, tuple) for kind in types(field))]


def as_it_is(step: Step) -> Step:
    return step


def test_pickles():
    batch = make_batch()
    again = pickle.loads(pickle.dumps(batch))
    assert same(batch, again)
    assert types(batch) == types(again)


def test_is_immutable():
    with pytest.raises(AttributeError):
        make_batch().text = None


def test_workers_hand_it_over_whole():
    step = Step(4, (make_batch(), make_batch()), (Fault("truncated image", "a.tar", "k", ""),))
    # Torch's own collation of single items turns plain tuples into lists.
    (arrived,) = DataLoader([step], batch_size=None, num_workers=1, collate_fn=as_it_is)
    assert types(arrived) == types(step)
    assert same(arrived, step)


def test_lightning_moves_every_tensor_and_keeps_the_rest():
    step = Step(4, (make_batch(),), (Fault("truncated image", "a.tar", "k", ""),))
    from lightning.fabric.utilities import move_data_to_device

    moved = move_data_to_device(step, torch.device("meta"))
    assert types(moved) == types(step)
    assert {leaf.device.type for leaf in leaves(moved) if isinstance(leaf, torch.Tensor)} == {"meta"}
    kept = [leaf for leaf in leaves(moved) if not isinstance(leaf, torch.Tensor)]
    assert kept == [leaf for leaf in leaves(step) if not isinstance(leaf, torch.Tensor)]
    assert moved.batches[0].audio.rate == 16000
    assert moved.faults == step.faults


def test_every_tensor_is_pinned(monkeypatch):
    pinned = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self, *device: pinned.append(self) or self.clone())
    step = Step(4, (make_batch(),))
    after = pin_memory(step)
    assert types(after) == types(step)
    assert same(after, step)
    assert len(pinned) == sum(isinstance(leaf, torch.Tensor) for leaf in leaves(step))


COMPILED = """
import sys, torch
sys.path.insert(0, sys.argv[1])
from test_batch import make_batch, same, types
from interlingua.modalities.batch import number_positions, take
from interlingua.modalities.chance import pick, uniform

def read(batch):
    hidden = batch.text.present & (uniform(5, batch.sample[:, None], batch.text.position) < 0.5)
    text = batch.text._replace(hidden=hidden, shown=torch.where(hidden, pick(9, batch.text.tokens), batch.text.read))
    assert batch.translation is None
    marked = take(batch._replace(text=text), torch.tensor([2, 0]))
    return marked._replace(sample=number_positions(marked.text.present).sum(1) + batch.size)

batch = make_batch()
marked = torch.compile(read, backend="eager", fullgraph=True)(batch)
assert same(marked, read(batch)) and types(marked) == types(batch)
"""


def test_compiles_without_breaks():
    # In a process of its own, since the hook's checks of shapes do not compile.
    command = [sys.executable, "-c", COMPILED, str(Path(__file__).parent)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-3000:]


def test_reads_what_is_shown():
    text = make_text()
    assert text.read is text.tokens
    assert text._replace(shown=text.tokens + 1).read[0, 0] == 1


def test_only_identity_is_required():
    batch = Batch("texts", torch.tensor([5]), torch.tensor([0]), torch.tensor([0]))
    assert batch.size == 1
    assert all(field is None for field in batch[4:])
    assert set(get_type_hints(Batch)) == set(Batch._fields)


def test_take_by_index_keeps_order_source_and_absent_modalities():
    batch = make_batch()._replace(audio=None)
    taken = take(batch, torch.tensor([2, 0, 2]))
    assert taken.source == "captions"
    assert taken.item.tolist() == [9, 7, 9]
    assert taken.text.tokens[:, 0].tolist() == [8, 0, 8]
    assert taken.text.hidden[0].tolist() == [False, False, True, False]
    assert taken.image.pixels[1].flatten().tolist() == list(range(12))
    assert taken.audio is taken.translation is taken.matched is None
    assert types(taken) == types(batch)


def test_take_by_mask_and_of_nothing():
    batch = make_batch()
    assert take(batch, torch.tensor([True, False, True])).sample.tolist() == [0, 2]
    none = take(batch, torch.zeros(3, dtype=torch.bool))
    assert none.size == 0
    assert none.image.pixels.shape == (0, 3, 2, 2)
    assert none.audio.rate == 16000
    assert take(batch.text, torch.tensor([1])).tokens.tolist() == [[4, 5, 6, 7]]


@pytest.mark.parametrize(
    ("present", "positions"),
    [
        ([1, 1, 1, 0, 0], [0, 1, 2, 2, 2]),
        ([0, 0, 1, 1, 1], [0, 0, 0, 1, 2]),
        ([0, 0, 0, 0, 0], [0, 0, 0, 0, 0]),
        ([1, 0, 1, 0, 1], [0, 0, 1, 1, 2]),
    ],
)
def test_positions_count_present_tokens(present, positions):
    mask = torch.tensor([present]).bool()
    numbered = number_positions(mask)
    assert numbered.dtype == torch.int64
    assert numbered[mask].tolist() == list(range(sum(present)))
    assert numbered[0].tolist() == positions


def test_hook_checks_shapes():
    with pytest.raises(TypeCheckError):
        number_positions(torch.ones(3, dtype=torch.bool))
