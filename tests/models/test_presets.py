"""Families of text towers: as many parameters as the published models, in the published shapes, built without memory."""

import pytest
import tiny
import torch

from interlingua.modalities.batch import Batch
from interlingua.modalities.vocabulary import Vocabulary
from interlingua.models import presets
from interlingua.models.presets import Size

transformers = pytest.importorskip("transformers")

MBERT = Vocabulary(119_547, 0, 100, 101, 102, 103)
XLMR = Vocabulary(250_002, pad=1, unknown=3, start=0, end=2, mask=250_001)


def xlm_vocabulary(size: int) -> Vocabulary:
    return Vocabulary(size, pad=2, unknown=3, start=1, end=1, mask=5)


def config_roberta(kind, width, layers, heads):
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": 4 * width}
    return kind(vocab_size=250_002, max_position_embeddings=514, type_vocab_size=1, pad_token_id=1, **sizes)


def config_xlm(vocabulary, width, layers, heads, languages):
    sizes = {"emb_dim": width, "n_layers": layers, "n_heads": heads, "n_langs": languages}
    return transformers.XLMConfig(vocab_size=vocabulary, max_position_embeddings=512, **sizes)


PUBLISHED = {
    "mbert": (
        lambda: presets.bert(MBERT),
        lambda: transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=119_547)),
        177_974_523,
    ),
    "xlm-r base": (
        lambda: presets.xlm_roberta(XLMR),
        lambda: transformers.XLMRobertaForMaskedLM(config_roberta(transformers.XLMRobertaConfig, 768, 12, 12)),
        278_295_186,
    ),
    "xlm-r large": (
        lambda: presets.xlm_roberta(XLMR, "large"),
        lambda: transformers.XLMRobertaForMaskedLM(config_roberta(transformers.XLMRobertaConfig, 1024, 24, 16)),
        560_142_482,
    ),
    "xlm-r xl": (
        lambda: presets.xlm_roberta_xl(XLMR),
        lambda: transformers.XLMRobertaXLForMaskedLM(config_roberta(transformers.XLMRobertaXLConfig, 2560, 36, 32)),
        3_480_493_202,
    ),
    "xlm-15": (
        lambda: presets.xlm(xlm_vocabulary(95_000), 15),
        lambda: transformers.XLMWithLMHeadModel(config_xlm(95_000, 1024, 12, 8, 15)),
        249_071_384,
    ),
    "xlm-100": (
        lambda: presets.xlm(xlm_vocabulary(200_000), 100, "xlm-100"),
        lambda: transformers.XLMWithLMHeadModel(config_xlm(200_000, 1280, 16, 16, 100)),
        571_824_960,
    ),
}
"""Ours, Hugging Face's with its masked language head, and the number of its parameters (publications round it: 278 M, 560 M,
3.5 B, 249 M, 570 M)."""


def parameters(*modules) -> int:
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


@pytest.mark.parametrize("name", PUBLISHED)
def test_as_many_parameters_as_the_published_model(name):
    build, reference, number = PUBLISHED[name]
    with torch.device("meta"):
        tower, theirs = build(), reference()
        head = tower.token_head("text")
    assert parameters(theirs) == number
    assert parameters(tower, head) == number
    assert tower.max_tokens == 512


def test_shared_layers_and_factorised_tables_take_the_parameters_of_albert():
    with torch.device("meta"):
        tower = presets.bert(Vocabulary(30_000), factor=128, distinct=1)
        theirs = transformers.AlbertModel(
            transformers.AlbertConfig(hidden_size=768, intermediate_size=3072, num_attention_heads=12), add_pooling_layer=False
        )
    assert parameters(tower) == parameters(theirs)


def test_a_size_that_is_none_is_refused():
    with pytest.raises(ValueError, match="not divisible by 4"):
        presets.bert(Vocabulary(100), Size(30, 2, 4))
    with pytest.raises(ValueError, match="size is 'huge'; expected base, or width, layers and heads"):
        presets._size("huge", {"base": presets.BASE})


def test_a_shared_block_is_read_as_often_as_there_are_layers_and_its_gradient_is_their_sum():
    shared = presets.bert(tiny.VOCABULARY, Size(32, 4, 4), 16, dropout=0.0, attention_dropout=0.0, distinct=2)
    apart = presets.bert(tiny.VOCABULARY, Size(32, 4, 4), 16, dropout=0.0, attention_dropout=0.0)
    apart.embeddings.load_state_dict(shared.embeddings.state_dict())
    for number, block in enumerate(apart.transformer.blocks):
        block.load_state_dict(shared.transformer.blocks[number // 2].state_dict())
    text = tiny.text([7, 5, 9])
    for tower in (shared, apart):
        tiny.encode(tower, text).square().sum().backward()
    torch.testing.assert_close(tiny.encode(shared, text), tiny.encode(apart, text))
    first, second = (block.attention.inward.weight.grad for block in apart.transformer.blocks[:2])
    torch.testing.assert_close(shared.transformer.blocks[0].attention.inward.weight.grad, first + second)
    batch = Batch("texts", *[torch.zeros(3, dtype=torch.int64)] * 3, text=text)
    assert sorted(shared(batch, keep=(3, 4)).layers) == [3, 4]


def test_one_segment_vector_serves_both_halves_of_a_pair():
    text = tiny.text([7, 5], vocabulary=Vocabulary(100, pad=1, unknown=3, start=0, end=2, mask=99))
    tower = presets.xlm_roberta(Vocabulary(100, pad=1, unknown=3, start=0, end=2, mask=99), Size(32, 1, 4), 16).eval()
    pair = text._replace(segment=(text.position > 2).long())
    torch.testing.assert_close(tiny.encode(tower, pair), tiny.encode(tower, text))


def test_lengths_are_in_tokens_whatever_the_table():
    tower = presets.xlm_roberta(Vocabulary(100, pad=3, unknown=1, start=0, end=2, mask=99), Size(32, 1, 4), 510)
    assert tower.embeddings.positions.num_embeddings == 514  # pitfall T02: table 514, pad 3
    tiny.encode(tower, tiny.text([510], vocabulary=tower.vocabulary))
    with pytest.raises(ValueError, match="text of 511 tokens, but this tower reads at most max_tokens = 510"):
        tiny.encode(tower, tiny.text([511], vocabulary=tower.vocabulary))
