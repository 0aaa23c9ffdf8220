"""The objective contract: one reason to train, whole in one file.

The life of an objective in one optimiser step (see `pretraining`): every micro-batch is viewed and marked, its items are
counted, and the counts are summed over micro-batches and ranks before any forward pass, so that every loss is a sum over
an exact global denominator. Then each micro-batch is read and scored. Objectives that name the same pass share a reading.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from ...modalities.batch import Batch
from ...modalities.chance import salt
from ...models.encoder import Encoder, States
from .ranges import check_range

HEAVIEST = 1e6
"""Weight of an objective: its gradients must be finite in 32 bits."""

Sharing = Literal["any", "rows", "apart", "alone"]
"""What an objective asks of a reading that it shares with others of its pass.

`any`: takes rows as the others have them. `rows`: makes rows of its own, such as text and translation joined in one, which the
others then read. `apart`: reads text and translation as two texts, so that nobody may join them. `alone`: reads in a way of its
own, and shares with none.
"""


class Loss(NamedTuple):
    """A sum and what it is a sum over; never a mean."""

    total: Float[Tensor, ""]
    count: Int[Tensor, ""]


class Embeddings(NamedTuple):
    """What rows of a step are compared by."""

    left: Float[Tensor, "N E"]
    right: Float[Tensor, "N E"]
    identity: Int[Tensor, "N I"]
    """Rows are about the same thing, and never each other's negative, if any column is equal."""


class Objective(nn.Module):
    """One reason to train. Most objectives write `connect`, `mark`, `count` and `loss` only.

    Attributes:
        weight: Coefficient of this objective in the summed loss.
        key: Random key of this objective's marks, from the run's seed and the objective's name (set by `Pretraining`).
        coupled: True where a row's loss depends on the other rows of the step: such an objective writes `embed` and
            `contrast` instead of `loss`, and is exact over micro-batches (gradient caching) and ranks (gathering).
        one_item_a_row: True where a row is scored as a whole: packed rows, of several documents, are then refused.
        single: True where rows must be texts without a translation.
        changes: Fields of the batch that `mark` gives other content in some rows: in a shared reading this must come before
            anything of them is hidden.
        hides: Fields of the batch of which `mark` hides parts, and how: None where each objective of a shared reading hides
            what it wants; else the first one hides for all, and they must agree.
    """

    coupled = False
    one_item_a_row = False
    single = False
    changes: Collection[str] = ()
    hides: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, weight: float = 1.0):
        super().__init__()
        check_range(type(self).__name__, "weight", weight, 0, HEAVIEST)
        self.weight = weight
        self.key = salt(type(self).__name__)

    def connect(self, encoder: Encoder) -> None:
        """Build the head from the encoder's widths and tables. The encoder is passed, never stored as a module."""

    def view(self, batch: Batch) -> Batch:
        """What is read: the batch itself, or, say, a text joined to its translation. Of the objectives that share a pass,
        one at most may override this; the others then read its view."""
        return batch

    def lend(self, view: Batch) -> Batch | None:
        """What other samples of the step may borrow from these (say, captions as negatives); gathered into `mark`'s pool."""
        return None

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        """Mark what must be predicted: overwrite nothing, keep the marks that are there.

        Args:
            view: A micro-batch, perhaps marked by other objectives of the pass.
            pool: All that was lent by the step's samples, on all ranks; None: by this micro-batch alone.
        """
        return view

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        """How many items will be scored: known before any forward pass, equal to the count of the loss."""
        raise NotImplementedError

    def read(self, encoder: Encoder, marked: Batch) -> States:
        """One forward pass, or more; an objective that overrides this has a pass of its own, and may return what its own
        `loss` or `embed` reads, in a type of its own."""
        return encoder(marked)

    def loss(self, states: States, marked: Batch) -> Loss:
        """The summed loss of one micro-batch."""
        if not self.coupled:
            raise NotImplementedError
        own = self.embed(states, marked)
        return self.contrast(own, own, 0)

    def tally(self, states: Any, marked: Batch) -> Mapping[str, Shaped[Tensor, "2"]]:
        """For objectives that can be right or wrong: by the name of a figure, what was right and of how many. Both are summed
        over a validation set, language by language; their ratio is the figure (accuracy; F1 as twice the right over predicted
        and expected).

        Args:
            states: Whatever this objective's `read` gives.
            marked: What was read.
        """
        return {}

    def embed(self, states: States, marked: Batch) -> Embeddings:
        """For coupled objectives: the rows to be compared, in the micro-batch's order, only those that `count` counts."""
        raise NotImplementedError

    def contrast(self, own: Embeddings, every: Embeddings, start: int) -> Loss:
        """For coupled objectives: summed loss of some rows against all rows of the step.

        Args:
            own: This rank's rows.
            every: The rows of all ranks; row `start + i` of it is `own`'s row i.
            start: Where `own` begins in `every`.
        """
        raise NotImplementedError

    @property
    def sharing(self) -> Sharing:
        """With whom this objective can share a reading (see `Sharing`): told by what it overrides; those whose rows must have
        text and translation apart say so."""
        own = type(self)
        if own.read is not Objective.read:
            return "alone"
        return "any" if own.view is Objective.view else "rows"

    @property
    def cold(self) -> bool:
        """Whether `warm_up` must come before anything can be scored: the same on all ranks, and False once it has."""
        return False

    def warm_up(self, encoder: Encoder, steps: Iterable[Sequence[Batch]]) -> None:
        """Prepare for the first step, where the objective is `cold`: fill a queue, say. Nothing is trained.

        Args:
            encoder: With the weights that training starts from.
            steps: Marked micro-batches of the run's first steps, which are trained on afterwards. All ranks have, and must
                take, as many; they may gather.
        """
        raise NotImplementedError

    def after_step(self, encoder: Encoder) -> None:
        """Move momentum copies and queues; called after the optimiser has stepped, never inside a step. What `loss` stashes
        for it must be stashed only while `self.training`: validation calls `loss` too."""
