"""Reads the user's images: a folder of class folders with PNG, JPEG and WebP files. Imports Pillow only when images are read."""

import math
import os
import stat
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import HighwayError, InputError
from highwaynet.base.files import cannot
from highwaynet.data.samples import Samples

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp"})
# Only these decoders are used, whatever the file's name: Pillow has others that start programs.
FORMATS = ("PNG", "JPEG", "WEBP")
MOST_PIXELS = 64_000_000
MOST_BYTES = 16 * 2**30
GREY_MODES = frozenset({"1", "L", "LA", "I", "I;16", "I;16B", "I;16L"})
# Folders with these names are parts of a data set, not classes.
PART_NAMES = frozenset({"train", "training", "test", "testing", "val", "valid", "validation"})
ORIENTATION_TAG = 0x0112
MOST_HEADERS = 256


@dataclass(frozen=True)
class ImageForm:
    """The form to which every image of a data set is converted."""

    channels: int
    """1 for grey, 3 for red, green and blue."""
    height: int
    width: int

    def allocate(self, images: int) -> NDArray[np.uint8]:
        """Allocate an array for this many images, (images, channels, height, width); raises InputError if it exceeds 16 GiB."""
        shape = (images, self.channels, self.height, self.width)
        size = math.prod(shape)
        if size > MOST_BYTES:
            raise InputError(
                f"{images:,} images of {self.height}×{self.width} pixels need {size / 2**30:.1f} GiB, the limit is"
                f" {MOST_BYTES / 2**30:g}: use fewer or smaller images (`--resize 32x32`)"
            )
        try:
            return np.empty(shape, np.uint8)
        except MemoryError as error:
            raise InputError(f"{images:,} images of {self.height}×{self.width} pixels do not fit into memory: make them smaller") from error


@dataclass(frozen=True)
class _Header:
    """What the first pass reads of an image without decoding it; the sizes are those of the upright image."""

    path: Path
    label: int
    height: int
    width: int
    grey: bool


class _BadImageError(InputError):
    """One image cannot be used; the others can."""


def read_image_folder(
    folder: Path,
    *,
    resize: tuple[int, int] | None = None,
    colour: Literal["auto", "grey", "colour"] = "auto",
    skip_bad: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Samples, tuple[str, ...], list[Path], ImageForm]:
    """Read a folder that has a folder of images for every class; returns samples, class names, skipped files and form.

    Args:
        folder: Its sub-folders are the classes, in the order of their names; files next to them are ignored.
        resize: (height, width) to which every image is resized; without it, all must have the same size.
        colour: "auto" reads grey images if all of them are grey, otherwise colour images.
        skip_bad: Skip and list images that cannot be decoded, instead of raising InputError.
        progress: Called with (number of decoded images, total number).

    Raises:
        InputError: If the folder, or an image in it, cannot be used.
        HighwayError: If Pillow is not installed.
    """
    _need_pillow()
    if resize is not None and (min(resize) < 1 or math.prod(resize) > MOST_PIXELS):
        raise InputError(f"data.resize = {list(resize)}: height and width must be at least 1, and at most {MOST_PIXELS:,} pixels together")
    files = _class_files(folder)
    skipped: list[Path] = []
    headers = []
    for label, paths in enumerate(files.values()):
        for path in paths:
            with _bad_ones(skipped if skip_bad else None, path):
                headers.append(_read_header(path, label))
    _refuse_empty(folder, files, {header.label for header in headers})
    height, width = resize or _common_size(headers)
    grey = colour == "grey" or (colour == "auto" and all(header.grey for header in headers))
    form = ImageForm(1 if grey else 3, height, width)

    inputs = form.allocate(len(headers))  # (images, channels, height, width)
    labels: list[int] = []
    read: list[str] = []
    for done, header in enumerate(headers, start=1):
        with _bad_ones(skipped if skip_bad else None, header.path):
            inputs[len(labels)] = _decode(header.path, form, may_resize=resize is not None)
            labels.append(header.label)
            read.append(header.path.relative_to(folder).as_posix())
        if progress is not None:
            progress(done, len(headers))
    _refuse_empty(folder, files, set(labels))
    return Samples(inputs[: len(labels)], np.array(labels, np.int64), tuple(read)), tuple(files), skipped, form


def glance_at_images(folder: Path) -> tuple[dict[str, int], list[tuple[int, int]], bool]:
    """Read only headers, of up to 256 evenly spaced images: images of each class, sizes (height, width), and whether all are grey.

    Raises:
        InputError: If the folder cannot be used, or none of these images can be read.
        HighwayError: If Pillow is not installed.
    """
    _need_pillow()
    files = _class_files(folder)
    paths = [path for found in files.values() for path in found]
    step = max(1, len(paths) // MOST_HEADERS)
    headers: list[_Header] = []
    for path in paths[::step]:
        with _bad_ones([], path):
            headers.append(_read_header(path, 0))
    if not headers:
        raise InputError(f"{folder}: none of its images can be read")
    sizes = [(header.height, header.width) for header in headers]
    return {name: len(found) for name, found in files.items()}, sizes, all(header.grey for header in headers)


def read_images(paths: Sequence[Path], form: ImageForm) -> NDArray[np.uint8]:
    """Read images for prediction, (images, channels, height, width), converted to the form; raises InputError naming a bad one."""
    _need_pillow()
    if form.channels not in {1, 3}:
        raise InputError(f"image files have 1 or 3 channels, but the network takes {form.channels}: give the inputs as an array (.npy)")
    inputs = form.allocate(len(paths))
    for row, path in enumerate(paths):
        inputs[row] = _decode(path, form, may_resize=True)
    return inputs


def looks_like_image_folder(folder: Path) -> bool:
    """Whether a sub-folder has an image, judged by file names; gives up after 10,000 names."""
    left = 10_000
    pending = [folder]
    while pending:
        current = pending.pop()
        try:
            with os.scandir(current) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return False
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir():
                        pending.append(Path(entry.path))
                    elif current != folder and _has_image_suffix(entry.name):
                        return True
        except OSError:
            continue
    return False


def _need_pillow() -> None:
    """Raise HighwayError, which says how to install it, if Pillow is missing."""
    try:
        from PIL import Image  # noqa: F401
    except ImportError as error:
        raise HighwayError("reading images needs Pillow: install it with `pip install 'highwaynet[images]'`") from error


def _has_image_suffix(name: str) -> bool:
    return Path(name).suffix.lower() in SUFFIXES


def _class_files(folder: Path) -> dict[str, list[Path]]:
    """Return the image files of every class; classes and files are sorted."""
    try:
        root = folder.resolve(strict=True)
        classes = sorted(entry for entry in folder.iterdir() if not entry.name.startswith(".") and entry.is_dir())
    except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError before Python 3.13
        raise _unreadable(folder, error) from error
    if not classes:
        raise InputError(f"{folder} has no class folders: put the images of each class into a separate folder inside it")
    names = [entry.name for entry in classes]
    if set(names) <= PART_NAMES:
        raise InputError(f"{folder} has the parts {', '.join(names)} instead of classes: name a folder whose sub-folders are the classes")
    if len(classes) == 1:
        raise InputError(f"{folder} has only one class folder, {names[0]}: at least two classes are needed")
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"the name of the class folder {name!r} in {folder} is not UTF-8: rename it") from error
    files = {entry.name: images_below(entry, root) for entry in classes}
    for entry in classes:
        if not files[entry.name]:
            raise InputError(f"the class folder {entry} has no PNG, JPEG or WebP images: add some or remove it")
    return files


def images_below(top: Path, root: Path) -> list[Path]:
    """List the image files in a class folder and its sub-folders; raises InputError for a link to a place outside the root."""
    found: list[Path] = []
    seen: set[Path] = set()  # real paths of folders, so that links cannot cause an endless loop
    pending = [top]
    while pending:
        current = pending.pop()
        try:
            real = _inside(current, root)
            if real in seen:
                continue
            seen.add(real)
            for entry in current.iterdir():
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    pending.append(entry)
                elif _has_image_suffix(entry.name):
                    if entry.is_symlink():
                        _inside(entry, root)
                    found.append(entry)
        except (OSError, RuntimeError) as error:
            raise _unreadable(current, error) from error
    return sorted(found, key=lambda path: path.relative_to(top).parts)


def _inside(path: Path, root: Path) -> Path:
    """Return the real path; raises InputError if it is outside the root."""
    real = path.resolve()
    if not real.is_relative_to(root):
        raise InputError(f"{path} is a link to {real}, outside the image folder: put the images themselves there")
    return real


def _unreadable(folder: Path, error: OSError | RuntimeError) -> InputError:
    return cannot("read", folder, error) if isinstance(error, OSError) else InputError(f"cannot read {folder}: its links form a loop")


def _refuse_empty(folder: Path, files: dict[str, list[Path]], labels: set[int]) -> None:
    """Raise InputError for a class without a usable image."""
    for label, (name, paths) in enumerate(files.items()):
        if label not in labels:
            where = f"the class folder {folder / name}"
            raise InputError(f"none of the {len(paths)} images in {where} can be used: replace them or remove the folder")


@contextmanager
def _bad_ones(skipped: list[Path] | None, path: Path) -> Iterator[None]:
    """Add a bad image to `skipped`; raises InputError if that is None."""
    try:
        yield
    except _BadImageError as error:
        if skipped is None:
            raise InputError(f"{error}: replace it, or skip such files with `--skip-bad`") from error
        skipped.append(path)


def _common_size(headers: list[_Header]) -> tuple[int, int]:
    """Return the (height, width) of all images; raises InputError naming two that differ."""
    first = headers[0]
    for other in headers:
        if (other.height, other.width) != (first.height, first.width):
            raise _mixed_sizes(first.path, (first.height, first.width), other.path, (other.height, other.width))
    return first.height, first.width


def _mixed_sizes(first: Path | str, size: tuple[int, int], other: Path, other_size: tuple[int, int]) -> InputError:
    return InputError(
        f"the images have different sizes, height × width: {first} has {size[0]}×{size[1]} and {other} has {other_size[0]}×{other_size[1]}:"
        " resize them with `--resize 32x32`"
    )


@contextmanager
def _opened(path: Path) -> Iterator["Image.Image"]:
    """Open an image, read its header and check its size; errors while it is open become _BadImageError."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings(action="ignore"), _file(path) as stream, Image.open(stream, formats=FORMATS) as image:
            _refuse_large(image, path)
            yield image
    except InputError:
        raise
    except Image.DecompressionBombError as error:
        raise _too_large(path) from error
    except UnidentifiedImageError as error:
        raise _BadImageError(f"{path} is not a PNG, JPEG or WebP image that can be read") from error
    except Exception as error:  # for damaged files, decoders raise errors of many types
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise _BadImageError(f"{path} cannot be decoded ({reason})") from error


def _file(path: Path) -> BinaryIO:
    """Open the file; raises _BadImageError if it is missing, or a pipe, which would block."""
    try:
        if stat.S_ISREG(path.stat().st_mode):
            return path.open("rb")
    except OSError as error:
        raise _BadImageError(str(cannot("read", path, error))) from error
    raise _BadImageError(f"cannot read {path}: it is not a file")


def _refuse_large(image: "Image.Image", path: Path) -> None:
    if math.prod(image.size) > MOST_PIXELS:
        raise _too_large(path)


def _too_large(path: Path) -> _BadImageError:
    return _BadImageError(f"{path} has more than {MOST_PIXELS:,} pixels")


def _read_header(path: Path, label: int) -> _Header:
    from PIL import Image

    with _opened(path) as image:
        width, height = image.size
        # The base class's method, because that of PNG files would decode the pixels.
        if _orientation(lambda: Image.Image.getexif(image)) >= 5:
            width, height = height, width
        return _Header(path, label, height, width, image.mode in GREY_MODES)


def _orientation(read_exif: Callable[[], "Image.Exif"]) -> int:
    """Return the EXIF orientation, 1 to 8; 1 (upright) if there is none or it is damaged."""
    try:
        value = read_exif().get(ORIENTATION_TAG, 1)
    except Exception:  # damaged EXIF data raise errors of many types, and the pixels may be fine
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _decode(path: Path, form: ImageForm, *, may_resize: bool) -> NDArray[np.uint8]:
    """Decode the pixels, (channels, height, width): upright, on white, with the form's channels and size."""
    from PIL.Image import Resampling

    with _opened(path) as image:
        image.load()
        upright = _turned(image, _orientation(image.getexif))
        plain = _plain(upright, "L" if form.channels == 1 else "RGB")
        size = (form.width, form.height)
        if plain.size != size:
            if not may_resize:
                # Possible if a PNG stores its orientation after its pixels, which the first pass does not read.
                raise _mixed_sizes("another image", (form.height, form.width), path, (plain.height, plain.width))
            plain = plain.resize(size, Resampling.BILINEAR)
        pixels = np.asarray(plain, np.uint8).reshape(form.height, form.width, form.channels)
    return pixels.transpose(2, 0, 1)


def _turned(image: "Image.Image", orientation: int) -> "Image.Image":
    """Return the image turned upright."""
    from PIL.Image import Transpose

    turns = ("FLIP_LEFT_RIGHT", "ROTATE_180", "FLIP_TOP_BOTTOM", "TRANSPOSE", "ROTATE_270", "TRANSVERSE", "ROTATE_90")  # for 2 to 8
    return image if orientation == 1 else image.transpose(Transpose[turns[orientation - 2]])


def _plain(image: "Image.Image", mode: Literal["L", "RGB"]) -> "Image.Image":
    """Convert the image to this mode, with 8 bits and without transparency."""
    from PIL import Image

    if image.mode.startswith("I"):
        deep = np.asarray(image).clip(0, 65535).astype(np.uint32)
        image = Image.fromarray(((deep + 128) // 257).astype(np.uint8))  # 65535 = 255 · 257, so this rounds to the nearest
    if image.mode in {"LA", "La", "PA", "RGBA", "RGBa"} or "transparency" in image.info:
        opaque = Image.new("RGBA", image.size, "white")
        opaque.alpha_composite(image.convert("RGBA"))
        image = opaque
    return image.convert(mode)
