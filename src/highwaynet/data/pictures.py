"""Single images: opens and decodes PNG, JPEG and WebP files safely, and converts images to the form that a network takes."""

import math
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

if TYPE_CHECKING:
    from PIL import Image

# Only these decoders are used, whatever the file's name: Pillow has others that start programs.
FORMATS = ("PNG", "JPEG", "WEBP")
MOST_PIXELS = 64_000_000
MOST_BYTES = 16 * 2**30
ORIENTATION_TAG = 0x0112


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


class BadImageError(InputError):
    """One image cannot be used; the others can."""


def read_images(images: Sequence["Path | Image.Image"], form: ImageForm) -> NDArray[np.uint8]:
    """Read images for prediction, (images, channels, height, width), converted to the form; raises InputError naming a bad one.

    Args:
        images: Files, or images of Pillow.
        form: The form of the training images.
    """
    need_pillow()
    if form.channels not in {1, 3}:
        raise InputError(f"image files have 1 or 3 channels, but the network takes {form.channels}: give the inputs as an array (.npy)")
    inputs = form.allocate(len(images))
    for row, image in enumerate(images):
        inputs[row] = decode(image, form, may_resize=True) if isinstance(image, Path) else _resized(image, form)
    return inputs


def is_image(value: object) -> bool:
    """Whether something is an image of Pillow; Pillow is not imported for that."""
    return all(hasattr(value, name) for name in ("mode", "size", "convert", "getexif"))


def _resized(image: "Image.Image", form: ImageForm) -> NDArray[np.uint8]:
    """Convert an image in memory to the form, (channels, height, width)."""
    try:
        image.load()
        return _pixels(_turned(image, orientation(image.getexif)), form, None)
    except (OSError, ValueError, SyntaxError) as error:
        raise InputError(f"an image cannot be decoded ({' '.join(str(error).split())[:120]})") from error


def need_pillow() -> None:
    """Raise HighwayError, which says how to install it, if Pillow is missing."""
    try:
        from PIL import Image  # noqa: F401
    except ImportError as error:
        raise HighwayError("reading images needs Pillow: install it with `pip install 'highwaynet[images]'`") from error


def mixed_sizes(first: Path | str, size: tuple[int, int], other: Path, other_size: tuple[int, int]) -> InputError:
    """Return the error for images of different sizes."""
    return InputError(
        f"the images have different sizes, height × width: {first} has {size[0]}×{size[1]} and {other} has {other_size[0]}×{other_size[1]}:"
        " resize them with `--resize 32x32`"
    )


@contextmanager
def opened(path: Path) -> Iterator["Image.Image"]:
    """Open an image, read its header and check its size; errors while it is open become BadImageError."""
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
        raise BadImageError(f"{path} is not a PNG, JPEG or WebP image that can be read") from error
    except Exception as error:  # for damaged files, decoders raise errors of many types
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise BadImageError(f"{path} cannot be decoded ({reason})") from error


def _file(path: Path) -> BinaryIO:
    """Open the file; raises BadImageError if it is missing, or a pipe, which would block."""
    try:
        if stat.S_ISREG(path.stat().st_mode):
            return path.open("rb")
    except OSError as error:
        raise BadImageError(str(cannot("read", path, error))) from error
    raise BadImageError(f"cannot read {path}: it is not a file")


def _refuse_large(image: "Image.Image", path: Path) -> None:
    if math.prod(image.size) > MOST_PIXELS:
        raise _too_large(path)


def _too_large(path: Path) -> BadImageError:
    return BadImageError(f"{path} has more than {MOST_PIXELS:,} pixels")


def orientation(read_exif: Callable[[], "Image.Exif"]) -> int:
    """Return the EXIF orientation, 1 to 8; 1 (upright) if there is none or it is damaged."""
    try:
        value = read_exif().get(ORIENTATION_TAG, 1)
    except Exception:  # damaged EXIF data raise errors of many types, and the pixels may be fine
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def decode(path: Path, form: ImageForm, *, may_resize: bool) -> NDArray[np.uint8]:
    """Decode the pixels, (channels, height, width): upright, on white, with the form's channels and size."""
    with opened(path) as image:
        image.load()
        return _pixels(_turned(image, orientation(image.getexif)), form, None if may_resize else path)


def _pixels(upright: "Image.Image", form: ImageForm, exact: Path | None) -> NDArray[np.uint8]:
    """Return the pixels of an upright image, (channels, height, width); with `exact`, the path, it must not be resized."""
    from PIL.Image import Resampling

    plain = _plain(upright, "L" if form.channels == 1 else "RGB")
    size = (form.width, form.height)
    if plain.size != size:
        if exact is not None:
            # Possible if a PNG stores its orientation after its pixels, which the first pass does not read.
            raise mixed_sizes("another image", (form.height, form.width), exact, (plain.height, plain.width))
        plain = plain.resize(size, Resampling.BILINEAR)
    return np.asarray(plain, np.uint8).reshape(form.height, form.width, form.channels).transpose(2, 0, 1)


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
