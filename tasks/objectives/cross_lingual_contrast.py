"""Cross-lingual contrast (XlCo): tell a sentence's translation from a queue of other sentences. InfoXLM, arXiv:2007.07834,
section 3.3 (contrast with momentum and a queue: MoCo, arXiv:1911.05722, section 3).

Where the paper and its released code differ, both are options; the defaults are the code's. One thing is ours: the queue
stands still within an optimiser step, where the code pushes keys after each micro-batch.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Int64
from torch import Tensor, nn

from ...modalities.batch import Batch, Text, take
from ...modalities.chance import chance, salt
from ...modalities.pair import swap_texts
from ...modalities.text import text_identity
from ...models.encoder import Encoder, States
from ...models.momentum import Momentum, MomentumCopy
from ...models.pooling import Pooling, pool
from ...models.transformer import initialize
from ..ranks import gather_rows
from .halves import Joining, check_pair
from .hiding import Hiding, hide_tokens
from .mixed_pairs import mix_pairs, translated
from .objective import Loss, Objective
from .queue import KeyQueue
from .ranges import check_range, check_temperature
from .rows import refuse_single

log = logging.getLogger(__name__)

WHO = "cross-lingual contrast"
MOST_KEYS = 4_000_000
"""Keys of a queue: thirty times the published, and 12 GB at 768 numbers a key."""
PATIENCE = 1000
"""Steps of a warm-up after which something must have been found."""
MIX, DIRECTION, PLACE = salt("mix"), salt("direction"), salt("place")
ORDERS = {"text": salt("order of the query"), "translation": salt("order of the key")}


class Sides(NamedTuple):
    """What is compared: a row's query is to find its key."""

    query: Float[Tensor, "N D"]
    key: Float[Tensor, "N D"]


class Rows(NamedTuple):
    """Keys that wait for the end of the step."""

    key: Float[Tensor, "N D"]
    numbers: Int64[Tensor, "N I+1"]
    """Where the key stands among those of the step, and what it is about."""


class CrossLingualContrast(Objective):
    """Cross-entropy of each sentence's translation against the keys of a queue.

    Sentences are compared by the projected state of their first token, or the mean of all. One side is the query, read by the
    encoder; the other is the key, read by a momentum copy of it, without dropout. Which is which is drawn for each row, so
    that one reading of each learns both directions. As negatives come from the queue alone, the loss of a row depends on no
    other row of the step; keys are pushed, those of all ranks, and the copy moves, after the optimiser has stepped.
    """

    one_item_a_row = True

    def __init__(
        self,
        layer: int = 8,
        queue: int = 131072,
        momentum: float | Momentum = 0.9999,
        temperature: float = 0.25,
        normalize: bool = False,
        mixup: bool = True,
        pair: str = "infoxlm",
        max_tokens: int | None = None,
        rate: float = 0.15,
        exclude_same: bool = True,
        pooling: Pooling = "first",
        weight: float = 1.0,
    ):
        """
        Args:
            layer: Block after which sentences are compared (0: before the first). 8 for 12 blocks.
            queue: Number of keys. 131,072 in the paper; it is full before the first step (see `warm_up`).
            momentum: Share of the copy that stays in a step, or a schedule of it. Published: 0.9999 for the base size, 0.999
                for the large one.
            temperature: What products are divided by. The code's; the paper's formula has none (1).
            normalize: Whether vectors are brought to length 1. In neither.
            mixup: Compare two pairs at once, `<s> a </s> b </s>` with their translations `<s> B </s> A </s>`; both orders are
                drawn apart. In both. Pairs are mixed with others of the step, each with one, so rows are half as many.
            pair: Form of such a row, one of `PAIR_FORMS`.
            max_tokens: Longest such row; in a longer one the longer sentence loses pieces first. None: the encoder's longest
                text, or twice that where positions restart.
            rate: Probability with which tokens of both sides are hidden (a tenth of them stays, another is replaced). The
                code's; in the paper's formula nothing is hidden (0).
            exclude_same: Whether keys about the same item, or with the same text on any side, are no negatives. Ours; in the
                paper and the code they are (False), which shows where the queue is not small beside the data.
            pooling: What stands for a sentence: its first token, as published, or the mean of all (ours), which small models
                learn much sooner.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: A number is out of its range, the form is unknown, or rows are too short for it, or have a
                length without `mixup`.
        """
        super().__init__(weight)
        if layer < 0:
            raise ValueError(f"{WHO}: layer is {layer}; expected 0 or more")
        check_range(WHO, "queue", queue, 1, MOST_KEYS, " keys (published: 131072)")
        check_temperature(WHO, temperature)
        if not 0 <= rate <= 1:
            raise ValueError(f"{WHO}: rate is {rate}, but a share lies between 0 and 1")
        self.layer, self.size, self.temperature, self.normalize = layer, queue, temperature, normalize
        self.momentum = momentum if isinstance(momentum, Momentum) else Momentum(momentum)
        check_pair(pair, max_tokens, WHO)
        if max_tokens is not None and not mixup:
            raise ValueError(
                f"{WHO}: max_tokens is {max_tokens}, but mixup is off, and single sentences are read whole; leave it out"
            )
        self.mixup, self.pair, self.max_tokens, self.exclude_same = mixup, pair, max_tokens, exclude_same
        self.hiding, self.pooling = Hiding("token", rate, keep=0.1, random=0.1), pooling
        self.register_buffer("moves", torch.zeros((), dtype=torch.int64))
        self._waiting: list[Rows] = []

    def connect(self, encoder: Encoder) -> None:
        """Copy the encoder and build the projection.

        Raises:
            ValueError: The encoder reads no text, none as long as `max_tokens`, too short ones for a pair, or has fewer blocks
                than `layer`.
        """
        if "text" not in encoder.widths or encoder.vocabulary is None:
            raise ValueError(
                f"{WHO} needs an encoder that reads text; {type(encoder).__name__} reads {', '.join(encoder.widths)}"
            )
        if encoder.layers is not None and self.layer > encoder.layers:
            raise ValueError(
                f"{WHO}: layer is {self.layer}, but {type(encoder).__name__} has {encoder.layers} blocks; "
                f"set layer to 0 (before the first) to {encoder.layers} (after the last)"
            )
        self.vocabulary, self.width = encoder.vocabulary, encoder.widths["text"]
        self.joining = Joining.of(encoder, self.pair, WHO, self.max_tokens) if self.mixup else None
        self.projection = nn.Linear(self.width, self.width, bias=False)
        initialize(self.projection)
        self.slow, self.slow_projection = MomentumCopy(encoder), MomentumCopy(self.projection)
        self.queue = KeyQueue(self.size, self.width, columns=6 if self.mixup else 3)

    def lend(self, view: Batch) -> Batch | None:
        return translated(view) if self.mixup else None

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        """The pairs, of which `text` becomes the query and `translation` the key, with tokens hidden; mixed, the second half
        of the rows are those that join the first: their texts stay apart until they are read, as does what is hidden.

        Raises:
            ValueError: The source reads no translation.
        """
        refuse_single(view, WHO)
        own = translated(view)
        if self.mixup:
            pool = own if pool is None else pool
            own = mix_pairs(own, pool, self._draw(own, MIX), self._draw(pool, MIX))
        lead, copies = self._lead(own), 2 if self.mixup else 1
        text, translation = swap_texts(own.text, own.translation, self._draw(lead, DIRECTION).repeat(copies) < 0)
        texts = {"text": text, "translation": translation}
        hidden = {
            name: hide_tokens(one, self._draw(own, salt(name)), self.hiding, self.vocabulary) for name, one in texts.items()
        }
        return own._replace(**hidden)

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        """Rows to be compared; none while there is nothing in the queue to compare them with."""
        rows = 0 if self.cold else self._lead(marked).size
        return torch.tensor(rows, device=marked.item.device)

    def read(self, encoder: Encoder, marked: Batch) -> Sides:
        """One reading of the queries, and one of the keys by the slow encoder."""
        return Sides(self._embed(encoder, self.projection, marked, "text"), self._keys(marked))

    def loss(self, states: Sides, marked: Batch) -> Loss:
        if self.cold:
            return Loss(states.query[:0].sum(), self.count(marked))
        rows = self._rows(states.key, marked)
        if self.training:
            self._waiting.append(rows)
        with torch.autocast(states.query.device.type, enabled=False):
            positive = (states.query * states.key).sum(1, keepdim=True)
            negative = states.query @ self.queue.keys.T
            if self.exclude_same:
                negative = negative.masked_fill(self.queue.shares(rows.numbers[:, 1:]), -torch.inf)
            scores = torch.cat([positive, negative], 1) / self.temperature  # [N, 1 + K]: the key is class 0
            total = F.cross_entropy(scores, torch.zeros_like(rows.numbers[:, 0]), reduction="sum")
        return Loss(total, self.count(marked))

    @torch.no_grad()
    def after_step(self, encoder: Encoder) -> None:
        self._push(self._waiting)
        self._waiting = []
        self.moves += 1
        self._follow(encoder, self.momentum.at(int(self.moves)))

    @property
    def cold(self) -> bool:
        return not self.queue.full

    @torch.no_grad()
    def warm_up(self, encoder: Encoder, steps: Iterable[Sequence[Batch]]) -> None:
        """Fill the queue with keys of the run's first steps, by the encoder as it is before them; a run too short to fill it
        fills it with what it has, over and over.

        Raises:
            ValueError: There is no pair in any step.
        """
        self._follow(encoder, 0.0)
        for number, marked in enumerate(steps, 1):
            self._push([self._rows(self._keys(one), one) for one in marked])
            if not self.cold:
                return
            if number == PATIENCE and not int(self.queue.filled):
                break
        found = int(self.queue.filled)
        if not found:
            raise ValueError(
                f"{WHO}: the steps of this run hold no text with a translation to fill the queue with; does the source of its "
                "pass read both (`text` and `translation` of data.sources)?"
            )
        log.warning(
            "%s: the steps of this run hold only %d keys, which are repeated to fill the queue of %d; set `queue` to a smaller "
            "number, or train longer",
            WHO,
            found,
            self.size,
        )
        self.queue.repeat()

    def _follow(self, encoder: Encoder, momentum: float) -> None:
        self.slow.follow(encoder, momentum)
        self.slow_projection.follow(self.projection, momentum)

    def _draw(self, pairs: Batch, purpose: int) -> Int64[Tensor, "B"]:
        return chance(self.key, salt(pairs.source), pairs.epoch, pairs.sample, purpose)

    def _lead(self, marked: Batch) -> Batch:
        """The rows that the others join: one for each that is compared."""
        return take(marked, torch.arange(marked.size // 2, device=marked.item.device)) if self.mixup else marked

    def _keys(self, marked: Batch) -> Float[Tensor, "N D"]:
        return self._embed(self.slow, self.slow_projection, marked, "translation")

    def _embed(
        self, encode: Callable[..., States], project: Callable[[Tensor], Tensor], marked: Batch, side: str
    ) -> Float[Tensor, "N D"]:
        """Projected, pooled states of one side, in float32."""
        lead = self._lead(marked)
        if not lead.size:
            return project(self.projection.weight.new_zeros(0, self.width)).float()
        text = self._sentence(getattr(marked, side), lead, ORDERS[side])
        states = encode(lead._replace(text=text, translation=None), keep=(self.layer,)).layers[self.layer].text
        vectors = project(pool(states, text.present, self.pooling)).float()
        return F.normalize(vectors, dim=1) if self.normalize else vectors

    def _sentence(self, text: Text, lead: Batch, purpose: int) -> Text:
        """What is read: the text with what is hidden of it, joined to that of the row that follows, in an order of its own."""
        text = text._replace(tokens=text.read, shown=None, hidden=None)
        if not self.mixup:
            return text
        ends = torch.arange(2 * lead.size, device=text.present.device).split(lead.size)
        first, second = swap_texts(*(take(text, rows) for rows in ends), self._draw(lead, purpose) < 0)
        return self.joining.join(first, second)

    def _rows(self, key: Float[Tensor, "N D"], marked: Batch) -> Rows:
        """Keys with their numbers: items and texts that they are about, whichever text is the key."""
        if not marked.size:
            return Rows(key.detach(), marked.item.new_zeros(0, 1 + self.queue.identity.shape[1]))
        texts = [text_identity(text) for text in (marked.text, marked.translation)]
        about = torch.stack([chance(salt(marked.source), marked.item), *texts], 1)
        lead = self._lead(marked)
        if self.mixup:
            own, other = about.split(lead.size)
            alone = ~marked.text.present.any(1)[lead.size :]
            about = torch.cat([own, torch.where(alone[:, None], own, other)], 1)
        return Rows(key.detach(), torch.cat([self._draw(lead, PLACE)[:, None], about], 1))

    def _push(self, rows: Sequence[Rows]) -> None:
        """Push the keys of all ranks, in an order that does not depend on how the step was split."""
        none = Rows(self.queue.keys[:0], torch.cat([self.queue.pointer.expand(0, 1), self.queue.identity[:0]], 1))
        key, numbers = (gather_rows(torch.cat(parts))[0] for parts in zip(none, *rows, strict=True))
        order = numbers[:, 0].argsort(stable=True)
        self.queue.push(key[order], numbers[order, 1:])
