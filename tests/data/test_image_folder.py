"""Folders of images: exact pixels, colours, orientation, sizes, and one sentence for every bad folder or file."""

import os
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from highwaynet.base.errors import HighwayError, InputError
from highwaynet.data import pictures
from highwaynet.data.image_folder import looks_like_image_folder, read_image_folder
from highwaynet.data.pictures import ImageForm, read_images

FUZZ = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
GREY = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20  # (height, width)
COLOUR = np.arange(36, dtype=np.uint8).reshape(3, 4, 3) * 7  # (height, width, channels)


def save(path: Path, pixels: np.ndarray = GREY, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def two_classes(folder: Path) -> Path:
    save(folder / "cat" / "1.png", GREY)
    save(folder / "dog" / "1.png", GREY + 1)
    return folder


def png(width: int, height: int, *chunks: tuple[bytes, bytes], depth: int = 8, kind: int = 0) -> bytes:
    """A PNG file from its chunks, for what Pillow does not write."""
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)
    whole = b"\x89PNG\r\n\x1a\n"
    for name, content in ((b"IHDR", header), *chunks, (b"IEND", b"")):
        whole += struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    return whole


def refusal(folder: Path, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        read_image_folder(folder, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_pixels_are_exact_and_classes_sorted(tmp_path: Path) -> None:
    for name, value in (("b/2.png", 20), ("b/10.PNG", 10), ("a/x.png", 1), ("b/sub/1.png", 30), ("B/y.png", 2), ("b/3.png", 40)):
        save(tmp_path / name, GREY + value)
    samples, names, skipped, form = read_image_folder(tmp_path)
    assert names == ("B", "a", "b")
    assert samples.targets.dtype == np.int64
    assert samples.targets.tolist() == [0, 1, 2, 2, 2, 2]
    assert samples.inputs.dtype == np.uint8
    assert samples.inputs.shape == (6, 1, 3, 4)
    assert np.array_equal(samples.inputs[:, 0], [GREY + value for value in (2, 1, 10, 20, 40, 30)])
    assert (skipped, form) == ([], ImageForm(1, 3, 4))


def test_hidden_files_other_suffixes_and_loose_files_are_not_read(tmp_path: Path) -> None:
    two_classes(tmp_path)
    for name in ("cat/.hidden.png", ".git/x.png", "cat/.cache/x.png", "cat/notes.txt", "cat/x.gif", "loose.png", "cat/png"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"no image")
    samples, names, _, _ = read_image_folder(tmp_path)
    assert (len(samples), names) == (2, ("cat", "dog"))


def test_jpeg_and_webp_are_read(tmp_path: Path) -> None:
    flat = np.full((16, 16, 3), (200, 100, 50), np.uint8)
    save(tmp_path / "a" / "1.JPG", flat, quality=95)
    save(tmp_path / "a" / "2.jpeg", flat, quality=95)
    save(tmp_path / "b" / "1.webp", COLOUR.repeat(6, 0)[:16].repeat(4, 1), lossless=True)
    samples, _, _, form = read_image_folder(tmp_path)
    assert form == ImageForm(3, 16, 16)
    assert np.abs(samples.inputs[:2].astype(int) - np.array([200, 100, 50]).reshape(1, 3, 1, 1)).max() <= 3
    assert np.array_equal(samples.inputs[2].transpose(1, 2, 0), COLOUR.repeat(6, 0)[:16].repeat(4, 1))


def test_one_colour_image_makes_all_colour(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.png", GREY)
    save(tmp_path / "b" / "1.png", COLOUR)
    samples, _, _, form = read_image_folder(tmp_path)
    assert form.channels == 3
    assert np.array_equal(samples.inputs[0], np.stack([GREY] * 3))
    assert np.array_equal(samples.inputs[1], COLOUR.transpose(2, 0, 1))


def test_the_colours_can_be_chosen(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.png", GREY)
    save(tmp_path / "b" / "1.png", COLOUR)
    grey = read_image_folder(tmp_path, colour="grey")[0].inputs
    assert grey.shape == (2, 1, 3, 4)
    assert np.array_equal(grey[0, 0], GREY)
    assert np.abs(grey[1, 0] - COLOUR @ [0.299, 0.587, 0.114]).max() <= 0.51
    assert read_image_folder(two_classes(tmp_path / "grey"), colour="colour")[3].channels == 3


def test_every_grey_mode_becomes_eight_bits(tmp_path: Path) -> None:
    deep = np.array([[0, 128, 129, 257], [25700, 32767, 65406, 65535]], np.uint16)
    save(tmp_path / "a" / "1-deep.png", deep)
    save(tmp_path / "a" / "2-bits.png", np.array([[True, False, True, True], [False, False, True, False]]))
    alpha = np.array([[[100, 255], [100, 0], [100, 51], [0, 128]]] * 2, np.uint8)
    save(tmp_path / "b" / "1-alpha.png", alpha)
    (tmp_path / "b" / "2-key.png").write_bytes(  # the grey value 7 is transparent
        png(4, 2, (b"tRNS", b"\0\7"), (b"IDAT", zlib.compress(b"\0\1\7\2\3" * 2)))
    )
    samples, _, _, form = read_image_folder(tmp_path)
    assert form == ImageForm(1, 2, 4)
    assert samples.inputs[0, 0].tolist() == [[0, 0, 1, 1], [100, 127, 254, 255]]
    assert samples.inputs[1, 0].tolist() == [[255, 0, 255, 255], [0, 0, 255, 0]]
    assert samples.inputs[2, 0].tolist() == [[100, 255, 224, 127]] * 2  # on white
    assert samples.inputs[3, 0].tolist() == [[1, 255, 2, 3]] * 2


def test_transparency_palettes_and_cmyk(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.png", np.array([[[10, 20, 30, 255], [10, 20, 30, 0], [100, 0, 200, 51]]], np.uint8))
    palette = Image.frombytes("P", (3, 1), b"\0\1\2")
    palette.putpalette([255, 0, 0, 0, 255, 0, 7, 8, 9])
    palette.save(tmp_path / "a" / "2.png", transparency=b"\xff\x00\xff")
    (tmp_path / "b").mkdir()
    Image.new("CMYK", (3, 1), (0, 255, 255, 0)).save(tmp_path / "b" / "1.jpg", quality=100)
    inputs = read_image_folder(tmp_path)[0].inputs.transpose(0, 2, 3, 1)
    assert inputs[0, 0].tolist() == [[10, 20, 30], [255, 255, 255], [224, 204, 244]]
    assert inputs[1, 0].tolist() == [[255, 0, 0], [255, 255, 255], [7, 8, 9]]
    assert np.abs(inputs[2, 0].astype(int) - [255, 0, 0]).max() <= 2


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["png", "webp", "jpg"])
def test_images_are_turned_upright(tmp_path: Path, suffix: str, orientation: int) -> None:
    upright = np.zeros((16, 32, 3), np.uint8)  # one white quarter and one grey one: every turn shows
    upright[:8, :16] = 255
    upright[8:, :16] = 128
    # What a camera stores, so that the orientation turns it into the upright image: the definitions of EXIF.
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: np.rot90(upright, 1),
        7: upright[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"png": {}, "webp": {"lossless": True}, "jpg": {"quality": 95}}[suffix]
    save(tmp_path / "a" / f"1.{suffix}", np.ascontiguousarray(stored), exif=exif, **options)
    save(tmp_path / "b" / "1.png", upright)
    samples, _, _, form = read_image_folder(tmp_path)
    assert form == ImageForm(3, 16, 32)
    assert np.abs(samples.inputs[0].astype(int) - samples.inputs[1]).max() <= (3 if suffix == "jpg" else 0)


def test_orientation_behind_the_pixels_counts_too(tmp_path: Path) -> None:
    exif = b"MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    late = png(4, 3, (b"IDAT", zlib.compress(b"".join(b"\0" + row.tobytes() for row in GREY))), (b"eXIf", exif))
    two_classes(tmp_path)
    (tmp_path / "cat" / "1.png").write_bytes(late)
    assert "--resize" in refusal(tmp_path)
    inputs = read_images([tmp_path / "cat" / "1.png"], ImageForm(1, 4, 3))
    assert np.array_equal(inputs[0, 0], np.rot90(GREY, -1))


def test_damaged_exif_leaves_the_pixels(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.png", GREY, exif=b"MM\0\x2a\xff\xff\xff\xff broken")
    save(tmp_path / "b" / "1.png", GREY)
    assert np.array_equal(read_image_folder(tmp_path)[0].inputs[0, 0], GREY)


def test_resize_is_antialiased(tmp_path: Path) -> None:
    stripes = np.tile(np.array([0, 255], np.uint8), (64, 32))  # without antialiasing, all 0 or all 255
    save(tmp_path / "a" / "1.png", stripes)
    save(tmp_path / "b" / "1.png", np.full((10, 20), 77, np.uint8))
    samples, _, _, form = read_image_folder(tmp_path, resize=(4, 8))
    assert form == ImageForm(1, 4, 8)
    assert np.abs(samples.inputs[0].astype(int) - 127).max() <= 8
    assert (samples.inputs[1] == 77).all()


def test_progress_counts_images(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    read_image_folder(two_classes(tmp_path), progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]


def test_mixed_sizes_are_refused_with_two_names(tmp_path: Path) -> None:
    two_classes(tmp_path)
    save(tmp_path / "dog" / "2.png", np.zeros((7, 9), np.uint8))
    said = refusal(tmp_path)
    assert f"{tmp_path / 'cat' / '1.png'} has 3×4 and {tmp_path / 'dog' / '2.png'} has 7×9" in said
    assert "`--resize 32x32`" in said


@pytest.mark.parametrize("resize", [(0, 4), (4, -1), (100_000, 100_000)])
def test_a_resize_rule_must_make_sense(tmp_path: Path, resize: tuple[int, int]) -> None:
    assert f"data.resize = {list(resize)}" in refusal(two_classes(tmp_path), resize=resize)


BAD = {
    "text": b"not an image",
    "empty": b"",
    "cut header": png(4, 3)[:20],
    "no pixels": png(4, 3),
    "cut pixels": png(4, 3, (b"IDAT", zlib.compress(bytes(15))[:-9])),
    "gif": b"GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\1\0\1\0\0\2\2D\1\0;",
    "too large": png(10_000, 6_401, (b"IDAT", b"")),
    "much too large": png(2**30, 2**30, (b"IDAT", b"")),
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD.keys())
def test_a_bad_image_is_refused_or_skipped(tmp_path: Path, content: bytes) -> None:
    two_classes(tmp_path)
    bad = tmp_path / "cat" / "0.png"
    bad.write_bytes(content)
    said = refusal(tmp_path)
    assert str(bad) in said
    assert "`--skip-bad`" in said
    samples, _, skipped, _ = read_image_folder(tmp_path, skip_bad=True)
    assert skipped == [bad]
    assert samples.inputs.shape == (2, 1, 3, 4)
    assert np.array_equal(samples.inputs[:, 0], [GREY, GREY + 1])
    assert samples.targets.tolist() == [0, 1]
    with pytest.raises(InputError) as caught:
        read_images([bad], ImageForm(1, 3, 4))
    assert str(bad) in str(caught.value)


@pytest.mark.parametrize("content", [BAD["text"], BAD["no pixels"]])
def test_a_class_without_a_good_image_is_refused(tmp_path: Path, content: bytes) -> None:
    two_classes(tmp_path)
    (tmp_path / "dog" / "1.png").write_bytes(content)
    assert f"none of the 1 images in the class folder {tmp_path / 'dog'}" in refusal(tmp_path, skip_bad=True)


def test_the_pixel_limit_is_said(tmp_path: Path) -> None:
    two_classes(tmp_path)
    (tmp_path / "dog" / "1.png").write_bytes(BAD["too large"])
    assert "1.png has more than 64,000,000 pixels" in refusal(tmp_path)


def test_the_whole_is_limited_before_it_is_allocated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MOST_BYTES", 23)
    assert "2 images of 3×4 pixels need" in refusal(two_classes(tmp_path))
    with pytest.raises(InputError, match="the limit is"):
        read_images([tmp_path / "cat" / "1.png"], ImageForm(1, 5, 5))


def test_folders_without_classes_are_refused(tmp_path: Path) -> None:
    assert "no class folders" in refusal(tmp_path)
    save(tmp_path / "loose.png")
    assert "no class folders" in refusal(tmp_path)
    save(tmp_path / "cat" / "1.png")
    assert "only one class folder, cat" in refusal(tmp_path)
    (tmp_path / "dog").mkdir()
    assert f"the class folder {tmp_path / 'dog'} has no PNG, JPEG or WebP images" in refusal(tmp_path)
    assert "no such file" in refusal(tmp_path / "nowhere")
    assert "not a directory" in refusal(tmp_path / "loose.png")


def test_parts_are_not_taken_for_classes(tmp_path: Path) -> None:
    two_classes(tmp_path / "train")
    two_classes(tmp_path / "test")
    assert "has the parts test, train instead of classes" in refusal(tmp_path)


def test_links_that_lead_outside_are_refused(tmp_path: Path) -> None:
    outside = save(tmp_path / "outside" / "secret.png")
    for name, target in (("cat/2.png", outside), ("cat/more", outside.parent), ("bird", outside.parent)):
        folder = two_classes(tmp_path / f"for-{name.replace('/', '-')}")
        (folder / name).symlink_to(target)
        said = refusal(folder, skip_bad=True)
        assert f"{folder / name} is a link to " in said


def test_links_inside_are_followed_and_circles_end(tmp_path: Path) -> None:
    folder = two_classes(tmp_path / "real")
    (folder / "dog" / "2.png").symlink_to("../cat/1.png")
    (folder / "dog" / "again").symlink_to("../dog")
    (tmp_path / "linked").symlink_to(folder)
    samples = read_image_folder(tmp_path / "linked")[0]
    assert samples.targets.tolist() == [0, 1, 1]
    assert np.array_equal(samples.inputs[2, 0], GREY)
    (folder / "dog" / "3.png").symlink_to("3.png")
    said = refusal(folder)
    assert "loop" in said or "too many levels" in said


def test_dangling_links_and_pipes_are_bad_images(tmp_path: Path) -> None:
    two_classes(tmp_path)
    (tmp_path / "cat" / "2.png").symlink_to("missing.png")
    os.mkfifo(tmp_path / "dog" / "2.png")
    assert "2.png: no such file or directory" in refusal(tmp_path)
    assert read_image_folder(tmp_path, skip_bad=True)[2] == [tmp_path / "cat" / "2.png", tmp_path / "dog" / "2.png"]
    (tmp_path / "cat" / "2.png").unlink()
    assert "it is not a file" in refusal(tmp_path)


def test_class_names_must_be_text(tmp_path: Path) -> None:
    two_classes(tmp_path)
    try:
        save(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")) / "1.png")
    except OSError:
        pytest.skip("this file system has only UTF-8 names")
    assert "is not UTF-8: rename it" in refusal(tmp_path)


def test_images_for_prediction_are_brought_to_the_form(tmp_path: Path) -> None:
    paths = [
        save(tmp_path / "grey.png", GREY),
        save(tmp_path / "colour.png", COLOUR),
        save(tmp_path / "flat.png", np.full((9, 9), 50, np.uint8)),
    ]
    inputs = read_images(paths, ImageForm(3, 3, 4))
    assert (inputs.dtype, inputs.shape) == (np.uint8, (3, 3, 3, 4))
    assert np.array_equal(inputs[0], np.stack([GREY] * 3))
    assert np.array_equal(inputs[1], COLOUR.transpose(2, 0, 1))
    assert (inputs[2] == 50).all()
    assert np.array_equal(read_images(paths[:1], ImageForm(1, 3, 4))[0, 0], GREY)


def test_images_for_prediction_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*gone\.png: no such file or directory$"):
        read_images([tmp_path / "gone.png"], ImageForm(1, 3, 4))
    with pytest.raises(InputError, match="it is not a file"):
        read_images([tmp_path], ImageForm(1, 3, 4))
    with pytest.raises(InputError, match="but the network takes 2"):
        read_images([save(tmp_path / "1.png")], ImageForm(2, 3, 4))


def test_image_folders_are_recognised(tmp_path: Path) -> None:
    assert not looks_like_image_folder(tmp_path)
    assert not looks_like_image_folder(tmp_path / "nowhere")
    save(tmp_path / "1.png")
    save(tmp_path / ".hidden" / "1.png")
    assert not looks_like_image_folder(tmp_path)
    assert not looks_like_image_folder(tmp_path / "1.png")
    (tmp_path / "cat" / "deep").mkdir(parents=True)
    assert not looks_like_image_folder(tmp_path)
    (tmp_path / "cat" / "deep" / "x.JPEG").touch()
    assert looks_like_image_folder(tmp_path)


def test_pillow_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_classes(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(HighwayError, match=r"pip install 'highwaynet\[images\]'"):
        read_image_folder(tmp_path)
    with pytest.raises(HighwayError, match="Pillow"):
        read_images([], ImageForm(1, 3, 4))


@FUZZ
@given(data=st.data(), suffix=st.sampled_from(["png", "jpg", "webp"]))
def test_damaged_images_give_a_sentence_or_pixels(tmp_path: Path, data: st.DataObject, suffix: str) -> None:
    path = save(tmp_path / f"whole.{suffix}", COLOUR.repeat(4, 0).repeat(4, 1))
    content = bytearray(path.read_bytes())
    for position, value in data.draw(st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), max_size=8)):
        content[position] = value
    path = tmp_path / f"damaged.{suffix}"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content)
    said = ""
    try:
        assert read_images([path], ImageForm(3, 12, 16)).shape == (1, 3, 12, 16)
    except InputError as error:
        said = str(error)
    assert "\n" not in said
    assert not said or str(path) in said
