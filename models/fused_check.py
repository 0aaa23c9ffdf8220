"""A fused encoder against Hugging Face's own class with the same weights: proof by outputs, not by names."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..modalities.batch import Batch, Regions, Text, number_positions
from .forward_check import TOLERANCE
from .fused import Fused
from .fused_pretrained import make_heads
from .pretrained import Pretrained


@torch.no_grad()
def compare_fused(encoder: Fused, weights: Pretrained | Mapping[str, Tensor], theirs: nn.Module, kind: str) -> dict[str, float]:
    """Read the same random tokens and regions by both, in float32 and without dropout, with padding on the right.

    Args:
        encoder: Ours, filled.
        weights: Those of its heads, by our names.
        theirs: Hugging Face's model.
        kind: `visualbert` or `lxmert`.

    Returns:
        Largest differences, as a share of the largest value: of text, regions, the joint vector, and of scores and matching
        where there are such heads.

    Raises:
        ValueError: They differ by more than `TOLERANCE`.
    """
    kept = weights if isinstance(weights, Pretrained) else Pretrained(kind, {}, dict(weights))
    encoder, theirs = encoder.float().eval(), theirs.float().eval()
    head, matching = make_heads(kept, encoder)
    batch = _draw(encoder)
    states, there = encoder(batch), batch.text.present
    given = _make_inputs(batch, kind)
    found = _name_outputs(theirs.base_model(**given), kind, there.shape[1])
    mine = {"text": states.text[there], "regions": states.regions[batch.regions.present], "joint": states.joint}
    want = {"text": found[0][there], "regions": found[1][batch.regions.present], "joint": found[2]}
    if head is not None and matching is not None and theirs is not theirs.base_model:
        told = theirs(**given)
        mine |= {"scores": head.float()(states.text[there]), "matching": matching.float()(states.joint)}
        pairs = told["seq_relationship_logits"].flip(1) if kind == "visualbert" else told["cross_relationship_score"]
        want |= {"scores": told["prediction_logits"][:, : there.shape[1]][there], "matching": pairs}
    apart = {name: float((one - want[name]).abs().max() / want[name].abs().max()) for name, one in mine.items()}
    if not all(difference < TOLERANCE for difference in apart.values()):  # so that NaN does not agree
        told = ", ".join(f"{name} {difference:.1e}" for name, difference in apart.items())
        raise ValueError(
            f"the converted encoder does not compute what {type(theirs).__name__} does; largest differences, as a share of the "
            f"largest value: {told}; expected less than {TOLERANCE:.0e}"
        )
    return apart


def _make_inputs(batch: Batch, kind: str) -> dict[str, Tensor]:
    text, regions = batch.text, batch.regions
    words = {"input_ids": text.tokens, "attention_mask": text.present.long(), "token_type_ids": text.segment}
    if kind == "visualbert":
        return {**words, "visual_embeds": regions.features, "visual_attention_mask": regions.present.long()}
    mask = regions.present.float()
    return {**words, "visual_feats": regions.features, "visual_pos": regions.boxes, "visual_attention_mask": mask}


def _name_outputs(told: Any, kind: str, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """States of text and regions, and the pooled vector."""
    if kind == "lxmert":
        return told.language_output, told.vision_output, told.pooled_output
    return told.last_hidden_state[:, :length], told.last_hidden_state[:, length:], told.pooler_output


def _draw(encoder: Fused) -> Batch:
    """Two samples: texts of two lengths, with regions of two numbers."""
    generator, vocabulary = torch.Generator().manual_seed(0), encoder.vocabulary
    longest = min(24, encoder.max_tokens)
    present = torch.arange(longest)[None] < torch.tensor([[longest], [1 + longest // 2]])
    tokens = torch.randint(vocabulary.size - 1, present.shape, generator=generator)
    tokens = (tokens + (tokens >= vocabulary.pad).long()).where(present, torch.tensor(vocabulary.pad))
    zeros = torch.zeros_like(tokens)
    segment = torch.randint(encoder.text.embeddings.segments.num_embeddings, present.shape, generator=generator)
    text = Text(tokens, present, zeros, zeros - 1, segment, zeros, number_positions(present))
    boxes = torch.rand(2, 6, 2, 2, generator=generator).sort(2).values.flatten(2)
    there = torch.arange(6)[None] < torch.tensor([[6], [4]])
    regions = Regions(torch.randn(2, 6, encoder.picture.features, generator=generator), boxes, there)
    numbers = torch.arange(2)
    return Batch("check", numbers, numbers, 0 * numbers, text=text, regions=regions)
