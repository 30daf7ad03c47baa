"""Augmentation: every pixel against a loop, and draws that depend on the generator alone."""

import pytest
import torch
import torch.nn.functional as F

from highwaynet.base.randomness import generator_for
from highwaynet.data.augmentation import Augmentation

IMAGES = torch.randint(1, 256, (64, 3, 7, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def apply(augmentation: Augmentation, images: torch.Tensor = IMAGES, seed: int = 0) -> torch.Tensor:
    return augmentation.apply(images, generator_for(seed, "test"))


@pytest.mark.parametrize("augmentation", [Augmentation(crop=2), Augmentation(mirror=True), Augmentation(2, True, 10)])
def test_same_draws_same_pixels_and_raw_images_untouched(augmentation: Augmentation) -> None:
    before = IMAGES.clone()
    first = apply(augmentation)
    assert torch.equal(first, apply(augmentation))
    assert not torch.equal(first, apply(augmentation, seed=1))
    assert first.shape == IMAGES.shape
    assert first.dtype == torch.uint8
    assert torch.equal(IMAGES, before)


def test_every_crop_is_a_window_of_the_padded_image_and_all_places_occur() -> None:
    padded = F.pad(IMAGES, (2, 2, 2, 2))
    places = set()
    for seed in range(8):
        for image, cropped in zip(padded, apply(Augmentation(crop=2), seed=seed), strict=True):
            found = [(y, x) for y in range(5) for x in range(5) if torch.equal(image[:, y : y + 7, x : x + 5], cropped)]
            assert len(found) == 1
            places.add(found[0])
    assert len(places) == 25


def test_crops_of_other_shapes_and_pads_do_not_meet() -> None:
    small, first = IMAGES[:9, :1, :4, :4], apply(Augmentation(crop=2))
    assert set(apply(Augmentation(crop=3), small).unique().tolist()) <= {0, *small.unique().tolist()}
    assert torch.equal(apply(Augmentation(crop=2)), first)
    whole = apply(Augmentation(crop=2), torch.full_like(IMAGES, 7))
    apply(Augmentation(crop=4), IMAGES[:, :, :3, :1])  # the same padded shape, another border
    assert torch.equal(apply(Augmentation(crop=2), torch.full_like(IMAGES, 7)), whole)
    assert whole.data_ptr() != apply(Augmentation(crop=2), IMAGES).data_ptr()


def test_mirroring_flips_about_half_of_them() -> None:
    flipped = [torch.equal(image.flip(2), new) for image, new in zip(IMAGES, apply(Augmentation(mirror=True)), strict=True)]
    kept = [torch.equal(image, new) for image, new in zip(IMAGES, apply(Augmentation(mirror=True)), strict=True)]
    assert all(a != b for a, b in zip(flipped, kept, strict=True))
    assert 16 < sum(flipped) < 48


def test_rotation_by_nothing_and_by_a_quarter() -> None:
    from highwaynet.data.augmentation import _rotate

    squares = IMAGES[:4, :, :5, :5]
    assert torch.equal(_rotate(squares, torch.zeros(4)), squares)
    quarter = _rotate(squares, torch.full((4,), torch.pi / 2))
    assert torch.equal(quarter, torch.rot90(squares, -1, (2, 3))) or torch.equal(quarter, torch.rot90(squares, 1, (2, 3)))


def test_rotation_of_an_oblong_image_keeps_lengths() -> None:
    from highwaynet.data.augmentation import _rotate

    image = torch.zeros(1, 1, 41, 81)
    image[0, 0, 20, 30:51] = 1.0  # a horizontal bar of 21 pixels
    turned = _rotate(image, torch.tensor([torch.pi / 2]))
    assert turned[0, 0, 10:31, 40].sum() == pytest.approx(21, abs=0.1)
    assert turned.sum() == pytest.approx(21, abs=0.5)


def test_angles_stay_within_the_limit() -> None:
    image = torch.zeros(1, 1, 101, 101)
    image[0, 0, 10, 50] = 255.0  # a dot above the centre
    for seed in range(10):
        y, x = divmod(int(apply(Augmentation(rotate=15.0), image, seed).flatten().argmax()), 101)
        angle = torch.atan2(torch.tensor(x - 50.0), torch.tensor(50.0 - y)).abs().rad2deg()
        assert angle <= 16.0


def test_nothing_to_do_is_false() -> None:
    assert not Augmentation()
    assert Augmentation(rotate=1.0)
