"""Single and dual streams of text and regions: a training step of ours against Hugging Face's, same weights, batch and marks.

    python benchmarks/vision_language.py
    python benchmarks/vision_language.py --size base

VisualBERT with MLM and image-text matching, LXMERT with these and its three losses over regions (classes and attributes of all
regions weighted by confidence, features of hidden ones over all regions); 36 regions of 2,048 numbers, texts of 8 to 20 tokens
padded to 20, vocabulary 30,522, dropout 0, fused AdamW on both sides, one thread. `small`: 6 layers x 256, and 4 of text, 2 of
regions and 2 between, batch 32; `base`: 12 x 768, and 9, 5 and 5, batch 8. The peer is a bare loop over a batch that is marked
already; ours is `Pretraining` in Lightning's loop, marking included. The losses are compared first.
"""

import argparse
import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping

import torch
import transformers
from lightning import Trainer
from measure import Interleaved, Products, ratio

from interlingua.modalities.batch import Batch, Regions, Step, Text, number_positions
from interlingua.modalities.vocabulary import Vocabulary
from interlingua.models import fused_layouts
from interlingua.models.fused import Fused
from interlingua.models.fused_presets import lxmert, visualbert
from interlingua.models.layouts import strip_prefixes, translate
from interlingua.models.loading import load_whole
from interlingua.models.presets import Size, bert
from interlingua.models.region_head import RegionHead
from interlingua.tasks.objectives.image_text_matching import ImageTextMatching
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.masked_region_classification import MaskedRegionClassification
from interlingua.tasks.objectives.masked_region_features import MaskedRegionFeatures
from interlingua.tasks.objectives.objective import Objective
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining
from interlingua.tasks.reading import mark_pass

VOCABULARY, TOKENS, REGIONS, FEATURES, CLASSES, ATTRIBUTES = 30_522, 20, 36, 2048, 1600, 400
WIDTHS = {"small": (256, 4, 1024), "base": (768, 12, 3072)}
"""Width, heads and feed-forward."""
BATCH = {"small": 32, "base": 8}
LAYERS = {"small": {"visualbert": (6,), "lxmert": (4, 2, 2)}, "base": {"visualbert": (12,), "lxmert": (9, 5, 5)}}
"""Of one stream; of text, of regions, and between."""


def make_batch(size: int, seed: int = 0) -> Batch:
    """Captions of random tokens with regions of random features; each of an item of its own."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(8, TOKENS + 1, (size,), generator=generator)
    lengths[0] = TOKENS
    present = torch.arange(TOKENS)[None] < lengths[:, None]
    tokens = torch.randint(200, VOCABULARY, present.shape, generator=generator) * present
    position = number_positions(present)
    ends = (position == 0) | (position == lengths[:, None] - 1)
    zeros, numbers = torch.zeros_like(tokens), torch.arange(size)
    text = Text(tokens, present, zeros, torch.where(present & ~ends, position, -1), zeros, zeros, position)
    corners = torch.rand(size, REGIONS, 2, 2, generator=generator).sort(2).values.flatten(2)
    regions = Regions(
        torch.randn(size, REGIONS, FEATURES, generator=generator).relu(),
        corners,
        torch.ones(size, REGIONS, dtype=torch.bool),
        label=torch.randint(CLASSES, (size, REGIONS), generator=generator),
        confidence=torch.rand(size, REGIONS, generator=generator),
        attribute=torch.randint(ATTRIBUTES, (size, REGIONS), generator=generator),
        attribute_confidence=torch.rand(size, REGIONS, generator=generator),
    )
    return Batch("captions", numbers, numbers, torch.zeros_like(numbers), text=text, regions=regions)


class Peer:
    """Hugging Face's VisualBERT or LXMERT for pretraining."""

    def __init__(self, name: str, size: str):
        torch.manual_seed(0)
        width, heads, inner = WIDTHS[size]
        options = {
            "vocab_size": VOCABULARY,
            "hidden_size": width,
            "num_attention_heads": heads,
            "intermediate_size": inner,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        }
        self.name, layers = name, LAYERS[size][name]
        if name == "visualbert":
            config = transformers.VisualBertConfig(**options, num_hidden_layers=layers[0], visual_embedding_dim=FEATURES)
            self.model = transformers.VisualBertForPreTraining(config).train()
        else:
            options |= dict(zip(("l_layers", "r_layers", "x_layers"), layers, strict=True))
            options |= {"num_object_labels": CLASSES, "num_attr_labels": ATTRIBUTES, "task_qa": False}
            self.model = transformers.LxmertForPreTraining(transformers.LxmertConfig(**options)).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)

    def loss(self, marked: Batch) -> torch.Tensor:
        text, regions = marked.text, marked.regions
        labels, matched = text.tokens.where(text.hidden, -100), marked.matched.long()
        words = {"input_ids": text.read, "attention_mask": text.present.long(), "token_type_ids": text.segment}
        if self.name == "visualbert":
            labels = torch.cat([labels, labels.new_full((len(labels), REGIONS), -100)], 1)
            seen = {"visual_embeds": regions.read, "visual_attention_mask": regions.present.long()}
            return self.model(**words, **seen, labels=labels, sentence_image_labels=matched).loss
        told = {
            "obj": (regions.label, regions.confidence),
            "attr": (regions.attribute, regions.attribute_confidence),
            "feat": (regions.features, regions.hidden.float()),
        }
        seen = {"visual_feats": regions.read, "visual_pos": regions.boxes}
        return self.model(**words, **seen, labels=labels, matched_label=matched, obj_labels=told).loss

    def step(self, marked: Batch) -> None:
        self.loss(marked).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


class Ours:
    """Our encoder and objectives with the peer's weights, as `interlingua fit` trains them."""

    def __init__(self, name: str, size: str, peer: Peer):
        layers = LAYERS[size][name]
        if name == "visualbert":
            encoder = visualbert(self._tower(size, layers[0]), FEATURES, f"{layers[0]} joint")
        else:
            text, picture, cross = layers
            plan = f"{text} text, {picture} picture, {cross} x {fused_layouts.LXMERT_PART}"
            encoder = lxmert(self._tower(size, text + cross), FEATURES, plan)
        objectives: dict[str, Objective] = {"itm": ImageTextMatching(), "mlm": MaskedLanguage()}
        if name == "lxmert":
            ways = {"hiding": "lxmert", "weight": 6.67}  # their 1 / 0.15, rounded
            objectives |= {
                "classes": MaskedRegionClassification(CLASSES, over="all_weighted", **ways),
                "attributes": MaskedRegionClassification(ATTRIBUTES, "attributes", over="all_weighted", **ways),
                "features": MaskedRegionFeatures("smooth_l1", "all_features", **ways),
            }
        optimization = Optimization(learning_rate=1e-4, schedule="constant")
        self.module = Pretraining(encoder, objectives, {"captions": [list(objectives)]}, optimization)
        self._fill(name, encoder, objectives, peer)

    @staticmethod
    def _tower(size: str, layers: int):
        width, heads, inner = WIDTHS[size]
        return bert(Vocabulary(VOCABULARY), Size(width, layers, heads, inner), dropout=0.0, attention_dropout=0.0)

    @staticmethod
    def _fill(name: str, encoder: Fused, objectives: Mapping[str, Objective], peer: Peer) -> None:
        layout = getattr(fused_layouts, name)(encoder)
        weights = translate(strip_prefixes(peer.model.state_dict(), layout), layout).weights

        def below(start: str) -> dict[str, torch.Tensor]:
            return {key.removeprefix(start): one for key, one in weights.items() if key.startswith(start)}

        load_whole(encoder, below("encoder."), name)
        load_whole(objectives["mlm"].head, below("head."), "head")
        load_whole(objectives["itm"].head, below("matching."), "matching")
        for ours, theirs in (("classes", "obj"), ("attributes", "attr"), ("features", "feat")):
            if ours in objectives:
                _fill_region_head(objectives[ours].head, peer.model.obj_predict_head, theirs)

    def mark(self, batch: Batch) -> Batch:
        """What a training step will read of the batch."""
        return mark_pass(self.module.plan[0], [batch], self.module.objectives).marked[0]

    def loss(self, marked: Batch) -> torch.Tensor:
        states = self.module.encoder(marked)
        losses = {name: one.loss(states, marked) for name, one in self.module.objectives.items()}
        return sum(self.module.objectives[name].weight * one.total / one.count for name, one in losses.items())

    def fit(self, steps: Iterable[Step], count: int) -> None:
        """Train on `count` steps."""
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
        Trainer(accelerator="cpu", devices=1, max_steps=count, **quiet).fit(self.module, steps)


def _fill_region_head(head: RegionHead, theirs: torch.nn.Module, part: str) -> None:
    head.dense.load_state_dict(theirs.transform.dense.state_dict())
    head.norm.load_state_dict(theirs.transform.LayerNorm.state_dict())
    head.output.load_state_dict(theirs.decoder_dict[part].state_dict())


def compare(name: str, size: str, rounds: int) -> dict[str, float]:
    peer = Peer(name, size)
    ours, batch = Ours(name, size, peer), make_batch(BATCH[size])
    marked = ours.mark(batch)
    with torch.no_grad():
        losses = [float(one.loss(marked)) for one in (peer, ours)]
    if abs(losses[0] - losses[1]) > 2e-5 * max(1.0, losses[0]):
        raise SystemExit(f"{name}: the losses differ, so the times would mean nothing: {losses}")
    width, _, inner = WIDTHS[size]
    products = Products(2048, width, inner)
    peers: dict[str, Callable[[], None]] = {"peer": lambda: peer.step(marked), "products": products}
    turns = Interleaved(Step(0, (batch,)), peers, rounds)
    ours.fit(turns, rounds + 2)
    return {
        "loss": losses[1],
        "against peer": ratio(turns.seconds["peer"], turns.seconds["ours"]),
        "parameters, peer (M)": sum(one.numel() for one in peer.model.parameters()) / 1e6,
        "parameters, ours (M)": sum(one.numel() for one in ours.module.parameters()) / 1e6,
        "tokens filled": float(marked.text.present.float().mean()),
    }


def profile(name: str, size: str, steps: int = 3) -> None:
    """Print which operations the time of our steps goes to."""
    ours, step = Ours(name, size, Peer(name, size)), Step(0, (make_batch(BATCH[size]),))
    ours.fit(Interleaved(step, {}, 0), 2)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        ours.fit(Interleaved(step, {}, steps - 2), steps)
    print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=15, max_name_column_width=60))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=WIDTHS, default="small", help="of the layers (and the batch)")
    parser.add_argument("--model", choices=("visualbert", "lxmert"), help="one of the two; without it both")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; ratios are medians over them")
    parser.add_argument("--profile", action="store_true", help="show which operations our time goes to, and no comparison")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module="lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    for name in (arguments.model,) if arguments.model else ("visualbert", "lxmert"):
        if arguments.profile:
            profile(name, arguments.size)
            continue
        print(f"{name}, {arguments.size}", file=sys.stderr)
        found = compare(name, arguments.size, arguments.rounds)
        print(f"{name}, {arguments.size}")
        for key, value in found.items():
            print(f"  {key:22} {value:10.2f}")


if __name__ == "__main__":
    main()
