"""Front ends: equal to what they stand for, indifferent to batch-mates, and never confused about a grid."""

import copy
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from learning import reach_half
from safetensors.torch import save_file
from torch import nn

from interlingua.modalities.batch import Image
from interlingua.modalities.image_front_ends import ConvolutionStem, Patches
from interlingua.modalities.positions import GridPositions, resample_flat, resample_grid
from interlingua.modalities.timm_image import TimmImage


def pictures(count: int = 3, height: int = 32, width: int = 32) -> Image:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, 3, height, width), dtype=torch.uint8, generator=generator)
    return Image(pixels, torch.ones(count, dtype=torch.bool))


def bicubic(table: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    grid = F.interpolate(table.permute(2, 0, 1)[None], (rows, columns), mode="bicubic", antialias=True, align_corners=False)
    return grid[0].permute(1, 2, 0)


OURS = {
    "patches": lambda: Patches(24, patch=8, size=32, maskable=True),
    "stem": lambda: ConvolutionStem(24, (8, 16), blocks=1, size=32, maskable=True),
}
BACKBONES = {
    "test_vit": (64, 16),  # tokens, one of them a class token
    "vit_tiny_patch16_224": (192, 16),
    "test_resnet": (96, 4),  # a map [B, C, H, W], batch norm
    "test_convnext": (64, 4),
    "test_mambaout": (256, 4),  # a map [B, H, W, C]
    "mobilenetv4_conv_small_035": (1280, 4),  # its `num_features` is 336
}


@pytest.fixture(scope="module", params=[*OURS, *BACKBONES])
def front_end(request):
    torch.manual_seed(0)
    return OURS[request.param]() if request.param in OURS else TimmImage(request.param, size=64)


def test_a_picture_alone_and_in_a_batch_and_gradients(front_end):
    size = 64 if isinstance(front_end, TimmImage) else 32
    image = pictures(3, size, size)
    image = image._replace(pixels=image.pixels * torch.tensor([1, 0, 1], dtype=torch.uint8)[:, None, None, None])  # one absent
    front_end.train()
    together = front_end(image)
    assert together.shape == (3, front_end.count(size, size), front_end.width)
    assert together.isfinite().all()
    alone = front_end(Image(image.pixels[2:], image.present[2:]))
    torch.testing.assert_close(alone, together[2:], atol=2e-5, rtol=1e-4)
    front_end.zero_grad()
    together.square().mean().backward()
    for name, parameter in front_end.named_parameters():
        assert parameter.grad is not None, name  # no parameter is there in vain
        assert parameter.grad.isfinite().all(), name
    front_end.zero_grad()


@pytest.mark.parametrize("name", BACKBONES)
def test_backbones_give_the_width_and_count_they_claim(name):
    torch.manual_seed(0)
    front_end = TimmImage(name, size=64)
    assert (front_end.width, front_end.count(64, 64)) == BACKBONES[name]
    narrow = TimmImage(name, size=64, width=20)
    assert narrow(pictures(1, 64, 64)).shape == (1, BACKBONES[name][1], 20)


def test_patches_equal_the_convolution():
    front_end = Patches(24, patch=8, size=32)
    image = pictures()
    convolution = nn.Conv2d(3, 24, 8, stride=8)
    convolution.weight.data = front_end.project.weight.data.view(24, 3, 8, 8)
    convolution.bias.data = front_end.project.bias.data
    expected = convolution(image.pixels / 127.5 - 1).flatten(2).transpose(1, 2) + front_end.positions.table.flatten(0, 1)
    torch.testing.assert_close(front_end(image), expected, atol=1e-5, rtol=1e-4)


def test_colours_are_normalised_each_by_its_own():
    mean, std = (0.4, 0.5, 0.6), (0.1, 0.2, 0.3)
    front_end = Patches(12, patch=2, size=2, mean=mean, std=std)
    with torch.no_grad():
        front_end.project.weight.copy_(torch.eye(12))
        front_end.project.bias.zero_()
        front_end.positions.table.zero_()
    pixels = torch.tensor([51, 102, 204], dtype=torch.uint8).view(1, 3, 1, 1).expand(1, 3, 2, 2).contiguous()
    values = front_end(Image(pixels, torch.ones(1, dtype=torch.bool)))[0, 0]
    torch.testing.assert_close(values, torch.tensor([-2.0, -0.5, 2 / 3]).repeat_interleave(4))
    assert front_end.bfloat16()(Image(pixels, torch.ones(1, dtype=torch.bool))).dtype == torch.bfloat16


def test_the_order_of_vectors_is_row_by_row():
    for make in OURS.values():
        front_end = make().eval()
        image = pictures(1, 32, 64)
        rows, columns = front_end.grid(32, 64)
        before = front_end(image)[0]
        changed = image.pixels.clone()
        changed[:, :, -1, -1] = 255 - changed[:, :, -1, -1]
        difference = (front_end(image._replace(pixels=changed))[0] - before).abs().sum(dim=1)
        assert difference.argmax() == rows * columns - 1
        assert difference[0] == 0


@pytest.mark.parametrize("name", OURS)
def test_hidden_vectors_show_nothing_but_their_place(name):
    front_end = OURS[name]()
    image = pictures(2)
    hidden = torch.zeros(2, front_end.count(32, 32), dtype=torch.bool)
    hidden[0, 3] = True
    marked = front_end(image._replace(hidden=hidden))
    torch.testing.assert_close(marked[0, 3], front_end.mask + front_end.positions.table.flatten(0, 1)[3])
    torch.testing.assert_close(marked[~hidden], front_end(image)[~hidden])
    plain = copy.deepcopy(front_end)
    plain.mask = None
    with pytest.raises(ValueError, match="maskable: true"):
        plain(image._replace(hidden=hidden))


def test_a_table_of_another_grid_is_interpolated_though_counts_are_equal():
    """Pitfall I06 a."""
    source, target = GridPositions(6, 2, 8), GridPositions(6, 4, 4)
    target.load_state_dict(source.state_dict())
    torch.testing.assert_close(target.table.data, bicubic(source.table.data, 4, 4))
    assert source.state_dict()["table"].shape == (2, 8, 6)  # the state that was given is not changed
    again = GridPositions(6, 4, 4)
    again.load_state_dict(target.state_dict())
    assert again.table.equal(target.table)
    with pytest.raises(RuntimeError, match="size mismatch"):
        target.load_state_dict({"table": torch.zeros(16, 6)})  # a flat table does not say its grid


def test_rows_without_a_class_token_are_not_mistaken():
    """Pitfall I06 c."""
    table = torch.randn(196, 5)
    assert resample_flat(table, 0, 14, 14).equal(table)
    torch.testing.assert_close(resample_flat(table, 0, 4, 4), bicubic(table.view(14, 14, 5), 4, 4).flatten(0, 1))
    with pytest.raises(ValueError, match="196 rows, of which 1 belong to prefix tokens; the other 195 are not a square"):
        resample_flat(table, 1, 14, 14)
    with pytest.raises(ValueError, match="declared grid of 2 x 8"):
        resample_flat(table, 0, 14, 14, trained=(2, 8))
    wide = resample_flat(table, 0, 14, 14, trained=(7, 28))
    torch.testing.assert_close(wide, bicubic(table.view(7, 28, 5), 14, 14).flatten(0, 1))
    half = resample_grid(torch.randn(4, 4, 3).bfloat16(), 2, 2)
    assert half.dtype == torch.bfloat16


def test_pictures_of_another_shape_get_positions_of_their_own():
    """Pitfall I06 d."""
    front_end = Patches(8, patch=16, size=224)
    assert front_end.grid(224, 448) == (14, 28)
    assert front_end(pictures(1, 224, 448)).shape == (1, 392, 8)
    with pytest.raises(ValueError, match="multiple of 16"):
        front_end(pictures(1, 224, 225))
    stem = ConvolutionStem(8, (4, 4), size=32, blocks=0)
    assert stem.count(33, 17) == stem(pictures(1, 33, 17)).shape[1] == 9 * 5
    vit = TimmImage("test_vit", size=224)
    assert vit.count(224, 448) == 14 * 28
    assert vit(pictures(1, 224, 448)).isfinite().all()


def test_a_local_checkpoint_of_another_size(tmp_path):
    """Pitfall I06 b."""
    torch.manual_seed(1)
    source = TimmImage("test_vit", size=224).backbone.state_dict()
    extra = {"head.weight": torch.zeros(3, 64)}
    save_file({**source, **extra}, tmp_path / "vit.safetensors")
    torch.save({"state_dict": {**source, **extra}}, tmp_path / "vit.pt")
    for file in ("vit.safetensors", "vit.pt"):
        front_end = TimmImage("test_vit", size=64, checkpoint=tmp_path / file)
        table = front_end.backbone.pos_embed[0]
        assert table.shape == (1 + 16, 64)
        assert table[0].equal(source["pos_embed"][0, 0])
        torch.testing.assert_close(table[1:], bicubic(source["pos_embed"][0, 1:].view(14, 14, 64), 4, 4).flatten(0, 1))
        assert front_end.loaded.missing == ()
        assert front_end.loaded.unexpected == ("head.weight",)
        assert len(front_end.loaded.matched) == len(source)
        assert front_end.backbone.blocks[0].attn.qkv.weight.equal(source["blocks.0.attn.qkv.weight"])


def test_a_local_checkpoint_of_an_equal_count(tmp_path):
    source = TimmImage("test_vit", size=64).backbone.state_dict()  # 4 x 4
    save_file(source, tmp_path / "vit.safetensors")
    declared = TimmImage("test_vit", size=64, checkpoint=tmp_path / "vit.safetensors", checkpoint_grid=(2, 8))
    expected = bicubic(source["pos_embed"][0, 1:].view(2, 8, 64), 4, 4).flatten(0, 1)
    torch.testing.assert_close(declared.backbone.pos_embed[0, 1:].data, expected)


def test_checkpoints_that_do_not_fit_are_refused_or_reported(tmp_path, caplog):
    save_file({"module.norm.weight": torch.zeros(64)}, tmp_path / "renamed.safetensors")
    with pytest.raises(ValueError, match=r"none of its 1 names \(module.norm.weight, ...\)"):
        TimmImage("test_vit", size=64, checkpoint=tmp_path / "renamed.safetensors")
    save_file({"norm.weight": torch.zeros(96)}, tmp_path / "wide.safetensors")
    with pytest.raises(ValueError, match=r"norm.weight is \(96,\), the backbone's is \(64,\)"):
        TimmImage("test_vit", size=64, checkpoint=tmp_path / "wide.safetensors")
    save_file({"norm.weight": torch.zeros(64)}, tmp_path / "part.safetensors")
    with caplog.at_level("WARNING"):
        part = TimmImage("test_vit", size=64, checkpoint=tmp_path / "part.safetensors")
    assert "1 names matched" in caplog.text
    assert "missing: cls_token, pos_embed" in caplog.text
    assert part.loaded.matched == ("norm.weight",)
    assert part.backbone.norm.weight.abs().max() == 0


def test_names_and_weights_that_are_not_there(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match=r"similar: .*test_vit"):
        TimmImage("test_vitt", size=64)
    with pytest.raises(ValueError, match="without its pooling"):
        TimmImage("efficientvit_b0", size=64)
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ConnectionError, match="HF_HUB_OFFLINE=1"):  # tests run offline
        TimmImage("test_vit", size=64, pretrained=True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:9 cannot be reached"):
        TimmImage("test_vit", size=64, pretrained=True)
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ImportError, match=r"pip install interlingua\[timm\]"):
        TimmImage("test_vit", size=64)


def test_batch_norm_keeps_its_statistics_in_training():
    front_end = TimmImage("test_resnet", size=64).train()
    before = copy.deepcopy(front_end.state_dict())
    front_end(pictures(2, 64, 64))
    assert all(value.equal(before[name]) for name, value in front_end.state_dict().items())
    with pytest.raises(ValueError, match="cannot hide"):
        front_end(pictures(2, 64, 64)._replace(hidden=torch.zeros(2, 4, dtype=torch.bool)))


def test_importing_front_ends_imports_neither_timm_nor_torchvision():
    code = (
        "import sys, interlingua.modalities.timm_image, interlingua.modalities.image, interlingua.modalities.augmentation;"
        "print([name for name in ('timm', 'torchvision', 'huggingface_hub') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("name", OURS)
def test_front_ends_learn(name):
    torch.manual_seed(0)
    front_end = OURS[name]()
    head = nn.Linear(front_end.width, 8)
    image = pictures(8)
    reach_half(lambda: F.cross_entropy(head(front_end(image).mean(dim=1)), torch.arange(8)), front_end, head, rate=3e-3)
