"""The line that moves: never wider than the terminal, at rest before results are printed."""

import io

import pytest
import torch
from lightning import LightningDataModule, LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

from interlingua.progress import StepBar, choose_metrics

pytestmark = pytest.mark.filterwarnings("ignore")


def test_what_has_no_room_is_left_out():
    metrics = {"mlm": 5.12345, "translation": 4.0, "validation/loss": 9.5}
    assert choose_metrics(metrics, 10) == {"mlm": 5.12345}
    assert choose_metrics(metrics, 29) == {"mlm": 5.12345, "translation": 4.0}
    assert list(choose_metrics(metrics, 80)) == list(metrics)
    assert choose_metrics(metrics, 9) == {}


class Many(LightningModule):
    """Logs more losses than a line holds, and prints at the end of a test."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, index):
        self.log_dict({f"train/objective{n}": float(n) for n in range(9)}, prog_bar=True)
        return self.layer(batch[0]).sum()

    def test_step(self, batch, index):
        pass

    def on_test_epoch_end(self):
        self.trainer.progress_bar_callback._console.print("RESULTS")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


class Ones(LightningDataModule):
    def train_dataloader(self):
        return DataLoader(TensorDataset(torch.ones(6, 1)))

    test_dataloader = train_dataloader


def shown(command, width, tmp_path) -> str:
    kept = io.StringIO()
    bar = StepBar(console_kwargs={"file": kept, "width": width, "force_terminal": True, "color_system": None})
    options = {"logger": False, "enable_checkpointing": False, "enable_model_summary": False, "accelerator": "cpu"}
    trainer = Trainer(max_steps=6, max_epochs=-1, log_every_n_steps=1, callbacks=[bar], default_root_dir=tmp_path, **options)
    getattr(trainer, command)(Many(), datamodule=Ones())
    return kept.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_the_line_of_training_is_one_row(tmp_path, width):
    text = shown("fit", width, tmp_path)
    assert "6/6" in text
    assert "\x1b[1A" not in text, "a second row, over which the cursor goes back"
    assert "objective0: 0.000" in text
    assert ("objective1: 1.000" in text) == (width == 120)
    assert "objective8" not in text


def test_results_stand_below_the_bar(tmp_path):
    text = shown("test", 120, tmp_path)
    assert text.index("6/6") < text.index("RESULTS")
    assert "6/6" not in text[text.index("RESULTS") :]
