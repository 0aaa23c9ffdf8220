"""What several models of one kind get right, language by language, in one pass over the data."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import lightning
import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from ..modalities.batch import Batch
from .agreement import check_agreement, check_classes
from .answer_tally import tally_answers
from .objectives.objective import Objective
from .objectives.span_answering import SpanAnswering
from .pretraining import Pretraining
from .reading import mark_pass
from .transfer import Score


class Place(NamedTuple):
    """What is summed alone."""

    data: str
    split: str
    language: int


class TransferScoring(lightning.LightningModule):
    """Score fine-tuned models with their own objectives. Test batches are of the sources `NAME/SPLIT`, each of one language."""

    def __init__(self, models: Sequence[Pretraining]):
        """
        Args:
            models: Of one kind: the checkpoints of a run, say. All are held at once.
        """
        super().__init__()
        self.models = nn.ModuleList(models)
        self.sums: list[dict[tuple[Place, str], Shaped[Tensor, "2"]]] = [{} for _ in models]
        self.samples: dict[Place, list[Tensor]] = {}

    def setup(self, stage: str) -> None:
        for model in self.models:
            check_fit(model, getattr(self.trainer, "datamodule", None))

    def test_step(self, batch: Batch, index: int) -> None:
        if batch.size == 0:
            return
        data = getattr(self.trainer, "datamodule", None)
        name, _, split = batch.source.rpartition("/")
        records = getattr(data, "examples", {}).get(batch.source, ())
        place = Place(name, split, int(batch.text.language[batch.text.present][0]))
        self.samples.setdefault(place, []).append(batch.sample.cpu())
        for model, sums in zip(self.models, self.sums, strict=True):
            for figure, tally in score_named(model, batch, data, records):
                sums[place, figure] = sums.get((place, figure), 0) + tally.cpu()

    def scores(self, languages: Sequence[str]) -> list[dict[str, dict[str, dict[str, Score]]]]:
        """Of each model, by split, language and figure (`OBJECTIVE/FIGURE`).

        Args:
            languages: Codes by language id.
        """
        every = []
        for sums in self.sums:
            found: dict[str, dict[str, dict[str, Score]]] = {}
            for (place, figure), tally in sums.items():
                n = len(torch.cat(self.samples[place]).unique())
                own = found.setdefault(place.split, {}).setdefault(languages[place.language], {})
                own[figure] = Score(*tally.tolist(), n)
            every.append(found)
        return every


def check_fit(model: Pretraining, data: Any) -> None:
    """Refuse data that a model cannot be scored on: other labels, another tokenizer, longer texts.

    Raises:
        ValueError: Names what differs.
    """
    check_classes(dict(model.objectives.items()), data)
    if model.tokenizer is not None:
        check_agreement(model.encoder, model.tokenizer, data)


def score_named(model: Pretraining, batch: Batch, data: Any, records: Sequence[Any]) -> list[tuple[str, Shaped[Tensor, "2"]]]:
    """What a model gets right of a batch of the source `NAME/SPLIT`, by figure: see `score`.

    Raises:
        ValueError: No pass of the model reads NAME with an objective that can be right or wrong.
    """
    name = batch.source.rpartition("/")[0]
    with torch.inference_mode():
        found = list(score(model, batch._replace(source=name), data, records))
    if not found:
        raise ValueError(
            f"the data's source is {name!r}, but no pass of the model reads it with an objective that can be right or wrong "
            f"(passes read {', '.join(sorted({one.source for one in model.plan}))}); set `data.name` to theirs"
        )
    return found


def score(model: Pretraining, batch: Batch, data: Any, records: Sequence[Any]) -> Iterator[tuple[str, Shaped[Tensor, "2"]]]:
    """What a model gets right of a batch, by figure.

    Args:
        model: A fine-tuned one.
        batch: Of a source that it was trained on.
        data: The data module, for answers in words.
        records: Examples of the source, by `Batch.sample`.
    """
    for one in model.plan:
        asked = [name for name in one.names if type(model.objectives[name]).tally is not Objective.tally]
        if one.source != batch.source or not asked:
            continue
        marked = mark_pass(one, [batch], model.objectives, share=False).marked[0]
        states = model.objectives[one.names[0]].read(model.encoder, marked)
        for name in asked:
            objective = model.objectives[name]
            figures = dict(objective.tally(states, marked))
            if isinstance(objective, SpanAnswering):
                figures |= tally_answers(objective.find(states, marked), marked, data, records)
            for figure, tally in figures.items():
                yield f"{name}/{figure}", tally
