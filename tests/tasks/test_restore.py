"""A pretraining that starts from a file of a pretrained tower: the tower wherever it stands, the heads that are of its kind."""

import pytest
import tiny
import torch

from interlingua.modalities.image_front_ends import Patches
from interlingua.models.families import FAMILIES
from interlingua.models.presets import Size, bert, xlm
from interlingua.models.pretrained import Pretrained, from_tower, write_pretrained
from interlingua.models.towers import ImageTower
from interlingua.models.two_towers import TwoTowers
from interlingua.tasks.objectives.contrast import Contrast
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.next_sentence import NextSentence
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining
from interlingua.tasks.restore import load_encoder

SIZE = Size(tiny.WIDTH, 2, 4)


def tower(**options):
    return bert(tiny.VOCABULARY, **{"size": SIZE, "max_tokens": 64, "dropout": 0.0, "attention_dropout": 0.0, **options})


@pytest.fixture
def file(tmp_path):
    """A tower with a token head, a pooler and a classifier of pairs; path and contents."""
    torch.manual_seed(3)
    source = tower()
    heads = {f"head.{name}": torch.randn_like(weight) for name, weight in source.token_head("text").state_dict().items()}
    for part, rows in (("pooler", tiny.WIDTH), ("next_sentence", 2)):
        heads |= {f"{part}.weight": torch.randn(rows, tiny.WIDTH), f"{part}.bias": torch.randn(rows)}
    made = from_tower(source, FAMILIES["bert"], heads)
    write_pretrained(made, tmp_path / "tower.safetensors")
    return tmp_path / "tower.safetensors", made


def start(encoder, file, caplog, **objectives):
    """The module, and the line it told."""
    passes = {"names": [[name] for name in objectives]}
    caplog.clear()
    with caplog.at_level("INFO"):
        module = Pretraining(encoder, objectives, passes, Optimization(1e-3), initial=str(file))
    return module, [record.getMessage() for record in caplog.records if str(file) in record.getMessage()]


def test_tower_and_every_head_of_its_kind(file, caplog):
    path, made = file
    objectives = {"mlm": MaskedLanguage(), "again": MaskedLanguage(rate=0.3), "nsp": NextSentence()}
    module, said = start(tower(), path, caplog, **objectives)
    assert len(said) == 1
    assert said[0].endswith("bert tower, 29 weights matched, 0 missing, 0 unexpected; heads of mlm, again, nsp")
    for name, weight in made.part("encoder").items():
        assert torch.equal(module.encoder.state_dict()[name], weight)
    for name in ("mlm", "again"):
        head = module.objectives[name].head
        assert head.table is module.encoder.tokens.weight
        assert all(torch.equal(head.state_dict()[key], weight) for key, weight in made.part("head").items())
    assert torch.equal(module.objectives["nsp"].pair_head.head.weight, made.weights["next_sentence.weight"])
    assert torch.equal(module.objectives["nsp"].pair_head.pooler.bias, made.weights["pooler.bias"])


def test_an_encoder_that_contains_the_tower(file, caplog):
    path, made = file
    image = ImageTower(Patches(tiny.WIDTH, patch=8, size=16), tiny.transformer())
    encoder = TwoTowers(tower(), image, vector_width=24)
    pictures = {name: weight.clone() for name, weight in image.state_dict().items()}
    module, said = start(encoder, path, caplog, mlm=MaskedLanguage(), picture=Contrast("text", "image"))
    assert torch.equal(module.encoder.text.tokens.weight, made.weights["encoder.embeddings.tokens.weight"])
    assert all(torch.equal(weight, pictures[name]) for name, weight in image.state_dict().items())
    others = len(pictures) + 2  # two projections
    assert said[0].endswith(f"; the other {others} weights of TwoTowers start fresh; heads of mlm")


def test_without_a_head_the_fresh_one_stays(file, tmp_path, caplog):
    _, made = file
    weights = {name: weight for name, weight in made.weights.items() if name.startswith("encoder")}
    write_pretrained(Pretrained("bert", made.arguments, weights), tmp_path / "bare.safetensors")
    module, said = start(tower(), tmp_path / "bare.safetensors", caplog, mlm=MaskedLanguage(), nsp=NextSentence())
    assert said[0].endswith("0 unexpected; none that fits mlm, nsp, whose head starts fresh")
    assert module.objectives["mlm"].head.bias.abs().max() == 0


def test_another_family_is_refused(file, caplog):
    path, _ = file
    other = xlm(tiny.VOCABULARY, 3, SIZE, 64)
    with pytest.raises(ValueError, match=r"\(bert\) is not of this encoder's text tower; languages: file 0, encoder 3; .*head"):
        start(other, path, caplog, mlm=MaskedLanguage())
    with pytest.raises(ValueError, match="ImageTower has 0 text towers"):
        start(tiny.two_towers().image, path, caplog, mlm=MaskedLanguage())


def test_an_evaluation_reads_the_file_too(file):
    path, made = file
    encoder, said = tower(), []
    load_encoder(encoder, path, said.append)
    assert torch.equal(encoder.tokens.weight, made.weights["encoder.embeddings.tokens.weight"])
    assert len(said) == 1
