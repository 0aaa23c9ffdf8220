"""Weights in Hugging Face's layout: all of them in their places, or a refusal that names what does not fit.

That the loaded towers compute the same is in `test_parity`.
"""

import pytest
import tiny
import torch

from interlingua.models.heads import TokenHead
from interlingua.models.pretrained import load_bert, load_bert_head
from interlingua.models.towers import TextTower

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def bert():
    """A `BertForMaskedLM` without two weights alike, in the sizes of `tiny`."""
    torch.manual_seed(0)
    model = transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=tiny.VOCABULARY.size,
            hidden_size=tiny.WIDTH,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=4 * tiny.WIDTH,
            max_position_embeddings=64,
            layer_norm_eps=1e-5,
        )
    ).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def tower(layers=2, norm="post", **options) -> TextTower:
    return TextTower(tiny.embeddings(**{"segments": 2, **options}), tiny.transformer(layers, norm=norm)).eval()


def test_tower_and_head_give_the_scores_of_the_masked_language_model(bert):
    ours, text = tower(), tiny.text([7, 12, 3])
    head = TokenHead(ours.tokens, tiny.WIDTH)
    load_bert(ours, bert.state_dict(), prefix="bert.")
    load_bert_head(head, bert.state_dict())
    with torch.no_grad():
        got = head(tiny.encode(ours, text)[text.present])
        want = bert(input_ids=text.tokens, attention_mask=text.present.long()).logits[text.present]
    assert (got - want).abs().max() < 1e-5 * want.abs().max()


def test_weights_are_copied_and_not_shared(bert):
    ours, weights = tower(), bert.state_dict()
    load_bert(ours, weights, prefix="bert.")
    before = weights["bert.embeddings.word_embeddings.weight"].clone()
    with torch.no_grad():
        ours.tokens.weight.zero_()
    assert torch.equal(weights["bert.embeddings.word_embeddings.weight"], before)


@pytest.mark.parametrize(
    ("build", "prefix", "named"),
    [
        (tower, "", r"parameters that the weights lack: embeddings\.tokens\.weight \(embeddings\.word_embeddings\.weight\)"),
        (lambda: tower(layers=3), "bert.", r"transformer\.blocks\.2\.attention\.inward\.weight \(bert\.encoder\.layer\.2"),
        (lambda: tower(languages=3), "bert.", r"embeddings\.languages\.weight \(no counterpart\)"),
        (lambda: tower(norm="pre"), "bert.", r"transformer\.norm\.weight \(no counterpart\)"),
        (lambda: tower(max_tokens=62), "bert.", r"position_embeddings\.weight give \(64, 32\), but TextTower has \(62, 32\)"),
        (lambda: tower(layers=1), "bert.", r"no place for bert\.encoder\.layer\.1\.[\w.]+, .* and 13 more"),
        (lambda: tower(segments=0), "bert.", r"no place for bert\.embeddings\.token_type_embeddings\.weight;"),
        (
            lambda: tower(norm="post", epsilon=1e-5, position_offset=2),
            "bert.",
            r"give \(64, 32\), but TextTower has \(66, 32\)",
        ),
    ],
    ids=["prefix", "more layers", "languages", "pre-norm", "positions", "fewer layers", "no segments", "offset"],
)
def test_what_does_not_fit_is_named_and_nothing_is_loaded(bert, build, prefix, named):
    ours = build()
    before = {name: weight.clone() for name, weight in ours.state_dict().items()}
    with pytest.raises(ValueError, match=named):
        load_bert(ours, bert.state_dict(), prefix)
    assert all(torch.equal(weight, before[name]) for name, weight in ours.state_dict().items())


def test_poolers_and_position_ids_are_left_aside(bert):
    """Older files hold the numbers of the positions as a buffer."""
    weights = bert.state_dict() | {
        "bert.embeddings.position_ids": torch.arange(64)[None],
        "bert.pooler.dense.bias": torch.zeros(32),
    }
    load_bert(tower(), weights, prefix="bert.")


def test_a_head_without_its_weights_is_refused(bert):
    weights = {name: weight for name, weight in bert.state_dict().items() if "transform.dense" not in name}
    with pytest.raises(ValueError, match=r"dense\.weight \(cls\.predictions\.transform\.dense\.weight\)"):
        load_bert_head(TokenHead(tower().tokens, tiny.WIDTH), weights)
