"""Downloads the public data sets: resumable, with checksums, and never with a partial file under the final name. Does not import torch."""

import hashlib
import http.client
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from io import BufferedRandom
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from highwaynet.base.errors import HighwayError, InputError
from highwaynet.base.files import cannot
from highwaynet.data.archives import unpack_tar
from highwaynet.data.remote import FileState, RemoteSet, addresses, digest, new_md5, remote_set, survey

if sys.platform != "win32":
    import fcntl

FileProgress = Callable[[int, int | None], None]
SetProgress = Callable[[str, int, int | None], None]

CHUNK = 1 << 18
RETRIES = 5
"""How often a connection to a mirror may break before the next mirror is tried."""
PAUSE = 0.5
"""Seconds before the first retry; each further retry waits this much longer."""
# CIFAR's archives contain at most eight files, 184.4 million bytes.
UNPACKED_LIMIT = 250_000_000
MEMBER_LIMIT = 32


class DownloadError(HighwayError):
    """No mirror delivered a file. The message gives the reason, and on two more lines how to download it by hand."""

    def __init__(self, why: str, folder: Path, names: Sequence[str]) -> None:
        super().__init__(f"{why}\nBy hand: put the files named below into {folder}, and start again.\n{', '.join(names)}")
        self.why = why


class _MirrorError(Exception):
    """This mirror does not deliver the file; the message says why."""


class _BrokenOffError(Exception):
    """The response ended early, or the request must be changed: the same mirror is tried again."""


def data_root(option: Path | None = None) -> Path:
    """Return the folder of the data sets: `option`, else $HIGHWAYNET_DATA, else the user's cache folder."""
    environment = os.environ
    try:
        if option is not None:
            return option.expanduser()
        if chosen := environment.get("HIGHWAYNET_DATA"):
            return Path(chosen).expanduser()
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "highwaynet"
        if sys.platform == "win32":
            return Path(environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "highwaynet"
        cache = Path(environment.get("XDG_CACHE_HOME", ""))
        # The XDG specification says to ignore relative paths.
        return (cache if cache.is_absolute() else Path.home() / ".cache") / "highwaynet"
    except RuntimeError as error:
        raise InputError("the home folder is unknown: set HIGHWAYNET_DATA to the folder for data sets") from error


def verify(name: str, root: Path) -> list[tuple[str, FileState]]:
    """Check for each file of a data set whether it is present with the right checksum."""
    return [(file, state) for file, state, _ in survey(name, root)]


def fetch(name: str, root: Path, progress: SetProgress | None = None) -> list[Path]:
    """Download the missing or damaged files of a data set, and return the paths of all its files.

    Files go to root/NAME. Archives are unpacked into the folder that they contain, and deleted.

    The root is created if it does not exist. `progress` is called with the file's name, the bytes received, and the total if it is
    known.

    Raises:
        DownloadError: If no mirror delivers a file.
    """
    known = remote_set(name)
    missing = [file for file, state, _ in survey(name, root) if state != "ok"]
    if missing:
        folder = root if known.contents else root / known.folders[0]
        wanted = [file for file in known.downloads if known.contents or file.name in missing]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot("create", folder, error) from error
        for file in wanted:
            report = progress and partial(progress, file.name)
            try:
                fetch_file(addresses(name, file), folder / file.name, file.md5, size_limit=file.size, progress=report)
            except DownloadError as error:
                raise DownloadError(error.why, folder, [each.name for each in wanted]) from error
            if known.contents:
                _unpack(name, known, folder / file.name, root)
    return [path for _, _, path in survey(name, root)]


def fetch_file(
    urls: Sequence[str], target: Path, md5: str, *, size_limit: int, progress: FileProgress | None = None, timeout: float = 30
) -> None:
    """Download a file from the first address that delivers it with the right checksum, unless it already exists.

    Received bytes are kept in `target` + ".part", also after an interruption, and the next call continues from there.

    Args:
        urls: Addresses of the same file, http or https.
        target: Path of the file; an existing file is replaced only by one with the right checksum.
        md5: Its checksum, in hexadecimal.
        size_limit: Its maximal size in bytes.
        progress: Called with the bytes received, and the total if it is known.
        timeout: Seconds without a byte after which a connection counts as broken.

    Raises:
        DownloadError: If no address delivers the file.
        HighwayError: If another process is downloading it.
    """
    if digest(target, "md5") == md5:
        return
    part = target.with_name(target.name + ".part")
    reasons = []
    with _own(part) as stream:
        download = _Download(stream, part, md5, size_limit, progress, timeout)
        # The part can be complete, if the process ended just before the file was renamed.
        if download.is_good():
            download.finish(target)
            return
        if download.size() >= size_limit:
            download.start_over()
        for url in urls:
            try:
                download.from_mirror(url)
            except _MirrorError as error:
                reasons.append(f"{_host(url)}: {error}")
            else:
                download.finish(target)
                return
    raise DownloadError(f"cannot download {target.name}: {'; '.join(reasons) or 'no mirror is known'}", target.parent, [target.name])


@dataclass
class _Download:
    """A file that is being downloaded, and the state of the requests for it."""

    stream: BufferedRandom
    part: Path
    md5: str
    size_limit: int
    progress: FileProgress | None
    timeout: float
    resume: bool = True
    """Whether to request only the missing bytes."""
    mixed: bool = False
    """Whether the part contains bytes from another mirror or an earlier download."""

    def size(self) -> int:
        with _writing(self.part):  # the buffer is written first
            return self.stream.seek(0, os.SEEK_END)

    def is_good(self) -> bool:
        with _writing(self.part):
            self.stream.seek(0)
            return hashlib.file_digest(self.stream, new_md5).hexdigest() == self.md5

    def start_over(self) -> None:
        with _writing(self.part):
            self.stream.truncate(0)
        self.resume, self.mixed = True, False

    def finish(self, target: Path) -> None:
        with _writing(target):
            self.stream.flush()
            os.fsync(self.stream.fileno())
            _close_on_windows(self.stream)
            self.part.replace(target)

    def from_mirror(self, url: str) -> None:
        """Complete the part from one address; raises _MirrorError if its checksum cannot be reached."""
        self.resume, self.mixed = True, self.size() > 0
        breaks = 0
        while True:
            try:
                self._ask(url)
            except _BrokenOffError as error:
                breaks += 1
                if breaks > RETRIES:
                    raise _MirrorError(f"{error}, {breaks} times") from error
                time.sleep(PAUSE * breaks)
                continue
            if self.is_good():
                return
            # Older bytes may be wrong; if all bytes came from this mirror, the mirror is wrong.
            hopeless = not self.mixed
            self.start_over()
            if hopeless:
                raise _MirrorError("wrong checksum")

    def _ask(self, url: str) -> None:
        """Send one request and append what it delivers to the part."""
        if url.partition(":")[0].lower() not in {"http", "https"}:
            raise _MirrorError("not an http or https address")
        offset = self.size() if self.resume else 0
        headers = {"User-Agent": "highwaynet"} | ({"Range": f"bytes={offset}-"} if offset else {})
        try:
            # The scheme was checked above, and the opener supports no other.
            response = _opener().open(request.Request(url, headers=headers), timeout=self.timeout)  # noqa: S310
        except HTTPError as error:
            error.close()
            if error.code == 416 and offset:
                self.resume = False
                raise _BrokenOffError("HTTP 416") from error
            where = " (too many redirects, or a redirect that is not allowed)" if 300 <= error.code < 400 else ""
            raise _MirrorError(f"HTTP {error.code}{where}") from error
        except URLError as error:
            raise _MirrorError(_short(error.reason)) from error
        except TimeoutError as error:
            raise _MirrorError("timeout") from error
        except OSError as error:
            raise _BrokenOffError(_short(error)) from error
        except (http.client.HTTPException, ValueError) as error:
            raise _MirrorError(f"invalid response ({_short(error)})") from error
        with response:
            self._receive(response, self._expected(response, offset))

    def _expected(self, response: http.client.HTTPResponse, offset: int) -> int | None:
        """Return the final length of the part, if the response gives it; empties the part if the response starts at 0."""
        if response.status not in {200, 206} or (response.status == 206 and not offset):
            raise _MirrorError(f"HTTP {response.status}")
        total = response.length
        if response.status == 206:
            found = re.fullmatch(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15})", response.headers.get("Content-Range", ""))
            first, last, total = map(int, found.groups()) if found else (-1, -1, -1)
            if first != offset or last + 1 != total or response.length not in {None, total - offset}:
                self.resume = False
                raise _BrokenOffError("wrong range of bytes")
        # Checked before starting over, so that a wrong mirror does not discard the bytes from another one.
        if total is not None and total > self.size_limit:
            raise _MirrorError(f"announces {total} bytes, but at most {self.size_limit} are expected")
        if response.status == 200:
            self.start_over()
        return total

    def _receive(self, response: http.client.HTTPResponse, total: int | None) -> None:
        done = self.size()
        limit = self.size_limit if total is None else total
        while True:
            if self.progress is not None:
                self.progress(done, total)
            try:
                chunk = response.read1(CHUNK)
            except (OSError, http.client.HTTPException) as error:
                raise _BrokenOffError(f"connection lost after {done} bytes") from error
            if not chunk:
                break
            done += len(chunk)
            if done > limit:
                self.start_over()
                raise _MirrorError(f"sends more than {limit} bytes")
            with _writing(self.part):
                self.stream.write(chunk)
        if total is not None and done < total:
            raise _BrokenOffError(f"connection lost after {done} of {total} bytes")


class _Redirects(request.HTTPRedirectHandler):
    """Follows a few redirects, to http and https only, and never from https to http."""

    max_redirections = 5
    max_repeats = 1

    def redirect_request(
        self, req: request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> request.Request | None:
        # The base class would read the whole body, however long.
        fp.close()
        old, new = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if new not in {"http", "https"} or (old == "https" and new == "http"):
            raise URLError(f"redirects from {old} to {new}, which is not allowed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> request.OpenerDirector:
    """Return an opener for http and https only, unlike the default one, which also opens file:, ftp: and data:."""
    director = request.OpenerDirector()
    handlers = (request.ProxyHandler, request.HTTPHandler, request.HTTPSHandler, _Redirects, request.UnknownHandler)
    for handler in (*handlers, request.HTTPErrorProcessor, request.HTTPDefaultErrorHandler):
        director.add_handler(handler())
    return director


@contextmanager
def _own(part: Path) -> Iterator[BufferedRandom]:
    """Open the part for reading and appending, with a lock; an empty part is deleted at the end."""
    with _writing(part):
        stream = part.open("a+b")
    if not _is_ours(stream, part):
        stream.close()
        raise HighwayError(f"another process is downloading to {part}: wait until it is done, and start again")
    try:
        yield stream
    finally:
        with _writing(part), closing(stream):
            if not stream.closed and stream.seek(0, os.SEEK_END) == 0:
                _close_on_windows(stream)
                part.unlink(missing_ok=True)


def _close_on_windows(stream: BufferedRandom) -> None:
    """Close the file on Windows, which cannot rename or delete open files; elsewhere, closing would release the lock too early."""
    if os.name == "nt":
        stream.close()


def _is_ours(stream: BufferedRandom, part: Path) -> bool:
    if sys.platform != "win32":
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass  # a file system without locks
    try:
        # Another process may have renamed the part after it was opened here and before it was locked.
        return os.path.samestat(os.fstat(stream.fileno()), part.stat())
    except OSError:
        return False


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Raise InputError for a failed write, to distinguish it from a broken connection: both are OSErrors."""
    try:
        yield
    except OSError as error:
        raise cannot("write", path, error) from error


def _unpack(name: str, known: RemoteSet, archive: Path, root: Path) -> None:
    """Unpack a data set's archive below the root, and delete it."""
    folder = root / known.folders[0]
    with _writing(folder), TemporaryDirectory(dir=root, prefix=f".{name}-") as temporary:
        staged = Path(temporary) / "archive"
        unpack_tar(archive, staged, size_limit=UNPACKED_LIMIT, member_limit=MEMBER_LIMIT)
        wrong = [f"{file} is {state}" for file, state in verify(name, staged) if state != "ok"]
        if wrong:
            raise HighwayError(f"{archive} does not contain the expected files: {', '.join(wrong)}")
        source = staged / known.folders[0]
        if folder.exists():
            # Other files in the folder belong to the user and stay.
            for path in sorted(source.iterdir()):
                path.replace(folder / path.name)
        else:
            source.rename(folder)
        archive.unlink()


def _host(url: str) -> str:
    """Return the mirror's name for messages, without a password that the address may contain."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2] or url[:80]
    except ValueError:
        return "an invalid address"


def _short(reason: object) -> str:
    """Shorten an error to at most 100 characters."""
    text = (reason.strerror if isinstance(reason, OSError) else None) or str(reason) or type(reason).__name__
    return " ".join(text.split())[:100]
