"""Checkpoints of UNITER's and ViLBERT's released code against their formulas over the very tensors that were imported."""

import torch
from foreign_fused import FEATURES, IDS, agree, batch, foreign
from foreign_models import apart
from volta_by_hand import Draw, Reading

from interlingua.models.fused_conversion import convert_fused
from interlingua.models.fused_pretrained import make_fused, make_heads

UNITER = {"vocab_size": 110, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
UNITER |= {"max_position_embeddings": 40, "type_vocab_size": 2, "hidden_act": "gelu"}
VILBERT = {**UNITER, "num_hidden_layers": 3, "v_num_hidden_layers": 2, "v_hidden_size": 24, "v_num_attention_heads": 3}
VILBERT |= {"v_intermediate_size": 40, "v_feature_size": FEATURES, "bi_hidden_size": 20, "bi_num_attention_heads": 5}
VILBERT |= {"t_biattention_id": [1, 2], "v_biattention_id": [0, 1], "fusion_method": "mul"}


def draw_text(d, body, layers):
    for name, rows in (("word", 110), ("position", 40), ("token_type", 2)):
        d.table(f"{body}embeddings.{name}_embeddings", rows, 32)
    d.norm(f"{body}embeddings.LayerNorm", 32)
    for number in range(layers):
        draw_layer(d, f"{body}encoder.layer.{number}.", 32, 64)
    d.linear("cls.predictions.transform.dense", 32, 32), d.norm("cls.predictions.transform.LayerNorm", 32)
    d.weights["cls.predictions.bias"] = torch.zeros(110)
    d.same("cls.predictions.decoder", f"{body}embeddings.word_embeddings")


def draw_layer(d, before, width, inner):
    for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
        d.linear(before + name, width, width)
    d.linear(f"{before}intermediate.dense", width, inner), d.linear(f"{before}output.dense", inner, width)
    d.norm(f"{before}attention.output.LayerNorm", width), d.norm(f"{before}output.LayerNorm", width)


class Bert(Reading):
    """BERT's formulas over one sample without padding, by its names."""

    def words(self, body, ids, segments):
        e = f"{body}embeddings."
        rows = self.w[f"{e}word_embeddings.weight"][ids] + self.w[f"{e}position_embeddings.weight"][: len(ids)]
        return self.norm(f"{e}LayerNorm", rows + self.w[f"{e}token_type_embeddings.weight"][segments])

    def mix(self, query, key, value, heads):
        query, key, value = (one.unflatten(1, (heads, -1)).transpose(0, 1) for one in (query, key, value))
        shares = (query @ key.transpose(1, 2) / query.shape[2] ** 0.5).softmax(2)
        return (shares @ value).transpose(0, 1).flatten(1)

    def layer(self, before, states, heads):
        asked = (self.linear(f"{before}attention.self.{name}", states) for name in ("query", "key", "value"))
        found = self.linear(f"{before}attention.output.dense", self.mix(*asked, heads))
        states = self.norm(f"{before}attention.output.LayerNorm", states + found)
        return self.end(before, states, "")

    def end(self, before, states, mark):
        inner = torch.nn.functional.gelu(self.linear(f"{before}{mark}intermediate.dense", states))
        return self.norm(f"{before}{mark}output.LayerNorm", states + self.linear(f"{before}{mark}output.dense", inner))


class Uniter(Bert):
    def read(self, ids, segments, features, boxes):
        v = "uniter.img_embeddings."
        sides = boxes[:, 2:] - boxes[:, :2]
        places = torch.cat([boxes, sides, sides[:, :1] * sides[:, 1:]], 1)
        masked = (features == 0).all(1)  # zeroed and told of by `img_masks`
        features = features + self.w[f"{v}mask_embedding.weight"][masked.long()]
        both = self.norm(f"{v}img_layer_norm", self.linear(f"{v}img_linear", features))
        both = both + self.norm(f"{v}pos_layer_norm", self.linear(f"{v}pos_linear", places))
        picture = self.norm(f"{v}LayerNorm", both + self.w["uniter.embeddings.token_type_embeddings.weight"][1])
        states = torch.cat([self.words("uniter.", ids, segments), picture])
        for number in range(2):
            states = self.layer(f"uniter.encoder.layer.{number}.", states, 4)
        return states[: len(ids)], states[len(ids) :], torch.tanh(self.linear("uniter.pooler.dense", states[0]))


class Vilbert(Bert):
    """1 is the picture, 2 the text."""

    def read(self, ids, segments, features, boxes):
        v = "bert.v_embeddings."
        features = torch.cat([features.mean(0, keepdim=True), features])
        area = (boxes[:, 2:] - boxes[:, :2]).prod(1, keepdim=True)
        places = torch.cat([torch.tensor([[0.0, 0, 1, 1, 1]]), torch.cat([boxes, area], 1)])
        picture = self.linear(f"{v}image_embeddings", features) + self.linear(f"{v}image_location_embeddings", places)
        text, picture = self.words("bert.", ids, segments), self.norm(f"{v}LayerNorm", picture)
        text = self.layer("bert.encoder.layer.0.", text, 4)
        for number in range(2):
            c = f"bert.encoder.c_layer.{number}."
            ask = {name: self.linear(f"{c}biattention.{name}1", picture) for name in ("query", "key", "value")}
            two = {name: self.linear(f"{c}biattention.{name}2", text) for name in ("query", "key", "value")}
            seen, said = (
                self.mix(two["query"], ask["key"], ask["value"], 5),
                self.mix(ask["query"], two["key"], two["value"], 5),
            )
            picture = self.norm(f"{c}biOutput.LayerNorm1", picture + self.linear(f"{c}biOutput.dense1", said))
            text = self.norm(f"{c}biOutput.LayerNorm2", text + self.linear(f"{c}biOutput.dense2", seen))
            picture, text = self.end(c, picture, "v_"), self.end(c, text, "t_")
            picture = self.layer(f"bert.encoder.v_layer.{number}.", picture, 3)
            text = self.layer(f"bert.encoder.layer.{number + 1}.", text, 4)
        joint = [torch.relu(self.linear(f"bert.{name}_pooler.dense", one[0])) for name, one in (("t", text), ("v", picture))]
        return text, picture, joint[0] * joint[1]


def uniter_weights():
    d, v = Draw(), "uniter.img_embeddings."
    draw_text(d, "uniter.", 2)
    d.linear(f"{v}img_linear", FEATURES, 32), d.linear(f"{v}pos_linear", 7, 32), d.table(f"{v}mask_embedding", 2, FEATURES)
    d.weights[f"{v}mask_embedding.weight"][0] = 0
    for name in ("img_layer_norm", "pos_layer_norm", "LayerNorm"):
        d.norm(v + name, 32)
    d.linear("uniter.pooler.dense", 32, 32), d.linear("itm_output", 32, 2), d.linear("region_classifier.net.0", 32, 32)
    return d.weights


def vilbert_weights():
    d, v = Draw(), "bert.v_embeddings."
    draw_text(d, "bert.", 3)
    d.linear(f"{v}image_embeddings", FEATURES, 24), d.linear(f"{v}image_location_embeddings", 5, 24)
    d.norm(f"{v}LayerNorm", 24)
    for number in range(2):
        draw_layer(d, f"bert.encoder.v_layer.{number}.", 24, 40)
        c = f"bert.encoder.c_layer.{number}."
        for mark, short, width, inner in (("1", "v_", 24, 40), ("2", "t_", 32, 64)):
            for name in ("query", "key", "value"):
                d.linear(f"{c}biattention.{name}{mark}", width, 20)
            for name in ("dense", "q_dense"):
                d.linear(f"{c}biOutput.{name}{mark}", 20, width)
            d.norm(f"{c}biOutput.LayerNorm{mark}", width), d.norm(f"{c}{short}output.LayerNorm", width)
            d.linear(f"{c}{short}intermediate.dense", width, inner), d.linear(f"{c}{short}output.dense", inner, width)
    d.linear("bert.t_pooler.dense", 32, 20), d.linear("bert.v_pooler.dense", 24, 20), d.linear("cls.bi_seq_relationship", 20, 2)
    d.linear("cls.imagePredictions.decoder", 24, 1601)
    return d.weights


def test_uniter():
    weights = uniter_weights()
    converted = convert_fused(foreign(weights, UNITER), "uniter", IDS["bert"])
    assert {one.partition(".")[0] for one in converted.translation.unexpected} == {"region_classifier"}
    given = batch()
    hidden = torch.zeros_like(given.regions.present)
    hidden[0, 1] = True
    features = given.regions.features.masked_fill(hidden[..., None], 0)
    given = given._replace(regions=given.regions._replace(features=features, hidden=hidden))
    difference, pooled, states = agree(converted.pretrained, Uniter(weights, {}), given)
    assert difference < 1e-5
    _, matching = make_heads(converted.pretrained, make_fused(converted.pretrained))
    scores = torch.nn.functional.linear(torch.stack(pooled), weights["itm_output.weight"], weights["itm_output.bias"])
    assert apart(matching(states.joint), scores) < 1e-5


def test_vilbert():
    weights = vilbert_weights()
    converted = convert_fused(foreign(weights, VILBERT), "vilbert", IDS["bert"])
    assert {one.rpartition(".")[0] for one in converted.translation.unexpected} == {"cls.imagePredictions.decoder"}
    assert any("q_dense1" in note for note in converted.notes)
    difference, pooled, states = agree(converted.pretrained, Vilbert(weights, {}), batch())
    assert difference < 1e-5
    _, matching = make_heads(converted.pretrained, make_fused(converted.pretrained))
    head = weights["cls.bi_seq_relationship.weight"], weights["cls.bi_seq_relationship.bias"]
    assert apart(matching(states.joint), torch.nn.functional.linear(torch.stack(pooled), *head).flip(1)) < 1e-5
