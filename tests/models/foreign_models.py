"""Tiny models of Hugging Face, one a family, without two weights alike; ours with their weights; texts both can read."""

import tiny
import torch

from interlingua.modalities.batch import Text
from interlingua.modalities.vocabulary import Vocabulary
from interlingua.models.conversion import Conversion, convert
from interlingua.models.families import FAMILIES
from interlingua.models.foreign_weights import Foreign
from interlingua.models.heads import TokenHead
from interlingua.models.loading import load_foreign
from interlingua.models.presets import Size
from interlingua.models.pretrained import make_head, make_tower
from interlingua.models.towers import TextTower

NAMES = tuple(FAMILIES)
SIZE = Size(32, 3, 4, 64)
XLM_SIZE = Size(32, 3, 4)  # its feed-forward layer is always four times as wide
LANGUAGES = 3
TOKENS = 40
SIZES = {"vocab_size": 110, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
ROBERTA = {"pad_token_id": 1, "type_vocab_size": 1, "max_position_embeddings": TOKENS + 2, "layer_norm_eps": 1e-5}
"""Not the defaults of `XLMRobertaConfig`, which are those of no published model."""
VOCABULARIES = {
    "bert": Vocabulary(110, 0, 100, 101, 102, 103),
    "xlm-roberta": Vocabulary(110, 1, 3, 0, 2, 109),
    "xlm-roberta-xl": Vocabulary(110, 1, 3, 0, 2, 109),
    "xlm": Vocabulary(110, 2, 3, 1, 1, 5),
}


def configuration(name: str, **options):
    """A configuration without dropout."""
    import transformers

    if name == "bert":
        return transformers.BertConfig(**{**SIZES, **NO_DROPOUT, "max_position_embeddings": TOKENS, **options})
    if name == "xlm":
        sizes = {"vocab_size": 110, "emb_dim": 32, "n_layers": 3, "n_heads": 4, "max_position_embeddings": TOKENS}
        rates = {"dropout": 0.0, "attention_dropout": 0.0}
        return transformers.XLMConfig(**{**sizes, **rates, "n_langs": LANGUAGES, **options})
    kind = transformers.XLMRobertaConfig if name == "xlm-roberta" else transformers.XLMRobertaXLConfig
    return kind(**{**SIZES, **NO_DROPOUT, **ROBERTA, **options})


def reference(family: str, class_name: str | None = None, **options):
    """Hugging Face's model of a family, in evaluation mode; with a token head if no other class is named."""
    import transformers

    torch.manual_seed(0)
    model = getattr(transformers, class_name or FAMILIES[family].classes[0])(configuration(family, **options)).eval()
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, std=0.2)
        if "norm" in name.lower() and name.endswith("weight"):  # else states shrink, and hide what is wrong
            parameter.data.add_(1)
    return model


def tower(name: str, **options) -> TextTower:
    """Our tower of the same sizes, with weights of its own."""
    given = {"max_tokens": TOKENS, "dropout": 0.0, "attention_dropout": 0.0, **options}
    if name == "xlm":
        given = {"languages": LANGUAGES, "size": XLM_SIZE, **given}
    return FAMILIES[name].preset(given.pop("vocabulary", VOCABULARIES[name]), **{"size": SIZE, **given}).eval()


def ours(name: str, model) -> tuple[TextTower, TokenHead]:
    """Our tower and head with a model's weights, in its precision."""
    dtype = next(model.parameters()).dtype
    made = tower(name).to(dtype)
    head = made.token_head("text").to(dtype).eval()
    load_foreign(made, model.state_dict(), FAMILIES[name], head)
    return made, head


def text(name: str, left: bool = False) -> Text:
    """Pairs in two languages, of three lengths; where the family has it so, positions restart with the second half."""
    made = tiny.text([8, 13, 4], 14, left=left, vocabulary=VOCABULARIES[name])
    second = made.present & (made.position >= 3)
    position = torch.where(second, made.position - 3, made.position) if name == "xlm" else made.position
    return made._replace(segment=second.long(), language=1 + second.long(), position=position)


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    """Largest difference, as a share of the largest value."""
    return float(((one - other).abs().max() / other.abs().max()).detach())


def foreign(name: str, weights: dict | None = None, **facts) -> Foreign:
    """A family's tiny model as if it had been read, other weights or facts in their place."""
    weights = reference(name).state_dict() if weights is None else weights
    return Foreign(weights, {**configuration(name).to_dict(), **facts}, "config.json", {})


def outputs(converted: Conversion, name: str) -> torch.Tensor:
    """Scores of the text by what came of a conversion; its states where there is no head."""
    tower = make_tower(converted.pretrained)
    head, line = make_head(converted.pretrained, tower), text(name)
    with torch.no_grad():
        states = tower.encode(line)[0][line.present]
        return states if head is None else head(states)


def expected(name: str) -> torch.Tensor:
    """Scores of the text by the tiny model."""
    line, (tower, head) = text(name), ours(name, reference(name))
    with torch.no_grad():
        return head(tower.encode(line)[0][line.present])


def convert_as(name: str, source: Foreign, **options) -> Conversion:
    """Read a tiny model; its vocabulary is too small for BERT's published ids."""
    return convert(source, FAMILIES[name], ids={"unknown": 100, "mask": 103} if name == "bert" else None, **options)
