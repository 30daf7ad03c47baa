"""Downloading the public data sets: resumable, checked, and never a half file under a good name. Free of torch."""

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
"""How often a mirror may break off before the next one is tried."""
PAUSE = 0.5
"""Seconds before the first retry; later ones wait that much longer each."""
# CIFAR's archives hold eight files or fewer, 184.4 million bytes.
UNPACKED_LIMIT = 250_000_000
MEMBER_LIMIT = 32


class DownloadError(HighwayError):
    """No mirror gave a file. The text says why, and on two more lines what to do by hand."""

    def __init__(self, why: str, folder: Path, names: Sequence[str]) -> None:
        super().__init__(f"{why}\nBy hand: put what is named below into {folder}, and start again.\n{', '.join(names)}")
        self.why = why


class _MirrorError(Exception):
    """This mirror does not give the file; the text says why."""


class _BrokenOffError(Exception):
    """The answer ended early or has to be asked for in another way: the same mirror is worth another try."""


def data_root(option: Path | None = None) -> Path:
    """The folder that holds the data sets: the option, else $HIGHWAYNET_DATA, else the user's cache folder."""
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
        # A relative path is to be ignored, says the XDG specification.
        return (cache if cache.is_absolute() else Path.home() / ".cache") / "highwaynet"
    except RuntimeError as error:
        raise InputError("the home folder is unknown: set HIGHWAYNET_DATA to the folder for data sets") from error


def verify(name: str, root: Path) -> list[tuple[str, FileState]]:
    """For each file that a data set needs: whether it is there with the right checksum."""
    return [(file, state) for file, state, _ in survey(name, root)]


def fetch(name: str, root: Path, progress: SetProgress | None = None) -> list[Path]:
    """Download what is missing or damaged of a data set, and return where its files lie.

    Files go to root/NAME; archives are unpacked to the folder that they bring, and deleted.

    The root is made if it is not there. `progress` is called with the file's name, the bytes that have come, and how many there
    will be if that is known.

    Raises:
        DownloadError: No mirror gave a file.
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
    """Download a file from the first address that gives it with the right checksum, unless it is there already.

    What has come is kept in `target` + ".part", also after an interruption, and the next call goes on from there.

    Args:
        urls: Addresses of the same file, http or https.
        target: Where it goes, replacing what is there only by a file with the right checksum.
        md5: Its checksum, in hexadecimal.
        size_limit: How many bytes it may have.
        progress: Called with the bytes that have come, and how many there will be if that is known.
        timeout: Seconds without a byte after which a connection counts as broken.

    Raises:
        DownloadError: No address gave the file.
        HighwayError: Another process is downloading it.
    """
    if digest(target, "md5") == md5:
        return
    part = target.with_name(target.name + ".part")
    reasons = []
    with _own(part) as stream:
        download = _Download(stream, part, md5, size_limit, progress, timeout)
        # A part can be complete: the process may have ended just before the renaming.
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
    """A file on its way, and how it is asked for."""

    stream: BufferedRandom
    part: Path
    md5: str
    size_limit: int
    progress: FileProgress | None
    timeout: float
    resume: bool = True
    """Whether to ask the mirror for the rest only."""
    mixed: bool = False
    """Whether the part holds bytes that came from elsewhere than this mirror, or earlier."""

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
        """Bring the part to the right checksum from one address, or raise _MirrorError."""
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
            # An old beginning may be what is wrong; if everything came from here, this mirror is.
            hopeless = not self.mixed
            self.start_over()
            if hopeless:
                raise _MirrorError("wrong checksum")

    def _ask(self, url: str) -> None:
        """One request: add what it brings to the part."""
        if url.partition(":")[0].lower() not in {"http", "https"}:
            raise _MirrorError("not an http or https address")
        offset = self.size() if self.resume else 0
        headers = {"User-Agent": "highwaynet"} | ({"Range": f"bytes={offset}-"} if offset else {})
        try:
            # The scheme was checked above, and the opener knows no other.
            response = _opener().open(request.Request(url, headers=headers), timeout=self.timeout)  # noqa: S310
        except HTTPError as error:
            error.close()
            if error.code == 416 and offset:
                self.resume = False
                raise _BrokenOffError("HTTP 416") from error
            where = " (it redirects too often, or to where it must not)" if 300 <= error.code < 400 else ""
            raise _MirrorError(f"HTTP {error.code}{where}") from error
        except URLError as error:
            raise _MirrorError(_short(error.reason)) from error
        except TimeoutError as error:
            raise _MirrorError("no answer in time") from error
        except OSError as error:
            raise _BrokenOffError(_short(error)) from error
        except (http.client.HTTPException, ValueError) as error:
            raise _MirrorError(f"no proper answer ({_short(error)})") from error
        with response:
            self._receive(response, self._expected(response, offset))

    def _expected(self, response: http.client.HTTPResponse, offset: int) -> int | None:
        """The length that the part will have, as far as the answer says; makes the part ready for it."""
        if response.status not in {200, 206} or (response.status == 206 and not offset):
            raise _MirrorError(f"HTTP {response.status}")
        total = response.length
        if response.status == 206:
            found = re.fullmatch(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15})", response.headers.get("Content-Range", ""))
            first, last, total = map(int, found.groups()) if found else (-1, -1, -1)
            if first != offset or last + 1 != total or response.length not in {None, total - offset}:
                self.resume = False
                raise _BrokenOffError("another range than asked for")
        # Before starting over, so that a lying mirror does not cost what has come from another.
        if total is not None and total > self.size_limit:
            raise _MirrorError(f"announces {total} bytes where at most {self.size_limit} are expected")
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
                raise _BrokenOffError(f"broke off after {done} bytes") from error
            if not chunk:
                break
            done += len(chunk)
            if done > limit:
                self.start_over()
                raise _MirrorError(f"sends more than {limit} bytes")
            with _writing(self.part):
                self.stream.write(chunk)
        if total is not None and done < total:
            raise _BrokenOffError(f"broke off after {done} of {total} bytes")


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
            raise URLError(f"redirects from {old} to {new}, which is refused")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> request.OpenerDirector:
    """What opens addresses: unlike the usual it knows neither file: nor ftp: nor data:."""
    director = request.OpenerDirector()
    handlers = (request.ProxyHandler, request.HTTPHandler, request.HTTPSHandler, _Redirects, request.UnknownHandler)
    for handler in (*handlers, request.HTTPErrorProcessor, request.HTTPDefaultErrorHandler):
        director.add_handler(handler())
    return director


@contextmanager
def _own(part: Path) -> Iterator[BufferedRandom]:
    """The part, open for reading and appending, while no other process has it; an empty one does not stay."""
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
    """There, an open file can be neither renamed nor deleted; elsewhere, closing first would give up the lock too early."""
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
        # The other process may have renamed the part between our opening it and locking it.
        return os.path.samestat(os.fstat(stream.fileno()), part.stat())
    except OSError:
        return False


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Tells a full disk from a broken connection, which are both an OSError."""
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
            raise HighwayError(f"{archive} does not hold what it should: {', '.join(wrong)}")
        source = staged / known.folders[0]
        if folder.exists():
            # What else lies there is not ours to delete.
            for path in sorted(source.iterdir()):
                path.replace(folder / path.name)
        else:
            source.rename(folder)
        archive.unlink()


def _host(url: str) -> str:
    """The mirror's name for messages, without a password that an address may carry."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2] or url[:80]
    except ValueError:
        return "an address that is none"


def _short(reason: object) -> str:
    """An error in a few words."""
    text = (reason.strerror if isinstance(reason, OSError) else None) or str(reason) or type(reason).__name__
    return " ".join(text.split())[:100]
