"""Masked language modelling: a training step of ours against Hugging Face's, with the same weights, batch and marks.

    python benchmarks/mlm.py --vocabulary 32k
    python benchmarks/mlm.py --vocabulary 250k --tuned

12 layers x 256, 4 heads, feed-forward 1024, dropout 0, lengths log-normal (median 24, sigma 0.7, 6 to 128), 15 % hidden,
fused AdamW on all sides, one thread. Two peers: Hugging Face as it comes (padded batch, logits everywhere), and a strong
one made by hand (sorted by length into 4 micro-batches, logits for hidden positions only). Ours is the `bert` preset in
`Pretraining`, trained by Lightning's loop: from the step's batch to the optimiser's step, marking included; the peers are bare
loops over a batch that is marked already. Losses are compared first.
"""

import argparse
import json
import logging
import warnings
from collections.abc import Iterable
from statistics import median

import torch
import torch.nn.functional as F
import transformers
from lightning import Trainer
from measure import Interleaved, Products, memory_of, ratio, resident, tune_allocator

from interlingua.modalities.batch import Batch, Step, Text, number_positions, take
from interlingua.modalities.vocabulary import Vocabulary
from interlingua.models.families import FAMILIES
from interlingua.models.loading import load_foreign
from interlingua.models.presets import Size, bert
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining
from interlingua.tasks.reading import mark_pass

WIDTH, LAYERS, HEADS, INNER, LONGEST = 256, 12, 4, 1024, 128
SIZES = {"32k": (32_000, 64), "250k": (250_002, 16)}
"""Vocabulary and batch."""


def make_batch(vocabulary: int, size: int, seed: int = 0) -> Batch:
    """Texts of random tokens with lengths as real ones have; padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    lengths = (24 * torch.exp(0.7 * torch.randn(size, generator=generator))).round().clamp(6, LONGEST).long()
    present = torch.arange(int(lengths.max()))[None] < lengths[:, None]
    tokens = torch.randint(5, vocabulary, present.shape, generator=generator) * present
    position = number_positions(present)
    ends = (position == 0) | (position == lengths[:, None] - 1)
    word = torch.where(present & ~ends, position, -1)
    zeros = torch.zeros_like(tokens)
    numbers = torch.arange(size)
    text = Text(tokens, present, zeros, word, zeros, zeros, position)
    return Batch("texts", numbers, numbers, torch.zeros_like(numbers), text=text)


class Peer:
    """Hugging Face's BERT for masked language modelling."""

    def __init__(self, vocabulary: int):
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=vocabulary,
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=INNER,
            max_position_embeddings=LONGEST,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        self.model = transformers.BertForMaskedLM(config).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)

    def loss(self, text: Text) -> torch.Tensor:
        labels = text.tokens.where(text.hidden, -100)
        return self.model(input_ids=text.read, attention_mask=text.present.long(), labels=labels).loss

    def hidden_loss(self, text: Text, count: int) -> torch.Tensor:
        """The same loss with logits for hidden positions only."""
        states = self.model.bert(input_ids=text.read, attention_mask=text.present.long()).last_hidden_state
        scores = self.model.cls(states[text.hidden])
        return F.cross_entropy(scores, text.tokens[text.hidden], reduction="sum") / count

    def step(self, text: Text) -> None:
        self.loss(text).backward()
        self._update()

    def strong_step(self, parts: list[Text], count: int) -> None:
        for part in parts:
            self.hidden_loss(part, count).backward()
        self._update()

    def _update(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()


class Ours:
    """Our text tower and objective, with the peer's weights, as `interlingua fit` trains them."""

    def __init__(self, vocabulary: int, peer: Peer | None = None):
        tower = bert(Vocabulary(vocabulary), Size(WIDTH, LAYERS, HEADS, INNER), LONGEST, dropout=0.0, attention_dropout=0.0)
        self.objective = MaskedLanguage()
        optimization = Optimization(learning_rate=1e-4, schedule="constant")
        self.module = Pretraining(tower, {"mlm": self.objective}, {"texts": [["mlm"]]}, optimization)
        if peer is not None:
            load_foreign(tower, peer.model.state_dict(), FAMILIES["bert"], self.objective.head)

    def mark(self, batch: Batch) -> Batch:
        """What a training step will read of the batch."""
        return mark_pass(self.module.plan[0], [batch], self.module.objectives).marked[0]

    def loss(self, marked: Batch) -> torch.Tensor:
        loss = self.objective.loss(self.objective.read(self.module.encoder, marked), marked)
        return loss.total / loss.count

    def fit(self, steps: Iterable[Step], count: int) -> None:
        """Train on `count` steps."""
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
        Trainer(accelerator="cpu", devices=1, max_steps=count, **quiet).fit(self.module, steps)


def by_length(text: Text, parts: int) -> list[Text]:
    """The strong peer's micro-batches: sorted by length, each cut to its longest."""
    order = text.present.sum(1).argsort()
    pieces = []
    for rows in order.chunk(parts):
        piece = take(text, rows)
        longest = int(piece.present.sum(1).max())
        pieces.append(Text(*(field[:, :longest] for field in piece)))
    return pieces


def useful_operations(text: Text, vocabulary: int) -> float:
    """Multiplications and additions of a step that no method can leave out: present tokens, hidden logits, three passes."""
    lengths = text.present.sum(1).double()
    linear = lengths.sum() * LAYERS * 2 * (4 * WIDTH**2 + 2 * WIDTH * INNER)
    attention = (lengths**2).sum() * LAYERS * 4 * WIDTH
    head = text.hidden.sum() * 2 * (WIDTH * vocabulary + WIDTH**2)
    return float(3 * (linear + attention + head))


def compare(name: str, rounds: int, tuned: bool) -> dict[str, float]:
    vocabulary, size = SIZES[name]
    if tuned:
        tune_allocator()
    batch = make_batch(vocabulary, size)
    peer = Peer(vocabulary)
    ours = Ours(vocabulary, peer)
    marked = ours.mark(batch)
    text, count = marked.text, int(marked.text.hidden.sum())
    parts = by_length(text, 4)
    with torch.no_grad():
        losses = [peer.loss(text), sum(peer.hidden_loss(part, count) for part in parts), ours.loss(marked)]
    if max(losses) - min(losses) > 1e-5:
        raise SystemExit(f"the losses differ, so the times would mean nothing: {[float(loss) for loss in losses]}")
    products = Products(2048, WIDTH, INNER)
    peers = {"peer": lambda: peer.step(text), "strong peer": lambda: peer.strong_step(parts, count), "products": products}
    turns = Interleaved(Step(0, (batch,)), peers, rounds)
    ours.fit(turns, rounds + 2)
    seconds = turns.seconds
    shares = zip(seconds["products"], seconds["ours"], strict=True)
    work = useful_operations(text, vocabulary) / products.operations
    return {
        "loss": float(losses[0]),
        "against peer": ratio(seconds["peer"], seconds["ours"]),
        "against strong peer": ratio(seconds["strong peer"], seconds["ours"]),
        "share of GEMM rate": work * median(gemm / step for gemm, step in shares),
        "GEMM GFLOP/s": products.operations / median(seconds["products"]) / 1e9,
        "filled": float(text.present.float().mean()),
    }


def profile(name: str, steps: int = 3) -> None:
    """Print which operations the time of our steps goes to."""
    vocabulary, size = SIZES[name]
    step, ours = Step(0, (make_batch(vocabulary, size),)), Ours(vocabulary)
    ours.fit(Interleaved(step, {}, 0), 2)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        ours.fit(Interleaved(step, {}, steps - 2), steps)
    print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=15, max_name_column_width=60))


def measure_memory(name: str, contender: str) -> float:
    """MiB that two steps of one contender take above the imports; in a process of its own."""
    vocabulary, size = SIZES[name]
    before = resident()
    batch = make_batch(vocabulary, size)
    if contender == "ours":
        Ours(vocabulary).fit(Interleaved(Step(0, (batch,)), {}, 0), 2)
    else:
        objective = MaskedLanguage()
        objective.connect(bert(Vocabulary(vocabulary), Size(8, 1, 1), 8))
        text = objective.mark(batch).text
        peer = Peer(vocabulary)
        parts, count = by_length(text, 4), int(text.hidden.sum())
        for _ in range(2):
            peer.step(text) if contender == "peer" else peer.strong_step(parts, count)
    return resident() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", choices=SIZES, default="32k", help="vocabulary (and batch) of the comparison")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; ratios are medians over them")
    parser.add_argument("--tuned", action="store_true", help="tune glibc's allocator, on all sides alike")
    parser.add_argument("--profile", action="store_true", help="show which operations our time goes to, and no comparison")
    parser.add_argument("--memory-of", choices=("peer", "strong", "ours"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module="lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    if arguments.memory_of:
        print(json.dumps({"memory": measure_memory(arguments.vocabulary, arguments.memory_of)}))
        return
    if arguments.profile:
        profile(arguments.vocabulary)
        return
    found = compare(arguments.vocabulary, arguments.rounds, arguments.tuned)
    for contender in ("peer", "strong", "ours"):
        found[f"MiB, {contender}"] = memory_of(__file__, "--vocabulary", arguments.vocabulary, "--memory-of", contender)
    found["memory against peer"] = found["MiB, peer"] / found["MiB, ours"]
    print(f"MLM-{arguments.vocabulary}{', allocator tuned' if arguments.tuned else ''}")
    for key, value in found.items():
        print(f"  {key:22} {value:10.2f}")


if __name__ == "__main__":
    main()
