"""Small real trainings that several tests share: the quick start's parts at toy size."""

import lightning
import tiny
import torch
from quiet import quiet_trainer
from torch.utils.data import DataLoader, Dataset

from interlingua.modalities.batch import Batch, Step, take
from interlingua.tasks.objectives.contrast import Contrast
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining

LENGTHS = [7, 3, 12, 5, 9, 4, 20, 6]
PASSES = {"captions": [["itc", "mlm"]], "names": [["translation", "mlm"]]}


def samples(source: str, step: int) -> Batch:
    """The eight samples of one step of one source; items repeat, so that identity matters."""
    numbers = torch.arange(8) + 8 * step
    text = tiny.text(LENGTHS, 20, seed=10 + step)
    item = torch.tensor([0, 1, 2, 3, 0, 4, 5, 6])
    other = (
        {"image": tiny.image(8, seed=step)}
        if source == "captions"
        else {"translation": tiny.text(LENGTHS[::-1], 20, seed=50 + step)}
    )
    return Batch(source, item, numbers, torch.zeros(8, dtype=torch.long), text=text, **other)


class Steps(Dataset):
    """Optimiser steps of 8 samples a source, this rank's share split into micro-batches."""

    def __init__(self, count, rank=0, world=1, micro=1, sources=("captions", "names"), change=lambda batch: batch):
        self.count, self.rank, self.world, self.micro, self.sources, self.change = count, rank, world, micro, sources, change

    def __len__(self):
        return self.count

    def __getitem__(self, step):
        size = 8 // self.world // self.micro
        batches = []
        for source in self.sources:
            whole = self.change(samples(source, step))
            for number in range(self.micro):
                start = self.rank * 8 // self.world + number * size
                batches.append(take(whole, torch.arange(start, start + size)))
        return Step(step, tuple(batches))


def module(dropout=0.0, objectives=None, passes=None, steps=10, **optimization) -> Pretraining:
    torch.manual_seed(0)
    encoder = tiny.two_towers()
    for part in encoder.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = dropout
    objectives = objectives or {
        "itc": Contrast("text", "image"),
        "translation": Contrast("text", "translation", weight=0.5),
        "mlm": MaskedLanguage(rate=0.3),
    }
    options = {"learning_rate": 1e-2, "warmup_steps": 2, "weight_decay": 0.1, "max_gradient_norm": 1.0, **optimization}
    return Pretraining(encoder, objectives, passes or PASSES, Optimization(**options), seed=3)


def trainer(steps, folder=None, **options) -> lightning.Trainer:
    return quiet_trainer(folder, **{"max_epochs": -1, "max_steps": steps, "log_every_n_steps": 1, **options})


def loader(steps: Dataset) -> DataLoader:
    return DataLoader(steps, batch_size=None)
