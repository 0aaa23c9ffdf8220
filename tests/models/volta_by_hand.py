"""State dicts in VOLTA's layout from random numbers, and what its gated layers make of one sample, from those very tensors."""

import torch
import torch.nn.functional as F
from foreign_models import TOKENS

EVEN, ODD = list(range(0, 24, 2)), list(range(1, 24, 2))
SINGLE = {f"{gate}_attn_sublayers": EVEN for gate in ("tt", "tv", "vt", "vv")}
SINGLE |= {"t_ff_sublayers": ODD, "v_ff_sublayers": ODD, "shared_sublayers": list(range(24))}
SINGLE |= {"single_ln_sublayers": list(range(24))}
VILBERT = {
    "tt_attn_sublayers": [0, 2, 4, 6, 8, 10, 14, 18, 22, 26, 30, 34],
    "tv_attn_sublayers": [12, 16, 20, 24, 28, 32],
    "vt_attn_sublayers": [12, 16, 20, 24, 28, 32],
    "vv_attn_sublayers": [14, 18, 22, 26, 30, 34],
    "t_ff_sublayers": list(range(1, 36, 2)),
    "v_ff_sublayers": list(range(13, 36, 2)),
    "shared_sublayers": [],
    "single_ln_sublayers": [],
}
LXMERT = {
    "tt_attn_sublayers": [0, 2, 4, 6, 8, 10, 12, 14, 16, 19, 22, 25, 28, 31],
    "tv_attn_sublayers": [18, 21, 24, 27, 30],
    "vt_attn_sublayers": [18, 21, 24, 27, 30],
    "vv_attn_sublayers": [0, 2, 4, 6, 8, 19, 22, 25, 28, 31],
    "t_ff_sublayers": [1, 3, 5, 7, 9, 11, 13, 15, 17, 20, 23, 26, 29, 32],
    "v_ff_sublayers": [1, 3, 5, 7, 9, 20, 23, 26, 29, 32],
    "shared_sublayers": [18, 21, 24, 27, 30],
    "single_ln_sublayers": [],
}
"""The lists of the published files: ctrl_uniter, ctrl_visualbert, ctrl_vl-bert, ctrl_muniter, ctrl_xuniter, uc2 and vl-bert;
then vilbert and ctrl_vilbert; then lxmert, ctrl_lxmert and original_lxmert."""
SMALL_SINGLE = {key: [one for one in numbers if one < 4] for key, numbers in SINGLE.items()}
SMALL_VILBERT = {
    "tt_attn_sublayers": [0, 4, 8],
    "tv_attn_sublayers": [2, 6],
    "vt_attn_sublayers": [2, 6],
    "vv_attn_sublayers": [4, 8],
    "t_ff_sublayers": [1, 3, 5, 7, 9],
    "v_ff_sublayers": [3, 5, 7, 9],
}
SMALL_LXMERT = {
    "tt_attn_sublayers": [0, 2, 5, 8],
    "tv_attn_sublayers": [4, 7],
    "vt_attn_sublayers": [4, 7],
    "vv_attn_sublayers": [0, 5, 8],
    "t_ff_sublayers": [1, 3, 6, 9],
    "v_ff_sublayers": [1, 6, 9],
    "shared_sublayers": [4, 7],
}
BASE = {
    "vocab_size": 110,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": TOKENS,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "bert_model": "bert-base-uncased",
    "num_locs": 5,
    "add_global_imgfeat": "first",
    "v_feature_size": 24,
    "v_hidden_size": 32,
    "v_num_attention_heads": 4,
    "v_intermediate_size": 64,
    "pooler_size": 20,
    "v_pooler_size": 20,
    "fusion_method": "mul",
    "visual_target_weights": {"0": 1.0},
}
SIZES = {"vocab_size": 30_522, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "v_feature_size": 2048}
SIZES |= {"v_hidden_size": 768, "v_num_attention_heads": 12, "v_intermediate_size": 3072, "pooler_size": 768}
SIZES |= {"max_position_embeddings": 512, "add_global_imgfeat": None}
WIDE = {"v_hidden_size": 1024, "v_num_attention_heads": 8, "v_intermediate_size": 1024}
WIDE |= {"sublayer2attn_hidden_size": dict.fromkeys(map(str, range(12, 36, 4)), 1024)}
WIDE |= {"sublayer2num_attention_heads": dict.fromkeys(map(str, range(12, 36, 4)), 8)}
"""Sizes of the published files, and those in which vilbert_base differs."""
UNEQUAL = {"v_hidden_size": 24, "v_num_attention_heads": 3, "v_intermediate_size": 40}
UNEQUAL |= {"sublayer2attn_hidden_size": {"2": 24, "6": 24}, "sublayer2num_attention_heads": {"2": 3, "6": 3}}
ROBERTA = {"bert_model": "xlm-roberta-base", "model": "roberta", "max_position_embeddings": TOKENS + 2, "pad_token_id": 1}
CONFIGURATIONS = {
    "ctrl_vilbert": {**BASE, **SMALL_VILBERT, "image_embeddings": "vilbert"},
    "vilbert": {**BASE, **SMALL_VILBERT, **UNEQUAL, "image_embeddings": "vilbert"},
    "ctrl_lxmert": {**BASE, **SMALL_LXMERT, "image_embeddings": "lxmert"},
    "lxmert": {**BASE, **SMALL_LXMERT, "image_embeddings": "lxmert", "num_locs": 4, "add_global_imgfeat": None}
    | {"pooler_size": 32, "fusion_method": "text"},
    "ctrl_uniter": {**BASE, **SMALL_SINGLE, "image_embeddings": "uniter"},
    "ctrl_xuniter": {**BASE, **SMALL_SINGLE, **ROBERTA, "image_embeddings": "uniter", "type_vocab_size": 1},
    "uc2": {**BASE, **SMALL_SINGLE, **ROBERTA, "image_embeddings": "uc2", "num_locs": 7, "add_global_imgfeat": None}
    | {"pooler_size": 32, "fusion_method": "text", "layer_norm_eps": 1e-5},
    "ctrl_visualbert": {**BASE, **SMALL_SINGLE, "image_embeddings": "visualbert"},
    "ctrl_vl-bert": {**BASE, **SMALL_SINGLE, "image_embeddings": "vl-bert", "type_vocab_size": 3, "v_feature_size": 2048},
    "vl-bert": {**BASE, **SMALL_SINGLE, "image_embeddings": "vl-bert", "type_vocab_size": 3, "v_feature_size": 2048}
    | {"add_global_imgfeat": "last", "fusion_method": "none", "visual_target_weights": {"6": 1.0}, "num_locs": 4},
}


class Draw:
    """Random tensors by name."""

    def __init__(self):
        self.weights, self.generator = {}, torch.Generator().manual_seed(7)

    def table(self, name, rows, width):
        self.weights[f"{name}.weight"] = torch.randn(rows, width, generator=self.generator) * 0.2

    def linear(self, name, inward, outward):
        self.table(name, outward, inward)
        self.weights[f"{name}.bias"] = torch.randn(outward, generator=self.generator) * 0.2

    def norm(self, name, width):
        self.weights[f"{name}.weight"] = 1 + torch.randn(width, generator=self.generator) * 0.2
        self.weights[f"{name}.bias"] = torch.randn(width, generator=self.generator) * 0.2

    def same(self, name, other):
        for end in ("weight", "bias"):
            if f"{other}.{end}" in self.weights:
                self.weights[f"{name}.{end}"] = self.weights[f"{other}.{end}"]


def draw_weights(c: dict) -> dict[str, torch.Tensor]:
    """A state dict of `BertForVLPreTraining`."""
    d, width, wide, features = Draw(), c["hidden_size"], c["v_hidden_size"], c["v_feature_size"]
    e, kind = "bert.embeddings.", c["image_embeddings"]
    d.table(f"{e}word_embeddings", c["vocab_size"], width)
    d.table(f"{e}position_embeddings", c["max_position_embeddings"], width)
    types = "new_token_type_embeddings" if kind == "uc2" else "token_type_embeddings"
    d.table(e + types, c["type_vocab_size"], width)
    d.norm(f"{e}LayerNorm", width)
    if kind in ("vilbert", "lxmert"):
        v = "bert.v_embeddings."
        d.linear(f"{v}image_embeddings", features, wide), d.linear(f"{v}image_location_embeddings", c["num_locs"], wide)
        for name in ("LayerNorm",) if kind == "vilbert" else ("ImgLayerNorm", "LocLayerNorm"):
            d.norm(v + name, wide)
    elif kind in ("uniter", "uc2"):
        d.linear(f"{e}image_embeddings", features, wide), d.linear(f"{e}image_location_embeddings", c["num_locs"], wide)
        if c.get("model") == "roberta" and kind == "uniter":
            d.table(f"{e}image_token_type_embeddings", c["type_vocab_size"], width)
        else:
            d.same(f"{e}image_token_type_embeddings", e + types)
        for name in ("image_layer_norm", "image_location_layer_norm", "v_LayerNorm"):
            d.norm(e + name, width)
    elif kind == "visualbert":
        d.linear(f"{e}projection", features, width)
        d.table(f"{e}token_type_embeddings_visual", c["type_vocab_size"], width)
        d.table(f"{e}position_embeddings_visual", c["max_position_embeddings"], width)
    else:
        d.linear(f"{e}obj_downsample.1", 2 * features, width)
        for name in ("object_linguistic_embeddings", "end_embedding"):
            d.table(e + name, 1, width)
        d.table(f"{e}object_mask_visual_embedding", 1, features)
        if "6" in c["visual_target_weights"]:
            d.table(f"{e}object_mask_word_embedding", 1, width)
        d.norm(f"{e}visual_ln_text", width), d.norm(f"{e}visual_ln_object", width)
    for number in range(1 + max(c["t_ff_sublayers"])):
        _draw_sublayer(d, c, number)
    if c["fusion_method"] != "none":
        d.linear("bert.t_pooler.dense", width, c["pooler_size"])
        d.linear("cls.bi_seq_relationship", c["pooler_size"], 2)
    if c["fusion_method"] == "mul":
        d.linear("bert.v_pooler.dense", wide, c["v_pooler_size"])
    d.linear("cls.predictions.transform.dense", width, width), d.norm("cls.predictions.transform.LayerNorm", width)
    d.weights["cls.predictions.bias"] = torch.randn(c["vocab_size"], generator=d.generator)
    d.same("cls.predictions.decoder", f"{e}word_embeddings")
    d.linear("cls.imagePredictions.decoder_dict.0", wide, 1601)
    return d.weights


def _draw_sublayer(d, c, number):
    before, shared = f"bert.encoder.layer.{number}.", number in c.get("shared_sublayers", [])
    text = any(number in c[key] for key in ("tt_attn_sublayers", "tv_attn_sublayers", "t_ff_sublayers"))
    picture = any(number in c[key] for key in ("vv_attn_sublayers", "vt_attn_sublayers", "v_ff_sublayers"))
    is_attention = number not in (*c["t_ff_sublayers"], *c["v_ff_sublayers"])
    for there, mark, width, inner in (
        (text, "", c["hidden_size"], c["intermediate_size"]),
        (picture, "v_", c["v_hidden_size"], c["v_intermediate_size"]),
    ):
        if not there:
            continue
        if is_attention:
            heads = c.get("sublayer2attn_hidden_size", {}).get(str(number), width) if not mark else width
            parts = [(f"attention_self.{mark}{one}", width, heads) for one in ("query", "key", "value")]
            parts, norm = [*parts, (f"attention_output.{mark}dense", heads, width)], f"attention_output.{mark}LayerNorm"
        else:
            parts = [(f"intermediate.{mark}dense", width, inner), (f"output.{mark}dense", inner, width)]
            norm = f"output.{mark}LayerNorm"
        for name, inward, outward in parts:
            if mark and shared and text:
                d.same(before + name, before + name.replace("v_", ""))
            else:
                d.linear(before + name, inward, outward)
        if mark and shared and text:
            d.same(before + norm, before + norm.replace("v_", ""))
        else:
            d.norm(before + norm, width)


class Reading:
    """VOLTA's formulas over one sample without padding."""

    def __init__(self, weights, configuration):
        self.w, self.c, self.epsilon = weights, configuration, configuration.get("layer_norm_eps", 1e-12)

    def linear(self, name, one):
        return F.linear(one, self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def norm(self, name, one):
        return F.layer_norm(one, one.shape[-1:], self.w[f"{name}.weight"], self.w[f"{name}.bias"], self.epsilon)

    def read(self, ids, segments, features, boxes):
        """States of text and regions (with the global one), and the pooled vector."""
        c = self.c
        places = torch.cat([boxes, ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]))[:, None]], 1)
        if c["num_locs"] == 4:
            places = boxes
        elif c["num_locs"] == 7:
            places = torch.cat([boxes, boxes[:, 2:] - boxes[:, :2], places[:, 4:]], 1)
        if c["add_global_imgfeat"]:
            order = slice(None, None, 1 if c["add_global_imgfeat"] == "first" else -1)
            features = torch.cat([features.mean(0, keepdim=True), features][order])
            whole = torch.tensor([[0.0, 0, 1, 1, 1]])[:, : places.shape[1]]
            places = torch.cat([whole, places][order])
        text, picture = self.embed(ids, segments, features, places)
        for number in range(1 + max(c["t_ff_sublayers"])):
            is_feed = number in (*c["t_ff_sublayers"], *c["v_ff_sublayers"])
            text, picture = (self.feed if is_feed else self.attend)(number, text, picture)
        pooled = None
        if c["fusion_method"] != "none":
            pooled = torch.relu(self.linear("bert.t_pooler.dense", text[0]))
        if c["fusion_method"] == "mul":
            pooled = pooled * torch.relu(self.linear("bert.v_pooler.dense", picture[0]))
        return text, picture, pooled

    def embed(self, ids, segments, features, places):
        e, kind, w = "bert.embeddings.", self.c["image_embeddings"], self.w
        first = 2 if self.c.get("model") == "roberta" else 0
        types = w[f"{e}{'new_' if kind == 'uc2' else ''}token_type_embeddings.weight"]
        positions = w[f"{e}position_embeddings.weight"]
        words = w[f"{e}word_embeddings.weight"][ids] + positions[first : first + len(ids)] + types[segments]
        if kind in ("vilbert", "lxmert"):
            v = "bert.v_embeddings."
            seen, where = self.linear(f"{v}image_embeddings", features), self.linear(f"{v}image_location_embeddings", places)
            if kind == "vilbert":
                return self.norm(f"{e}LayerNorm", words), self.norm(f"{v}LayerNorm", seen + where)
            return self.norm(f"{e}LayerNorm", words), (
                self.norm(f"{v}ImgLayerNorm", seen) + self.norm(f"{v}LocLayerNorm", where)
            ) / 2
        if kind in ("uniter", "uc2"):
            seen, where = self.linear(f"{e}image_embeddings", features), self.linear(f"{e}image_location_embeddings", places)
            number = 0 if self.c.get("model") == "roberta" and kind == "uniter" else 1
            both = self.norm(f"{e}image_layer_norm", seen) + self.norm(f"{e}image_location_layer_norm", where)
            both = both + w[f"{e}image_token_type_embeddings.weight"][number]
            return self.norm(f"{e}LayerNorm", words), self.norm(f"{e}v_LayerNorm", both)
        if kind == "visualbert":
            seen = self.linear(f"{e}projection", features) + w[f"{e}position_embeddings_visual.weight"][0]
            seen = seen + w[f"{e}token_type_embeddings_visual.weight"][1]
            return self.norm(f"{e}LayerNorm", words), self.norm(f"{e}LayerNorm", seen)
        centre = torch.cat([(places[:, :2] + places[:, 2:4]) / 2, places[:, 2:4] - places[:, :2]], 1) * 100
        angles = centre[:, :, None] / 1000 ** (torch.arange(256.0) / 256)
        waves = torch.cat([angles.sin(), angles.cos()], 2).flatten(1)
        seen = torch.relu(self.linear(f"{e}obj_downsample.1", torch.cat([waves, features], 1)))
        word = w[f"{e}object_linguistic_embeddings.weight"].repeat(len(seen), 1)
        word[-1] = w[f"{e}end_embedding.weight"][0]
        place = positions[[len(ids)] * (len(seen) - 1) + [len(ids) + 1]]
        regions = word + self.norm(f"{e}visual_ln_object", seen) + place + types[2]
        words = words + self.norm(f"{e}visual_ln_text", seen[-1])
        return self.norm(f"{e}LayerNorm", words), self.norm(f"{e}LayerNorm", regions)

    def attend(self, number, text, picture):
        c, a = self.c, f"bert.encoder.layer.{number}."
        heads = c.get("sublayer2num_attention_heads", {}).get(str(number), c["num_attention_heads"])
        streams = {"t": ("", text, heads), "v": ("v_", picture, c["v_num_attention_heads"])}
        gates = {one: number in c[f"{one}_attn_sublayers"] for one in ("tt", "tv", "vt", "vv")}
        parts = {}
        for one, (mark, states, count) in streams.items():
            if gates[f"{one}t"] or gates[f"{one}v"]:
                names = (f"{a}attention_self.{mark}{name}" for name in ("query", "key", "value"))
                parts[one] = [self.linear(name, states).unflatten(1, (count, -1)).transpose(0, 1) for name in names]
        after = []
        for one, (mark, states, _) in streams.items():
            sources = [other for other in "tv" if gates[one + other]]
            if sources:
                key, value = (torch.cat([parts[other][which] for other in sources], 1) for which in (1, 2))
                query = parts[one][0]
                shares = (query @ key.transpose(1, 2) / query.shape[2] ** 0.5).softmax(2)
                found = self.linear(f"{a}attention_output.{mark}dense", (shares @ value).transpose(0, 1).flatten(1))
                states = self.norm(f"{a}attention_output.{mark}LayerNorm", states + found)
            after.append(states)
        return after

    def feed(self, number, text, picture):
        c, f, after = self.c, f"bert.encoder.layer.{number}.", []
        for mark, states, there in (("", text, c["t_ff_sublayers"]), ("v_", picture, c["v_ff_sublayers"])):
            if number in there:
                inner = F.gelu(self.linear(f"{f}intermediate.{mark}dense", states))
                states = self.norm(f"{f}output.{mark}LayerNorm", states + self.linear(f"{f}output.{mark}dense", inner))
            after.append(states)
        return after
