"""Pretraining: any encoder, any objectives, any sources, with exact denominators.

Optimises manually: a training step takes all of a rank's micro-batches of one optimiser step, marks them, sums the counts
over ranks, reads and goes backward pass by pass, sums the gradients over ranks once, clips, and steps (DESIGN section 4).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Literal

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor, nn

from ..modalities.batch import Batch, Step
from ..modalities.chance import chance, salt
from ..modalities.tokenizer import Tokenizer
from ..modalities.trained_tokenizer import KEY, check_trained, identify
from ..models.encoder import Encoder, Vectors
from ..models.table_gradients import drop_gradients
from .agreement import check_agreement, check_classes, check_counted
from .interval import Interval
from .objectives.objective import Loss, Objective
from .objectives.token_prediction import share_token_heads
from .optimization import Optimization, clip_gradients
from .passes import plan_passes
from .ranks import sum_gradients, sum_over_ranks, world
from .reading import Scales, count_readings, mark_pass, read_backward
from .restore import Restoration
from .validation import Sums


class Pretraining(lightning.LightningModule):
    """Train an encoder for one or more reasons at once."""

    def __init__(
        self,
        encoder: Encoder,
        objectives: Mapping[str, Objective],
        passes: Mapping[str, Sequence[Sequence[str]]],
        optimization: Optimization,
        tokenizer: str | None = None,
        initial: str | None = None,
        seed: int = 0,
        denominator: Literal["each", "pooled"] = "each",
        share_heads: bool = True,
        other_tokenizer: bool = False,
        initial_heads: bool = False,
    ):
        """
        Args:
            encoder: What is trained.
            objectives: Reasons to train, by name; the name is the log key and the command-line address.
            passes: For each source, groups of objective names that share one reading.
            optimization: Optimiser, schedule, clipping, frozen parts.
            tokenizer: Tokenizer file; checked against the encoder's vocabulary and languages at start.
            initial: Checkpoint of another run, from which the encoder's weights are taken before anything is built on it; or
                a file of `interlingua checkpoint import`, for the text tower that the encoder is or contains and token heads.
            seed: Of marks and dropout.
            denominator: `each`: every objective's loss is a mean over its own items in the whole step; `pooled`: all sums
                are divided by the items of all objectives together, as InfoXLM's released code does.
            share_heads: Whether objectives that predict tokens of one vocabulary do so by one head, as MLM and TLM do in XLM
                and InfoXLM.
            other_tokenizer: Let `initial` be a checkpoint that was trained with another tokenizer, on purpose: its table of
                tokens then starts with rows of other pieces.
            initial_heads: Take the weights of objectives from the checkpoint `initial` too, by their names: to go on from a
                fine-tuned run with other data (few-shot).
        """
        super().__init__()
        if denominator not in ("each", "pooled"):
            raise ValueError(f"denominator must be 'each' or 'pooled', found {denominator!r}")
        self.automatic_optimization = False
        self.plan = plan_passes(passes, objectives)  # first: what it refuses needs no weights
        self.encoder = encoder
        self.tokenizer = None if tokenizer is None else Tokenizer(tokenizer)
        if initial_heads and initial is None:
            raise ValueError("initial_heads: there is no `initial` to take them from")
        how = (rank_zero_info, self.tokenizer, other_tokenizer, initial_heads)
        start = None if initial is None else Restoration(initial, *how)
        if start is not None:
            start.fill_encoder(encoder)
        self.objectives = nn.ModuleDict(objectives)
        self.optimization, self.seed, self.denominator = optimization, seed, denominator
        for name, objective in self.objectives.items():
            with torch.device("cpu"):  # also where a model is only counted, on the meta device
                objective.key = int(chance(seed, salt(name)))
            objective.connect(encoder)
        if share_heads:
            share_token_heads(objectives)
        if start is not None:
            start.fill_heads(encoder, objectives)
        self.labels = None if start is None else start.labels
        self.faults = 0
        self.interval = Interval(self.objectives)
        self.sums = Sums()

    def setup(self, stage: str) -> None:
        precision = getattr(self.trainer.precision_plugin, "precision", "32-true")
        if precision.startswith("16"):
            raise ValueError(f"trainer.precision is {precision}, which needs a loss scale; use bf16-mixed or 32-true")
        if not isinstance(self.trainer.strategy, SingleDeviceStrategy | DDPStrategy):
            raise ValueError(
                f"trainer.strategy is {type(self.trainer.strategy).__name__}, but gradients are summed over whole copies "
                "of the model; use one device, or ddp"
            )
        check_classes(dict(self.objectives.items()), getattr(self.trainer, "datamodule", None), self.labels)
        if self.tokenizer is not None:
            check_agreement(self.encoder, self.tokenizer, getattr(self.trainer, "datamodule", None))
            check_counted(dict(self.objectives.items()), self.tokenizer)
            known = len(self.tokenizer.languages)
            if stage == "fit" and self.encoder.vocabulary is not None and not self.encoder.languages:
                rank_zero_info(
                    f"the encoder is not told which of the tokenizer's {known} languages a text is in (it has no language "
                    "vectors, as XLM-R has none); figures are by language all the same"
                )
        self.optimization.stop_gradients(self)  # before several ranks wrap the module
        # The wrapper would send the first rank's buffers to all before every step; queues are large, and the same everywhere.
        buffers = self.objectives.named_buffers(remove_duplicate=False)
        self._ddp_params_and_buffers_to_ignore = [f"objectives.{name}" for name, _ in buffers]

    def on_fit_start(self) -> None:
        """Warm up what is cold: not what goes on from a checkpoint."""
        for name, objective in self.objectives.items():
            if objective.cold:
                rank_zero_info(f"objective {name} warms up on the first steps of the run")
                with torch.no_grad(), self.trainer.precision_plugin.forward_context():
                    objective.warm_up(self.encoder, self._first_steps(name))

    def _first_steps(self, name: str) -> Iterator[list[Batch]]:
        """Micro-batches of an objective in the run's first steps, marked; read by a loader of their own, which leaves the
        position of training where it is."""
        for step in self.trainer.fit_loop._data_source.dataloader():
            if not step.batches:  # beyond the last step
                return
            batches = self.trainer.strategy.batch_to_device(step).batches
            readings = [mark_pass(one, batches, self.objectives) for one in self.plan if name in one.names]
            yield [marked for reading in readings for marked in reading.marked]

    def on_train_batch_start(self, step: Step, index: int) -> None:
        if self.optimization.frozen:  # whoever called `.train()` woke the frozen parts' dropout
            self.optimization.freeze(self)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the number of samples that all ranks could not read, and the losses since the last report: a collective, as
        saving is. And what its ids mean."""
        if (tokenizer := self._find_tokenizer()) is not None:
            checkpoint[KEY] = identify(tokenizer)
        checkpoint["interval"] = self.interval.state(self.device)
        checkpoint["faults"] = int(sum_over_ranks(torch.tensor(self.faults, device=self.device)))

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """The first rank counts on from what all have counted.

        Raises:
            ValueError: The checkpoint was trained with another tokenizer.
        """
        if (tokenizer := self._find_tokenizer()) is not None and self.encoder.vocabulary is not None:
            mend = "put that one back; to train on with another, start a new run by `model.initial`"
            by_language = bool(self.encoder.languages)
            if note := check_trained(checkpoint.get(KEY), tokenizer, "the checkpoint", by_language, mend):
                rank_zero_info(note)
        self.faults = checkpoint.get("faults", 0) if world()[0] == 0 else 0
        self.interval.load(checkpoint.get("interval", {}))

    def configure_optimizers(self):
        return self.optimization.configure(self, self.trainer.max_steps)

    def training_step(self, step: Step, index: int) -> None:
        optimizer = self.optimizers()
        model = self.trainer.strategy.model
        with model.no_sync() if hasattr(model, "no_sync") else nullcontext():
            losses, counts = self.backward_step(step)
        sum_gradients(self.parameters())
        norm = clip_gradients(self.named_parameters(), self.optimization.max_gradient_norm)
        rate = optimizer.param_groups[0]["lr"]
        optimizer.step()
        drop_gradients(optimizer)
        self.lr_schedulers().step()
        for objective in self.objectives.values():
            objective.after_step(self.encoder)
        self.faults += len(step.faults)
        self.interval.add(losses, counts)
        whole = self.global_step % self.trainer.log_every_n_steps == 0
        if whole or self.trainer.should_stop:  # the last step
            self._report({"gradient_norm": norm, "learning_rate": rate})
        if whole:  # a run that goes on from its last step goes on with an interval that was cut short
            self.interval.clear()

    def _find_tokenizer(self) -> Tokenizer | None:
        """The model's own, or the data's."""
        data = None if self._trainer is None else getattr(self._trainer, "datamodule", None)
        found = self.tokenizer or getattr(data, "tokenizer", None)
        return found if isinstance(found, Tokenizer) else None

    def backward_step(self, step: Step) -> tuple[dict[str, Loss], Tensor]:
        """All forward and backward passes of one optimiser step on this rank; gradients are left in `.grad`, not yet summed.

        Returns:
            This rank's summed losses by objective, and the global count of each objective `[objectives]`.
        """
        self._check_sources(step)
        readings = [mark_pass(one, step.batches, self.objectives) for one in self.plan]
        counts = sum_over_ranks(count_readings(readings, self.objectives, self.device))
        counts = counts * torch.tensor([objective.weight != 0 for objective in self.objectives.values()], device=self.device)
        scales = self._scales(counts)
        losses: dict[str, Loss] = {}
        for number, reading in enumerate(readings):
            keys = (self.seed, step.number, number, world()[0])
            read = read_backward(reading, self.encoder, self.objectives, scales, self.manual_backward, *keys)
            for name, loss in read.items():
                before = losses.get(name, Loss(0, 0))
                losses[name] = Loss(before.total + loss.total, before.count + loss.count)
        return losses, counts

    def _scales(self, counts: Tensor) -> Scales:
        present = counts.tolist()
        pooled = sum(present)
        factor = {
            name: objective.weight / max(1, pooled if self.denominator == "pooled" else count)
            for (name, objective), count in zip(self.objectives.items(), present, strict=True)
        }
        return Scales(factor, frozenset(name for name, count in zip(self.objectives, present, strict=True) if count))

    def _check_sources(self, step: Step) -> None:
        unknown = {batch.source for batch in step.batches} - {one.source for one in self.plan}
        if unknown:
            raise ValueError(
                f"no pass reads the sources {sorted(unknown)}; `passes` knows {sorted({p.source for p in self.plan})}"
            )

    def _report(self, pace: Mapping[str, Tensor | float]) -> None:
        """Log the mean of each objective over all its items since the last report: the same numbers however steps were split.

        `train/loss` is the weighted sum of these. What is no loss is of this step alone, and `faults` of all steps.
        """
        values = self.interval.means(self.device)
        for name in self.objectives.keys() - values.keys():  # Lightning would log its last loss again
            self.trainer._results.pop(f"training_step.train/{name}", None)
        faults = sum_over_ranks(torch.tensor(float(self.faults), device=self.device))
        loss = sum(self.objectives[name].weight * value for name, value in values.items())
        self.log_dict({f"train/{name}": value for name, value in values.items()}, prog_bar=True)
        self.log_dict({"train/loss": loss, "train/faults": faults, **{f"train/{name}": value for name, value in pace.items()}})

    def validation_step(self, batch: Batch, index: int) -> None:
        """Score one batch of one source and one language; marks are the same at every validation."""
        for one in self.plan:
            if one.source != batch.source or batch.size == 0:
                continue
            reading = mark_pass(one, [batch], self.objectives, share=False)
            states = self.objectives[one.names[0]].read(self.encoder, reading.marked[0])
            for name in one.names:
                objective, marked = self.objectives[name], reading.marked[0]
                self.sums.add(name, batch, objective.loss(states, marked), objective.tally(states, marked))

    def on_validation_epoch_end(self) -> None:
        names = None if self.tokenizer is None else self.tokenizer.languages
        self.log_dict({f"validation/{key}": value for key, value in self.sums.means(names).items()})
        overall = self.sums.overall({name: objective.weight for name, objective in self.objectives.items()})
        self.log("validation/loss", overall, prog_bar=True)
        self.sums = Sums()

    def predict_step(self, batch: Batch, index: int) -> tuple[Tensor, Vectors]:
        """Items and vectors of a batch."""
        return batch.item, self.encoder(batch).vectors
