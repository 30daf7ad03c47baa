"""Safe unpacking of downloaded archives: nothing outside the folder, limited sizes, and no partial results."""

import gzip
import io
import os
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, cast

from highwaynet.base.errors import InputError
from highwaynet.base.files import cannot, refuse_pipe

CHUNK = 1 << 20
LONGEST_NAME = 255
UNUSABLE = "is not a usable file name"
# Allowance for headers and padding in a regular archive: tar pads to records of 10 KiB.
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
    """Unpack a tar archive, plain or gzipped, into a new folder, which is complete or not created at all.

    Only regular files and folders are unpacked. Owners, permissions and times in the archive are ignored.

    Args:
        path: The archive.
        destination: The folder to create; it must not exist.
        size_limit: Maximal total size of the files in bytes, counted while they are unpacked.
        member_limit: Maximal number of files and folders.

    Returns:
        The files, in the order of the archive.

    Raises:
        InputError: If the archive is damaged, too large or has members that are not allowed, or the folder cannot be created.
    """
    if destination.exists() or destination.is_symlink():
        raise InputError(f"cannot unpack {path}: {destination} already exists; remove it first")
    refuse_pipe(path)
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        # Other users cannot open the temporary folder, so that a folder inside it becomes the destination.
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
                    raise InputError(f"{path} contains more than {member_limit} files and folders: it is not the expected archive")
                name = _safe_name(path, member, content)
                target = content.joinpath(*name.parts)
                if member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                size_limit -= _copy(archive, member, target, size_limit, path)
                names.append(name)
        # tarfile treats a damaged header as the end; the real end is a block of zeros.
        if stream.last_read != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("the end is missing")
        while stream.read(CHUNK):
            pass  # gzip compares its checksum at the end of the stream
    if not names:
        raise InputError(f"{path} contains no file: it is not the expected archive")
    return names


def _safe_name(path: Path, member: tarfile.TarInfo, content: Path) -> PurePosixPath:
    """Return the member's name; raises InputError if the member must not be unpacked."""
    shown = f"{path} contains {member.name[:80]!r}, which"
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
    """Return what is wrong with the name of a member, as the end of a sentence; None if it can be used."""
    path = PurePosixPath(name)
    # On Windows, a backslash or a colon can point outside the folder.
    if path.is_absolute() or ".." in path.parts or any(sign in name for sign in "\\:\0"):
        return "points outside the folder"
    return UNUSABLE if len(name) > LONGEST_NAME else None


def _copy(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path, size_limit: int, path: Path) -> int:
    """Write a member to a new file and return its size in bytes."""
    source = archive.extractfile(member)
    if source is None:
        raise tarfile.ReadError(f"{member.name!r} has no content")
    size = 0
    try:
        stream = target.open("xb")
    except FileExistsError:
        raise InputError(f"{path} contains {member.name!r} twice: it is not unpacked") from None
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
    return InputError(f"{path} unpacks to more bytes than expected: it is not the expected archive")


class _ForwardReader(io.BufferedIOBase):
    """A stream for tarfile that reads only forwards, in small pieces, and not more than a limit, whatever the headers say.

    Headers can claim any length, and tarfile reads long names into memory as a whole. Negative lengths could make it loop for ever.
    """

    def __init__(self, source: IO[bytes], path: Path, limit: int) -> None:
        super().__init__()
        self._source, self._path, self._limit = source, path, limit
        self._position = 0
        self.last_read = b""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read the next bytes; raises tarfile.ReadError for more than a chunk."""
        # Files are copied in chunks, so only a header can ask for more.
        if size is None or not 0 <= size <= CHUNK:
            raise tarfile.ReadError(f"a header claims {size} bytes")
        self.last_read = self._source.read(size)
        self._position += len(self.last_read)
        if self._position > self._limit:
            raise _too_large(self._path)
        return self.last_read

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Skip forwards to a position; raises tarfile.ReadError for a position behind."""
        if whence != io.SEEK_SET or offset < self._position:
            raise tarfile.ReadError("headers that point backwards")
        while self._position < offset and self.read(min(CHUNK, offset - self._position)):
            pass
        return self._position

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._position

    def seekable(self) -> bool:
        """Return True: `seek` works forwards."""
        return True

    def readable(self) -> bool:
        """Return True."""
        return True
