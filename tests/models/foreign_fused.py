"""Fused encoders of others with tiny random weights, ours with the same weights, and what both read."""

import tiny
import torch
from foreign_models import NO_DROPOUT, SIZE, SIZES, TOKENS, VOCABULARIES, apart

from interlingua.modalities.batch import Batch, Regions
from interlingua.models import fused_layouts, fused_presets, presets
from interlingua.models.foreign_weights import Foreign
from interlingua.models.fused_pretrained import make_fused
from interlingua.models.layouts import Translation, strip_prefixes, translate
from interlingua.models.loading import load_whole
from interlingua.models.presets import Size

FEATURES, COUNTS = 24, (5, 3, 6)
IDS = {"bert": {"pad": 0, "unknown": 100, "start": 101, "end": 102, "mask": 103}, "roberta": {}}
"""Control ids: the vocabulary is too small for BERT's unknown and mask at their published places with others after them."""
PLANS = {"visualbert": "3 joint", "lxmert": "2 text, picture, 2 x (shared cross attention, own attention, own feed-forward)"}
BERT = {**SIZES, **NO_DROPOUT, "max_position_embeddings": TOKENS, "pad_token_id": 0}


def shake(model: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """The same with random weights everywhere, norms and biases too."""
    torch.manual_seed(seed)
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, std=0.2)
        if "norm" in name.lower() and name.endswith("weight"):  # else states shrink, and hide what is wrong
            parameter.data.add_(1)
    return model


def reference(name: str, **options):
    """Hugging Face's pretraining model, in evaluation mode."""
    import transformers

    if name == "visualbert":
        config = transformers.VisualBertConfig(**{**BERT, "visual_embedding_dim": FEATURES, **options})
        return shake(transformers.VisualBertForPreTraining(config)).eval()
    sizes = {"l_layers": 2, "r_layers": 1, "x_layers": 2, "visual_feat_dim": FEATURES, "num_qa_labels": 7}
    sizes |= {"num_object_labels": 11, "num_attr_labels": 5}
    given = {key: value for key, value in BERT.items() if key != "num_hidden_layers"}
    return shake(transformers.LxmertForPreTraining(transformers.LxmertConfig(**{**given, **sizes, **options}))).eval()


def tower(layers: int = 3, family: str = "bert", **options):
    size = Size(SIZE.width, layers, SIZE.heads, SIZE.inner)
    rates = {"dropout": 0.0, "attention_dropout": 0.0}
    build = presets.bert if family == "bert" else presets.xlm_roberta
    return build(VOCABULARIES[family], size, TOKENS, **rates, **options)


def build(name: str, **options):
    """Our encoder of the same sizes, with weights of its own."""
    layers = 4 if name == "lxmert" else 3
    return shake(getattr(fused_presets, name)(tower(layers), FEATURES, PLANS[name], **options)).eval()


def read_names(weights: dict, layout) -> Translation:
    return translate(strip_prefixes(weights, layout), layout)


def part(translation: Translation, name: str) -> dict:
    start = f"{name}."
    return {key.removeprefix(start): one for key, one in translation.weights.items() if key.startswith(start)}


def ours(name: str, model, **options):
    """Our encoder, token head and head of matching with a model's weights, in its precision."""
    dtype = next(model.parameters()).dtype
    encoder = build(name, **options).to(dtype)
    found = read_names(model.state_dict(), getattr(fused_layouts, name)(encoder))
    assert not found.missing
    load_whole(encoder, part(found, "encoder"), name)
    head, matching = encoder.token_head("text").to(dtype).eval(), torch.nn.Linear(encoder.widths["joint"], 2).to(dtype)
    load_whole(head, part(found, "head"), "head"), load_whole(matching, part(found, "matching"), "matching")
    return encoder, head, matching


def regions(counts=COUNTS, features=FEATURES, seed=3, dtype=torch.float32) -> Regions:
    """Regions of each sample, the last but one of the longest left out in the middle."""
    generator = torch.Generator().manual_seed(seed)
    longest = max(*counts, 1)
    present = torch.arange(longest)[None] < torch.tensor(counts)[:, None]
    present[-1, 1:2] = False
    corners = torch.rand(len(counts), longest, 2, 2, generator=generator, dtype=torch.float64).sort(2).values
    boxes = torch.cat([corners[:, :, 0], corners[:, :, 1]], 2) * present[..., None]
    values = torch.randn(len(counts), longest, features, generator=generator, dtype=torch.float64)
    return Regions((values * present[..., None]).to(dtype), boxes.to(dtype), present)


def batch(left=False, lengths=(8, 13, 4), counts=COUNTS, dtype=torch.float32, family="bert", segments=True) -> Batch:
    """Pairs of sentences of three lengths and regions of three numbers."""
    text = tiny.text(lengths, 14, left=left, vocabulary=VOCABULARIES[family])
    if segments:
        text = text._replace(segment=(text.present & (text.position >= 3)).long())
    return tiny.batch(lengths)._replace(text=text, regions=regions(counts, dtype=dtype))


def theirs(name: str, model, given: Batch):
    """What their model makes of a batch, which is padded on the right: their positions are counted over all places."""
    text, boxes = given.text, given.regions
    words = {"input_ids": text.tokens, "attention_mask": text.present.long(), "token_type_ids": text.segment}
    if name == "visualbert":
        return model(**words, visual_embeds=boxes.features, visual_attention_mask=boxes.present.long())
    mask = boxes.present.to(boxes.features.dtype)
    return model(**words, visual_feats=boxes.features, visual_pos=boxes.boxes, visual_attention_mask=mask)


def states_of(name: str, model, given: Batch):
    """States of text and regions, `[present, D]`, and the pooled vector."""
    body = model.base_model
    found = theirs(name, body, given)
    if name == "lxmert":
        text, picture, joint = found.language_output, found.vision_output, found.pooled_output
    else:
        length = given.text.tokens.shape[1]
        text, picture = found.last_hidden_state[:, :length], found.last_hidden_state[:, length:]
        joint = found.pooler_output
    return text[given.text.present], picture[given.regions.present], joint


def foreign(weights, facts, where="config.json") -> Foreign:
    """Weights and what is said about them, as if they had been read."""
    return Foreign(weights, facts, where, {})


def samples(given: Batch):
    """Of each sample: its row, token ids, segments, and the features and boxes of its regions."""
    for row in range(given.size):
        words, there = given.text.present[row], given.regions.present[row]
        yield (
            row,
            given.text.tokens[row, words],
            given.text.segment[row, words],
            *(getattr(given.regions, name)[row, there] for name in ("features", "boxes")),
        )


def agree(pretrained, reading, given):
    """The greatest difference to a reading by hand, of states and pooled vectors; and what was pooled by hand."""
    encoder = make_fused(pretrained)
    with torch.no_grad():
        states = encoder(given)
    differences, pooled = [], []
    for row, *sample in samples(given):
        text, picture, joint = reading.read(*sample)
        before, after = encoder.picture.before, len(picture) - encoder.picture.after
        differences += [
            apart(states.text[row, given.text.present[row]], text),
            apart(states.regions[row, given.regions.present[row]], picture[before:after]),
        ]
        if joint is not None:
            differences.append(apart(states.joint[row], joint))
            pooled.append(joint)
    return max(differences), pooled, states
