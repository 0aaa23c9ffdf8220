"""Pictures are cut so that captions stay true, by the sample's key alone, and boxes follow."""

import pickle

import pytest
import torch

from interlingua.modalities.augmentation import ImageTransform, Window, cut, draw_luck, flip_boxes, move_boxes
from interlingua.modalities.chance import chance


def lucks(count: int) -> list[list[float]]:
    return draw_luck(torch.arange(count))


def red_square(height: int = 100, width: int = 100) -> torch.Tensor:
    """White, with a red square in the box 10, 20, 30, 40."""
    pixels = torch.full((3, height, width), 255, dtype=torch.uint8)
    pixels[1:, 20:40, 10:30] = 0
    return pixels


def box_of_red(pixels: torch.Tensor) -> list[int]:
    rows, columns = (pixels[1] < 128).nonzero(as_tuple=True)
    return [int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1]


def test_nothing_is_mirrored_unless_asked():
    """Pitfall I08: a red square on the left stays there."""
    transform = ImageTransform(100)
    assert not any(transform.window(100, 100, luck).mirrored for luck in lucks(300))
    for luck in lucks(40):
        left, _, right, _ = box_of_red(transform(red_square(), luck))
        assert (left + right) / 2 < 50  # the red square stays on the left


def test_a_forced_flip_moves_the_square_and_its_box():
    """Pitfall I08: box 10, 20, 30, 40 of width 100 becomes 70, 20, 90, 40."""
    transform = ImageTransform(100, area=(1.0, 1.0), ratio=1.0, mirror=1.0)
    (luck,) = lucks(1)
    window = transform.window(100, 100, luck)
    assert window == Window(0, 0, 100, 100, mirrored=True)
    assert box_of_red(transform(red_square(), luck)) == [70, 20, 90, 40]
    assert flip_boxes(torch.tensor([[10.0, 20, 30, 40]]), width=100).tolist() == [[70, 20, 90, 40]]
    boxes, seen = move_boxes(torch.tensor([[0.1, 0.2, 0.3, 0.4]]), window, 100, 100)
    torch.testing.assert_close(boxes, torch.tensor([[0.7, 0.2, 0.9, 0.4]]))
    assert seen.tolist() == [True]


@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_boxes_follow_the_pixels_through_any_window(fit):
    transform = ImageTransform(400, fit, area=(0.5, 1.4), shift=0.1, mirror=0.5)
    for luck in lucks(30):
        pixels = red_square(90, 140)
        boxes, _ = move_boxes(torch.tensor([[10 / 140, 20 / 90, 30 / 140, 40 / 90]]), transform.window(90, 140, luck), 90, 140)
        if (boxes[0, 2:] - boxes[0, :2]).min() > 0:
            found = torch.tensor(box_of_red(transform(pixels, luck))) / 400
            assert (found - boxes[0]).abs().max() < 0.015, luck


def test_boxes_outside_of_the_window_are_not_seen():
    window = Window(left=50, top=0, width=50, height=100)
    boxes = torch.tensor([[0.0, 0, 0.4, 1], [0.4, 0, 0.6, 1], [0.45, 0, 0.5, 1], [0.4, 0, 0.55, 1]])
    boxes, seen = move_boxes(boxes, window, 100, 100)
    assert seen.tolist() == [False, True, False, False]
    torch.testing.assert_close(boxes[1], torch.tensor([0, 0, 0.2, 1]))
    assert move_boxes(torch.tensor([[0.4, 0, 0.55, 1]]), window, 100, 100, least=0.3)[1].tolist() == [True]


def test_evaluation_shows_all_or_the_middle_or_margins():
    wide = torch.zeros(3, 10, 30, dtype=torch.uint8)
    wide[0, :, :10] = 200
    stretched = ImageTransform(30)(wide)
    assert stretched.shape == (3, 30, 30)
    assert (stretched[0, :, :8] == 200).all()
    cropped = ImageTransform(10, "crop")(wide)
    assert cropped.equal(wide[:, :, 10:20])
    padded = ImageTransform(30, "pad")(wide)
    assert (padded[:, :10] == 255).all()
    assert padded[:, 10:20].equal(wide)
    assert (padded[:, 20:] == 255).all()
    assert (ImageTransform(30, "pad", fill=7)(wide)[:, :10] == 7).all()


def test_a_picture_of_the_right_size_is_not_touched():
    pixels = torch.randint(0, 256, (3, 32, 32), dtype=torch.uint8)
    assert ImageTransform(32)(pixels).equal(pixels)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 3000), (3000, 1), (2, 5), (333, 500)])
@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_every_shape_of_picture_is_taken(height, width, fit):
    pixels = torch.full((3, height, width), 90, dtype=torch.uint8)
    transform = ImageTransform(16, fit, area=(0.3, 1.5), shift=0.3, mirror=0.5)
    for luck in (None, *lucks(3)):
        output = transform(pixels, luck)
        assert output.shape == (3, 16, 16)
        assert output.dtype == torch.uint8
        assert (output == 90).any()  # never the margin alone
        assert ((output == 90) | (output == 255)).all()


def test_windows_keep_the_area_and_the_ratio():
    transform = ImageTransform(64, area=(0.7, 1.0), ratio=1.5)
    windows = [transform.window(1000, 2000, luck) for luck in lucks(500)]
    areas = torch.tensor([w.width * w.height / 2e6 for w in windows])
    ratios = torch.tensor([w.width / w.height / 2 for w in windows])
    assert 0.698 < areas.min() < 0.71
    assert 0.99 < areas.max() < 1.002
    assert abs(areas.mean() - 0.85) < 0.02
    assert ratios.max() < 1.51
    assert ratios.min() > 1 / 1.51
    assert ratios.max() > 1.3
    for window in windows:
        assert window.left >= 0
        assert window.top >= 0
        assert window.left + window.width <= 2000
        assert window.top + window.height <= 1000


def test_shifts_leave_the_picture_both_ways_by_no_more_than_asked():
    transform = ImageTransform(32, area=(1.0, 1.0), ratio=1.0, shift=0.125)
    lefts = [transform.window(32, 32, luck).left for luck in lucks(400)]
    assert set(lefts) == set(range(-4, 5))
    zoomed = ImageTransform(32, area=(1.5, 1.5), ratio=1.0)
    assert all(zoomed.window(32, 32, luck).width == 39 and -7 <= zoomed.window(32, 32, luck).left <= 0 for luck in lucks(50))


def test_draws_depend_on_the_key_alone():
    transform = ImageTransform(24, area=(0.5, 1.0), brightness=0.1, contrast=0.2, mirror=0.5)
    pixels = torch.randint(0, 256, (3, 40, 50), dtype=torch.uint8)
    keys = chance(0, torch.arange(2)[:, None], torch.arange(4)).flatten()
    first = [transform(pixels, luck) for luck in draw_luck(keys)]
    torch.manual_seed(9)
    alone = [draw_luck(key[None])[0] for key in keys.flip(0)]
    again = [pickle.loads(pickle.dumps(transform))(pixels, luck) for luck in alone][::-1]
    assert all(one.equal(other) for one, other in zip(first, again, strict=True))
    assert len({tuple(picture.flatten().tolist()) for picture in first}) == len(keys)


def test_light_varies_within_its_bounds_and_never_the_hue():
    grey = torch.full((3, 8, 8), 100, dtype=torch.uint8)
    bright = ImageTransform(8, area=(1.0, 1.0), ratio=1.0, brightness=0.1)
    levels = torch.stack([bright(grey, luck)[:, 0, 0] for luck in lucks(200)]).float()
    assert (levels.max(dim=1).values == levels.min(dim=1).values).all()
    assert 74 <= levels.min() < 78
    assert 122 < levels.max() <= 126
    assert bright(grey).equal(grey)  # evaluation
    halves = torch.tensor([50, 150], dtype=torch.uint8).repeat_interleave(4).expand(3, 8, 8)
    spread = torch.stack(
        [ImageTransform(8, area=(1.0, 1.0), ratio=1.0, contrast=0.2)(halves, luck) for luck in lucks(100)]
    ).float()
    distance = (spread[..., 4] - spread[..., 3])[:, 0, 0]
    assert 80 <= distance.min() < 84
    assert 116 < distance.max() <= 120
    torch.testing.assert_close(spread.mean(dim=(1, 2, 3)), torch.full((100,), 100.0), atol=0.6, rtol=0)


def test_margins_stay_clean():
    black = torch.zeros(3, 20, 20, dtype=torch.uint8)
    shown = cut(black, Window(-10, -10, 40, 40), 80)
    assert (shown[:, 20:60, 20:60] == 0).all()
    assert shown.float().mean() == 255 * 0.75  # no grey between margin and picture


def test_wrong_settings_are_refused():
    for settings, message in [
        ({"area": (1.0, 0.5)}, "least <= greatest"),
        ({"ratio": 0.5}, "ratio"),
        ({"fit": "squash"}, "stretch"),
    ]:
        with pytest.raises(Exception, match=message):
            ImageTransform(8, **settings)
