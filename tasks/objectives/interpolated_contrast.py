"""Contrast of a sentence and its translation with interpolated negatives (SCTL): the other sentences of the step, each drawn
towards the sentence that it is compared with. HICTL, arXiv:2007.15960, section 3, sentence level.

The paper's code was never published. Ours, where the paper is silent: negatives are of the other side, a mini-batch is an
optimiser step (all micro-batches and ranks), and before the first step nothing is drawn anywhere.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ...modalities.batch import Batch
from ...modalities.text import text_identity
from ...models.encoder import Encoder, States
from ...models.pooling import Pooling, pool
from ..ranks import sum_over_ranks
from .halves import readable
from .objective import Embeddings, Loss, Objective, Sharing
from .ranges import check_range, check_temperature
from .rows import refuse_single
from .tiled_contrast import same_thing

WHO = "interpolated contrast"
ROWS = 256
"""Rows whose scores against all others are held at once; the backward pass makes them again."""
MOST_STEPS = 1_000_000
MOST_ZETA = 100.0
"""With which a negative hardly farther than the translation is drawn all the way."""
LEAST = 1e-12
"""Lengths, and squares of them, are not less: a negative drawn through the origin has no direction."""


class InterpolatedContrast(Objective):
    """Symmetric cross-entropy of each sentence's translation among the translations of the step, by cosine.

    A negative z that is farther from the sentence x than its translation y is replaced by x + share * (z - x), where share is
    (|x - y| / |x - z|) to the power of zeta times the certainty: the mean over the last steps of e to the minus mean loss. So
    negatives come nearer as the model learns, at most as near as y. No gradient passes through the share. The certainty is a
    buffer of the checkpoint that moves after the optimiser has stepped, the same on all ranks; it begins at 0, where
    negatives stay as they are.
    """

    coupled = True
    one_item_a_row = True
    sharing: Sharing = "apart"

    def __init__(
        self,
        temperature: float = 1.0,
        pooling: Pooling = "first",
        zeta: float = 0.9,
        window: int = 100,
        exclude_same: bool = True,
        weight: float = 1.0,
    ):
        """
        Args:
            temperature: What cosines are divided by. The paper's formula has none (1), where even a perfect model of N pairs
                pays log(1 + (N - 1) / e^2) a sentence, learns slowly and is never certain; 0.05 to 0.1, ours, is what
                contrast by cosine is else trained with.
            pooling: What stands for a sentence: its first token, as published, or the mean of all (ours), which small models
                learn much sooner.
            zeta: How much negatives are hardened, at most 100; 0: not at all.
            window: Steps that the certainty is a mean of; of fewer where the run has been shorter.
            exclude_same: Whether sentences of the same item, or with the same text on any side, are no negatives. Ours.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: A number is out of its range.
        """
        super().__init__(weight)
        check_temperature(WHO, temperature)
        check_range(WHO, "zeta", zeta, 0.0, MOST_ZETA, " (0: negatives stay as they are; published: 0.9)")
        check_range(WHO, "window", window, 1, MOST_STEPS, " steps (published: 100)")
        self.temperature, self.pooling, self.zeta, self.exclude_same = temperature, pooling, zeta, exclude_same
        self.register_buffer("likelihoods", torch.zeros(window))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self._waiting: list[Float[Tensor, "2"]] = []

    def connect(self, encoder: Encoder) -> None:
        """
        Raises:
            ValueError: The encoder does not read a text and its translation.
        """
        if not {"text", "translation"} <= set(encoder.widths):
            raise ValueError(
                f"{WHO} compares texts with their translations, but {type(encoder).__name__} reads "
                f"{', '.join(encoder.widths)}; use an encoder with a text stream"
            )

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        """
        Raises:
            ValueError: The source reads no translation.
        """
        refuse_single(view, WHO)
        return view

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return self._compared(marked).sum()

    def embed(self, states: States, marked: Batch) -> Embeddings:
        """Pooled states, at their own lengths, of the rows that have both sentences."""
        rows = self._compared(marked)
        left = pool(states.text, marked.text.present, self.pooling)[rows].float()
        right = pool(states.translation, marked.translation.present, self.pooling)[rows].float()
        about = [marked.item, text_identity(marked.text), text_identity(marked.translation)]
        return Embeddings(left, right, torch.stack(about, 1)[rows])

    def contrast(self, own: Embeddings, every: Embeddings, start: int) -> Loss:
        """Mean of both directions' cross-entropies, summed over the own rows."""
        with torch.autocast(own.left.device.type, enabled=False):
            forth = self._find(own.left, own.right, every.right, own, every, start)
            back = self._find(own.right, own.left, every.left, own, every, start)
        total = (forth + back) / 2
        count = torch.tensor(len(own.left), device=own.left.device)
        if self.training:
            self._waiting.append(torch.stack([total.detach().float(), count.float()]))
        return Loss(total, count)

    @property
    def certainty(self) -> Float[Tensor, ""]:
        """Mean over the last steps of e to the minus mean loss, 0 to 1; 0 before the first."""
        return self.likelihoods.sum() / self.steps.clamp(1, len(self.likelihoods))

    @torch.no_grad()
    def after_step(self, encoder: Encoder) -> None:
        """Note the likelihood of the step that is over; none where nothing was scored on any rank."""
        total, count = sum_over_ranks(sum(self._waiting, start=self.likelihoods.new_zeros(2)))
        self._waiting = []
        if count > 0:
            self.likelihoods[int(self.steps) % len(self.likelihoods)] = (-total / count).exp()
            self.steps += 1

    def _compared(self, marked: Batch) -> Bool[Tensor, "B"]:
        there = readable(marked.text) & readable(marked.translation)
        return there if marked.matched is None else there & marked.matched

    def _find(self, query: Tensor, key: Tensor, others: Tensor, own: Embeddings, every: Embeddings, start: int) -> Tensor:
        """Summed cost of finding the key of each query: a block of rows at a time."""
        total, exponent = query.new_zeros(()), self.zeta * self.certainty
        for first in range(0, max(1, len(query)), ROWS):
            block = slice(first, first + ROWS)
            excluded = _excluded(own.identity[block], every.identity, start + first, self.exclude_same)
            arguments = query[block], key[block], others, excluded, exponent, self.temperature
            total = total + checkpoint(costs, *arguments, use_reentrant=False, preserve_rng_state=False).sum()
        return total


def _excluded(own: Int[Tensor, "n I"], every: Int[Tensor, "N I"], start: int, same: bool) -> Bool[Tensor, "n N"]:
    """What is no negative of each row: itself, and, as asked for, rows of its item or with one of its texts on any side."""
    if not same:
        excluded = torch.zeros(len(own), len(every), dtype=torch.bool, device=own.device)
    else:  # an item is no text: the first column is compared with itself alone
        excluded = same_thing(own, every) | same_thing(own[:, 1:], every[:, 1:].flip(1))
    rows = torch.arange(len(own), device=own.device)
    excluded[rows, start + rows] = True
    return excluded


def costs(
    query: Float[Tensor, "n D"],
    key: Float[Tensor, "n D"],
    others: Float[Tensor, "N D"],
    excluded: Bool[Tensor, "n N"],
    exponent: Float[Tensor, ""],
    temperature: float,
) -> Float[Tensor, "n"]:
    """Cross-entropy of each query's key against the others, drawn towards the query.

    Args:
        query: Sentences.
        key: Their translations.
        others: Translations of all sentences.
        excluded: Which of them are no negatives.
        exponent: Of the shares (see `shares`).
        temperature: What cosines are divided by.
    """
    positive = F.cosine_similarity(query, key, dim=1, eps=LEAST) / temperature
    negative = drawn_cosines(query, others, shares(query, key, others, exponent)) / temperature
    # The lowest finite number, since sums of infinitely unlikely ones have no gradient.
    negative = negative.masked_fill(excluded, torch.finfo(negative.dtype).min).logsumexp(1)
    return torch.logaddexp(negative - positive, torch.zeros_like(positive))


@torch.no_grad()
def shares(
    query: Float[Tensor, "n D"], key: Float[Tensor, "n D"], others: Float[Tensor, "N D"], exponent: Float[Tensor, ""]
) -> Float[Tensor, "n N"]:
    """How much of the way from each query to each of the others is left: 1 for those that are no farther than the key."""
    near = (query - key).norm(dim=1, keepdim=True)
    # Distances do not change when all is moved, but are exact only where vectors are not all far off the origin.
    center = others.mean(0)
    far = torch.cdist(query - center, others - center)
    return torch.where(far > near, near / far, 1.0).pow(exponent)


def drawn_cosines(
    query: Float[Tensor, "n D"], others: Float[Tensor, "N D"], share: Float[Tensor, "n N"]
) -> Float[Tensor, "n N"]:
    """Cosines of each query with points on its way to each of the others, none of which is ever there: they follow from the
    cosines with the others, and from the lengths."""
    cosine = F.normalize(query, dim=1, eps=LEAST) @ F.normalize(others, dim=1, eps=LEAST).T
    length = others.norm(dim=1) / query.norm(dim=1, keepdim=True).clamp_min(LEAST)  # [n, N], in lengths of the query
    stay, go = 1 - share, share * length
    along = stay + go * cosine
    return along / (stay.square() + 2 * stay * go * cosine + go.square()).clamp_min(LEAST).sqrt()
