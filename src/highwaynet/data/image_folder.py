"""Reads the user's images: a folder of class folders with PNG, JPEG and WebP files. Imports Pillow only when images are read."""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from highwaynet.base.errors import InputError
from highwaynet.base.files import cannot
from highwaynet.data.pictures import MOST_PIXELS, BadImageError, ImageForm, decode, mixed_sizes, need_pillow, opened, orientation
from highwaynet.data.samples import Samples

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp"})
GREY_MODES = frozenset({"1", "L", "LA", "I", "I;16", "I;16B", "I;16L"})
# Folders with these names are parts of a data set, not classes.
PART_NAMES = frozenset({"train", "training", "test", "testing", "val", "valid", "validation"})
MOST_HEADERS = 256


@dataclass(frozen=True)
class _Header:
    """What the first pass reads of an image without decoding it; the sizes are those of the upright image."""

    path: Path
    label: int
    height: int
    width: int
    grey: bool


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
    need_pillow()
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
            inputs[len(labels)] = decode(header.path, form, may_resize=resize is not None)
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
    need_pillow()
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
    except BadImageError as error:
        if skipped is None:
            raise InputError(f"{error}: replace it, or skip such files with `--skip-bad`") from error
        skipped.append(path)


def _common_size(headers: list[_Header]) -> tuple[int, int]:
    """Return the (height, width) of all images; raises InputError naming two that differ."""
    first = headers[0]
    for other in headers:
        if (other.height, other.width) != (first.height, first.width):
            raise mixed_sizes(first.path, (first.height, first.width), other.path, (other.height, other.width))
    return first.height, first.width


def _read_header(path: Path, label: int) -> _Header:
    from PIL import Image

    with opened(path) as image:
        width, height = image.size
        # The base class's method, because that of PNG files would decode the pixels.
        if orientation(lambda: Image.Image.getexif(image)) >= 5:
            width, height = height, width
        return _Header(path, label, height, width, image.mode in GREY_MODES)
