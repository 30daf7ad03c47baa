"""Unpacking archives that came from elsewhere: nothing outside the folder, nothing without a bound, nothing left half done."""

import gzip
import io
import os
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, cast

from highwaynet.base.errors import InputError
from highwaynet.base.files import cannot

CHUNK = 1 << 20
LONGEST_NAME = 255
UNUSABLE = "is no usable file name"
# Room for headers and padding that an honest archive needs besides its files: tar pads to records of 10 KiB.
OVERHEAD = 10_240

# What the standard library raises on damaged gzip streams and tar headers.
_DAMAGE = (
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    ValueError,
    TypeError,
    ArithmeticError,
    LookupError,
    RecursionError,
)


def unpack_tar(path: Path, destination: Path, *, size_limit: int, member_limit: int) -> list[Path]:
    """Unpack a tar archive, plain or gzipped, into a new folder, which appears whole or not at all.

    Only regular files and folders are taken; owners, permissions and times of the archive are not.

    Args:
        path: The archive.
        destination: The folder to make; it must not exist.
        size_limit: How many bytes the files may have together, counted while they are unpacked.
        member_limit: How many files and folders the archive may hold.

    Returns:
        The files, in the archive's order.

    Raises:
        InputError: The archive is damaged, too large, or holds what it must not hold; or the folder cannot be made.
    """
    if destination.exists() or destination.is_symlink():
        raise InputError(f"cannot unpack {path}: {destination} exists already; remove it first")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        # The temporary folder is closed to others, so what becomes the destination is a folder within it.
        with TemporaryDirectory(dir=destination.parent, prefix=f".{destination.name}-") as temporary:
            content = Path(temporary) / "content"
            content.mkdir()
            names = _unpack(path, content, size_limit, member_limit)
            content.rename(destination)
    except _DAMAGE as error:
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise InputError(f"{path} is damaged or not a tar archive ({reason}): delete it and get it again") from error
    except OSError as error:
        raise cannot("unpack", path, error) from error
    return [destination.joinpath(*name.parts) for name in names]


def _unpack(path: Path, content: Path, size_limit: int, member_limit: int) -> list[PurePosixPath]:
    names: list[PurePosixPath] = []
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        source = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if zipped else file
        stream = _ForwardReader(source, path, size_limit + OVERHEAD * (member_limit + 1))
        with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r:") as archive:
            for count, member in enumerate(archive, start=1):
                if count > member_limit:
                    raise InputError(f"{path} holds more than {member_limit} files and folders: it is not the archive that is expected")
                name = _safe_name(path, member, content)
                target = content.joinpath(*name.parts)
                if member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                size_limit -= _copy(archive, member, target, size_limit, path)
                names.append(name)
        # tarfile takes a damaged header for the end; the real end is a block of zeros.
        if stream.last_read != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("the end is missing")
        while stream.read(CHUNK):
            pass  # gzip compares its checksum at the end of the stream
    if not names:
        raise InputError(f"{path} holds no file: it is not the archive that is expected")
    return names


def _safe_name(path: Path, member: tarfile.TarInfo, content: Path) -> PurePosixPath:
    """The member's name, if the member may be unpacked."""
    shown = f"{path} holds {member.name[:80]!r}, which"
    if member.type not in {tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE} or member.issparse():
        raise InputError(f"{shown} is neither a plain file nor a folder: it is not unpacked")
    name = PurePosixPath(member.name)
    if wrong := wrong_name(member.name):
        raise InputError(f"{shown} {wrong}: it is not unpacked")
    if not name.parts and not member.isdir():
        raise InputError(f"{shown} {UNUSABLE}: it is not unpacked")
    if hasattr(tarfile, "data_filter"):  # Python 3.11.4 and later
        tarfile.data_filter(member, str(content))
    return name


def wrong_name(name: str) -> str | None:
    """What is wrong with the name of an archive's member, as the end of a sentence; None if it can be used."""
    path = PurePosixPath(name)
    # A backslash or a colon would lead elsewhere on Windows.
    if path.is_absolute() or ".." in path.parts or any(sign in name for sign in "\\:\0"):
        return "leads out of the folder"
    return UNUSABLE if len(name) > LONGEST_NAME else None


def _copy(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path, size_limit: int, path: Path) -> int:
    """Write a member to a new file and return the number of its bytes."""
    source = archive.extractfile(member)
    if source is None:
        raise tarfile.ReadError(f"{member.name!r} has no content")
    size = 0
    try:
        stream = target.open("xb")
    except FileExistsError:
        raise InputError(f"{path} holds {member.name!r} twice: it is not unpacked") from None
    with source, stream:
        while chunk := source.read(CHUNK):
            size += len(chunk)
            if size > size_limit:
                raise _too_large(path)
            stream.write(chunk)
        stream.flush()
        os.fsync(stream.fileno())
    return size


def _too_large(path: Path) -> InputError:
    return InputError(f"{path} unpacks to more bytes than expected: it is not the archive that is expected")


class _ForwardReader(io.BufferedIOBase):
    """What tarfile reads from: never backwards, never much at once, and never more than a limit, whatever the headers say.

    Headers can claim any length, and tarfile reads long names and the like into memory at once. Negative lengths can lead it
    back to where it was, for ever.
    """

    def __init__(self, source: IO[bytes], path: Path, limit: int) -> None:
        super().__init__()
        self._source, self._path, self._limit = source, path, limit
        self._position = 0
        self.last_read = b""

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes."""
        # Files are copied in chunks, so only a header can ask for more.
        if size is None or not 0 <= size <= CHUNK:
            raise tarfile.ReadError(f"a header claims {size} bytes")
        self.last_read = self._source.read(size)
        self._position += len(self.last_read)
        if self._position > self._limit:
            raise _too_large(self._path)
        return self.last_read

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Skip to a place further on."""
        if whence != io.SEEK_SET or offset < self._position:
            raise tarfile.ReadError("headers that point backwards")
        while self._position < offset and self.read(min(CHUNK, offset - self._position)):
            pass
        return self._position

    def tell(self) -> int:
        """The place of the next byte."""
        return self._position

    def seekable(self) -> bool:
        """Forwards, yes."""
        return True

    def readable(self) -> bool:
        """Always."""
        return True
