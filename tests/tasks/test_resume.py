"""A resumed run is the uninterrupted run, on the quick start's own data: samples, rates and weights, bit for bit."""

import lightning
import pytest
import torch
import training
from lightning.pytorch.callbacks import ModelCheckpoint

from interlingua.datamodules.choice import TextChoice, TranslationChoice
from interlingua.datamodules.quickstart.write import write_quickstart
from interlingua.datamodules.source import Source
from interlingua.datamodules.train_tokenizer import read_shards, train_tokenizer
from interlingua.datamodules.training import Shards
from interlingua.modalities.augmentation import ImageTransform
from interlingua.modalities.image_front_ends import ConvolutionStem
from interlingua.modalities.vocabulary import Vocabulary
from interlingua.models.embeddings import TextEmbeddings
from interlingua.models.towers import ImageTower, TextTower
from interlingua.models.transformer import Transformer
from interlingua.models.two_towers import TwoTowers
from interlingua.tasks.objectives.contrast import Contrast
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining

STEPS, EVERY = 12, 5
"""Of a run, and between two reports."""
pytestmark = pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    """The quick start's shards and a tokenizer, in a folder."""
    folder = tmp_path_factory.mktemp("quickstart")
    write_quickstart(folder / "shards")
    lines = read_shards([str(folder / "shards" / "train" / "names")], [], print)
    train_tokenizer(lines, folder / "tokenizer.model", size=4000, report=lambda line: None)
    return folder


def build(folder, workers=0, micro_batch_size=None):
    """The quick start at toy width: dropout, augmentation and all objectives on."""
    torch.manual_seed(0)
    text = TextTower(TextEmbeddings(Vocabulary(4000), 32, 32), Transformer(32, 1, 4, norm="pre"))
    image = ImageTower(ConvolutionStem(32, channels=(8, 16, 16), size=32))
    objectives = {"picture": Contrast("text", "image"), "translation": Contrast("text", "translation"), "mlm": MaskedLanguage()}
    module = Pretraining(
        TwoTowers(text, image, vector_width=32),
        objectives,
        {"pictures": [["picture"]], "names": [["translation"], ["mlm"]]},
        Optimization(1e-2, warmup_steps=4, schedule="cosine", steps=STEPS, max_gradient_norm=1.0),
        tokenizer=str(folder / "tokenizer.model"),
    )
    train = folder / "shards" / "train"
    pictures = Source(
        str(train / "pictures"), 16, micro_batch_size, TextChoice(["en"]), image=ImageTransform(size=32, shift=0.1)
    )
    names = Source(str(train / "names"), 16, micro_batch_size, TextChoice(["en"]), TranslationChoice())
    data = Shards({"pictures": pictures, "names": names}, str(folder / "tokenizer.model"), 32, workers=workers)
    return module, data


class Trace(lightning.Callback):
    """What each step read and how fast it learned."""

    def __init__(self):
        self.rows = {}
        self.losses = {}

    def on_train_batch_start(self, trainer, module, step, index):
        samples = [(batch.source, batch.sample.tolist(), batch.text.tokens.tolist()) for batch in step.batches]
        rates = [group["lr"] for group in trainer.optimizers[0].param_groups]
        self.rows[trainer.global_step] = (samples, rates)

    def on_train_batch_end(self, trainer, module, *_):
        if trainer.global_step % EVERY == 0:
            self.losses[trainer.global_step] = {name: float(value) for name, value in trainer.callback_metrics.items()}


def train(folder, until, workers=0, resume=None, run="whole", losses=None):
    """Train up to a step, keeping the state after each; returns the trace, the weights and the trainer."""
    module, data = build(folder, workers)
    trace = Trace()
    keeper = ModelCheckpoint(folder / "kept", filename=run + "-{step}", every_n_train_steps=1, save_top_k=-1)
    trainer = training.trainer(until, callbacks=[trace, keeper], enable_checkpointing=True, log_every_n_steps=EVERY)
    trainer.fit(module, data, ckpt_path=resume, weights_only=True)
    if losses is not None:
        losses.update(trace.losses)
    return trace.rows, module.state_dict(), trainer


@pytest.fixture(scope="module")
def losses():
    """What the uninterrupted run logs, by step."""
    return {}


@pytest.fixture(scope="module")
def whole(quickstart, losses):
    """The uninterrupted run."""
    return train(quickstart, STEPS, losses=losses)


@pytest.mark.parametrize(("step", "workers"), [(1, 0), (4, 2), (11, 0)])
def test_resumed_is_uninterrupted_at_any_step_with_any_number_of_workers(quickstart, whole, step, workers):
    """Pitfalls D10 and G01."""
    rows, weights, _ = whole
    again, weights_again, trainer = train(
        quickstart, STEPS, workers, quickstart / f"kept/whole-step={step}.ckpt", f"again{step}"
    )
    assert trainer.global_step == STEPS
    assert again == {number: row for number, row in rows.items() if number >= step}
    for name, value in weights.items():
        assert torch.equal(value, weights_again[name]), name


def test_a_resume_of_a_resume(quickstart, whole, losses):
    """The losses of steps 6 to 10 are reported in step 10, those of 6 to 9 too, which another process saw."""
    rows, weights, _ = whole
    train(quickstart, 9, 1, quickstart / "kept/whole-step=5.ckpt", "second")
    found = {}
    again, weights_again, _ = train(quickstart, STEPS, 0, quickstart / "kept/second-step=9.ckpt", "third", found)
    assert found == {10: losses[10]}
    assert len(losses[5].keys() & {"train/picture", "train/translation", "train/mlm"}) == 3
    assert again == {number: row for number, row in rows.items() if number >= 9}
    assert all(torch.equal(value, weights_again[name]) for name, value in weights.items())


def test_the_checkpoint_holds_tensors_and_plain_values_alone(quickstart, whole):
    kept = torch.load(quickstart / "kept/whole-step=2.ckpt", weights_only=True)
    assert kept["global_step"] == 2
    assert kept["Shards"]["order"]["sources"]["names"]["batch_size"] == 16


def test_micro_batches_and_whole_steps_train_alike_on_real_data(quickstart):
    whole, parts = build(quickstart), build(quickstart, micro_batch_size=4)
    for module, data in (whole, parts):
        for part in module.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        training.trainer(3).fit(module, data)
    for (name, one), other in zip(whole[0].state_dict().items(), parts[0].state_dict().values(), strict=True):
        assert torch.allclose(one, other, atol=1e-4), name
