"""Downloading, against a server of our own that breaks off, lies, redirects, and honours or ignores ranges."""

import gzip
import hashlib
import io
import random
import socket
import struct
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request

import pytest

from highwaynet.base.errors import HighwayError, InputError
from highwaynet.data import fetch as fetch_module
from highwaynet.data.fetch import RETRIES, DownloadError, data_root, fetch, fetch_file, verify
from highwaynet.data.remote import REMOTE, RemoteFile, RemoteSet, UnpackedFile, addresses, remote_set

CONTENT = random.Random(0).randbytes(300_000)
SIZE = len(CONTENT)
MD5 = hashlib.md5(CONTENT).hexdigest()


class Visitor(BaseHTTPRequestHandler):
    """Writes down each request and answers as the site's page says."""

    server: "Server"

    def do_GET(self) -> None:
        self.server.requests.append((self.path, self.headers["Range"]))
        page = self.server.pages.get(self.path, status(404))
        page(self)

    def answer(self, code: int, body: bytes, **headers: object) -> None:
        self.send_response(code)
        for name, value in ({"Content_Length": len(body)} | headers).items():
            if value is not None:
                self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def offset(self) -> int:
        return int((self.headers["Range"] or "bytes=0-").removeprefix("bytes=").removesuffix("-"))

    def log_message(self, *arguments: object) -> None:
        pass


Page = Callable[[Visitor], None]


class Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Visitor)
        self.pages: dict[str, Page] = {}
        self.requests: list[tuple[str, str | None]] = []

    def handle_error(self, *arguments: object) -> None:
        """A client may hang up."""

    def url(self, path: str, page: Page | None = None) -> str:
        if page is not None:
            self.pages[path] = page
        return f"http://127.0.0.1:{self.server_port}{path}"

    @property
    def ranges(self) -> list[str | None]:
        return [asked for _, asked in self.requests]


def whole(content: bytes = CONTENT, **headers: object) -> Page:
    """Ignores ranges."""
    return lambda visitor: visitor.answer(200, content, **headers)


def ranged(content: bytes = CONTENT, shift: int = 0, **headers: object) -> Page:
    """Honours ranges; with a shift, sends wrong range of bytes."""

    def page(visitor: Visitor) -> None:
        start = visitor.offset()
        if not visitor.headers["Range"]:
            visitor.answer(200, content)
        elif start >= len(content):
            visitor.answer(416, b"", Content_Range=f"bytes */{len(content)}")
        else:
            start += shift
            told = {"Content_Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} | headers
            visitor.answer(206, content[start:], **told)

    return page


def breaking(pieces: int, reset: bool = False) -> Page:
    """Honours ranges, and breaks off after each piece, at the end of a message or with a reset."""

    def page(visitor: Visitor) -> None:
        start = visitor.offset()
        headers = {"Content_Length": SIZE - start}
        if start:
            headers["Content_Range"] = f"bytes {start}-{SIZE - 1}/{SIZE}"  # type: ignore[assignment]
        visitor.answer(206 if start else 200, CONTENT[start : start + SIZE // pieces], **headers)
        if reset:
            visitor.wfile.flush()
            visitor.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            visitor.connection.close()

    return page


def chunked(content: bytes, end: bytes = b"0\r\n\r\n") -> Page:
    """Announces no length."""

    def page(visitor: Visitor) -> None:
        visitor.protocol_version = "HTTP/1.1"
        body = b"%x\r\n%s\r\n" % (len(content), content) + end
        visitor.answer(200, body, Content_Length=None, Transfer_Encoding="chunked", Connection="close")
        visitor.close_connection = True

    return page


def status(code: int) -> Page:
    return lambda visitor: visitor.answer(code, b"no")


def redirect(location: str, code: int = 302) -> Page:
    return lambda visitor: visitor.answer(code, b"", Location=location)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("HIGHWAYNET_MIRROR", raising=False)
    monkeypatch.setattr(fetch_module, "PAUSE", 0)
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.005})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def nobody() -> str:
    """An address where nobody answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    return f"http://127.0.0.1:{port}/file"


@dataclass
class Target:
    """Where the file goes, and what is there."""

    path: Path
    calls: list[tuple[int, int | None]] = field(default_factory=list)

    def fetch(self, *urls: str, size_limit: int = SIZE) -> None:
        fetch_file(urls, self.path, MD5, size_limit=size_limit, progress=lambda *call: self.calls.append(call), timeout=60)

    def fails(self, *urls: str, match: str, size_limit: int = SIZE) -> str:
        with pytest.raises(DownloadError, match=match) as caught:
            self.fetch(*urls, size_limit=size_limit)
        return str(caught.value)

    @property
    def part(self) -> Path:
        return self.path.with_name("file.part")

    @property
    def names(self) -> list[str]:
        return sorted(path.name for path in self.path.parent.iterdir())

    def is_finished(self) -> bool:
        """The file is right, and nothing lies beside it."""
        return self.path.read_bytes() == CONTENT and self.names == ["file"]


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path / "file")


PAGES = {"whole": whole(), "ranged": ranged(), "chunked": chunked(CONTENT), "unknown": whole(Content_Length=None)}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_a_file_arrives_and_is_not_asked_for_again(server: Server, target: Target, page: Page) -> None:
    url = server.url("/file", page)
    target.fetch(url)
    assert target.is_finished()
    assert server.ranges == [None]
    assert target.calls[-1][0] == SIZE
    assert target.calls == sorted(target.calls)
    target.fetch(url)
    assert server.ranges == [None]


def test_a_part_is_resumed(server: Server, target: Target) -> None:
    target.part.write_bytes(CONTENT[:1000])
    target.fetch(server.url("/file", ranged()))
    assert target.is_finished()
    assert server.ranges == ["bytes=1000-"]
    assert target.calls[0] == (1000, SIZE)


def test_a_server_that_ignores_ranges_sends_everything(server: Server, target: Target) -> None:
    target.part.write_bytes(CONTENT[:1000])
    target.fetch(server.url("/file", whole()))
    assert target.is_finished()
    assert server.ranges == ["bytes=1000-"]
    assert target.calls[0] == (0, SIZE)


@pytest.mark.parametrize("reset", [False, True], ids=["ends", "resets"])
def test_a_connection_that_breaks_off_is_taken_up_again(server: Server, target: Target, reset: bool) -> None:
    target.fetch(server.url("/file", breaking(3, reset)))
    assert target.is_finished()
    if not reset:  # a reset may cost bytes that were on their way
        assert server.ranges == [None, "bytes=100000-", "bytes=200000-"]


def test_retries_are_bounded_and_the_part_stays_for_the_next_mirror(server: Server, target: Target) -> None:
    message = target.fails(server.url("/file", breaking(100)), match="connection lost after 18000 of 300000 bytes, 6 times")
    assert len(server.requests) == RETRIES + 1
    assert "\n" in message
    assert target.names == ["file.part"]
    assert target.part.read_bytes() == CONTENT[:18_000]
    target.fetch(server.url("/other", ranged()))
    assert server.requests[-1] == ("/other", "bytes=18000-")
    assert target.is_finished()


def test_a_chunked_answer_that_breaks_off(server: Server, target: Target) -> None:
    target.fails(server.url("/file", chunked(CONTENT[:5000], end=b"ffff\r\nbroken")), match="connection lost")
    target.fetch(server.url("/other", ranged()))
    assert target.is_finished()


def test_no_answer_at_all_is_retried(server: Server, target: Target) -> None:
    def page(visitor: Visitor) -> None:
        if len(server.requests) > 2:
            ranged()(visitor)

    target.fetch(server.url("/file", page))
    assert target.is_finished()
    assert server.ranges == [None] * 3


def test_a_server_that_keeps_silent_is_left(server: Server, target: Target) -> None:
    done = threading.Event()
    url = server.url("/file", lambda visitor: done.wait(300) and None)
    try:
        with pytest.raises(DownloadError, match="timeout"):
            fetch_file([url], target.path, MD5, size_limit=SIZE, timeout=0.1)
    finally:
        done.set()


def test_mirrors_are_tried_in_order(server: Server, target: Target, nobody: str) -> None:
    urls = [nobody, server.url("/404"), server.url("/500", status(500)), server.url("/204", status(204)), server.url("/file", ranged())]
    target.fetch(*urls, server.url("/never", ranged()))
    assert target.is_finished()
    assert [path for path, _ in server.requests] == ["/404", "/500", "/204", "/file"]


def test_when_all_fail_each_reason_is_told_and_what_to_do(server: Server, target: Target, nobody: str) -> None:
    urls = [nobody, server.url("/404"), server.url("/500", status(500)), server.url("/416", status(416)), server.url("/206", status(206))]
    why, by_hand, files = target.fails(*urls, match="cannot download file: ").splitlines()
    port = server.server_port
    told = [f"127.0.0.1:{port}: HTTP {code}" for code in (404, 500, 416, 206)]
    refused = nobody.removeprefix("http://").removesuffix("/file")
    assert why == f"cannot download file: {refused}: Connection refused; {'; '.join(told)}"
    assert by_hand == f"By hand: put the files named below into {target.path.parent}, and start again."
    assert files == "file"
    assert target.names == []
    target.fails(match="cannot download file: no mirror is known")


def test_it_is_not_the_users_input_that_is_wrong(target: Target, nobody: str) -> None:
    with pytest.raises(HighwayError) as caught:
        target.fetch(nobody)
    assert caught.value.exit_code == 1
    assert not isinstance(caught.value, InputError)


def test_wrong_bytes_are_thrown_away(server: Server, target: Target) -> None:
    wrong = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    target.fails(server.url("/wrong", ranged(wrong)), match="wrong checksum")
    assert target.names == []
    assert server.ranges == [None]
    target.fetch(server.url("/wrong"), server.url("/file", ranged()))
    assert target.is_finished()
    assert server.ranges == [None] * 3


def test_a_wrong_beginning_does_not_spoil_a_good_mirror(server: Server, target: Target) -> None:
    target.part.write_bytes(bytes(1000))
    target.fetch(server.url("/file", ranged()))
    assert target.is_finished()
    assert server.ranges == ["bytes=1000-", None]


def test_announced_lengths_that_lie(server: Server, target: Target) -> None:
    # Less comes than was announced: the connection ends, each time.
    target.fails(server.url("/short", whole(CONTENT[:-1], Content_Length=SIZE)), match="lost after 299999 of 300000 bytes, 6 times")
    target.part.unlink()
    # More comes than was announced: HTTP ends the body where it was announced to end.
    target.fails(server.url("/long", whole(CONTENT, Content_Length=SIZE - 1)), match="wrong checksum")
    target.fails(server.url("/huge", whole(Content_Length=SIZE + 1)), match=f"announces {SIZE + 1} bytes, but at most {SIZE} are expected")
    target.fails(server.url("/endless", chunked(CONTENT + b"more")), match=f"sends more than {SIZE} bytes")
    assert target.names == []


WRONG_RANGES = {
    "later": ranged(shift=1),
    "later, of unknown length": ranged(shift=1, Content_Length=None),
    "earlier": ranged(shift=-1),
    "partial": ranged(Content_Range="bytes 1000-1999/300000"),
    "nonsense": ranged(Content_Range="nonsense"),
    "length": ranged(Content_Length=5),
}


@pytest.mark.parametrize("page", WRONG_RANGES.values(), ids=WRONG_RANGES)
def test_another_range_than_asked_for_is_not_taken(server: Server, target: Target, page: Page) -> None:
    target.part.write_bytes(CONTENT[:1000])
    target.fetch(server.url("/file", page))
    assert target.is_finished()
    assert target.calls[0] == (0, SIZE)
    assert server.ranges == ["bytes=1000-", None]


def test_416_means_the_part_is_of_another_file(server: Server, target: Target) -> None:
    target.part.write_bytes(CONTENT[:1000] + bytes(1000))
    target.fetch(server.url("/file", lambda visitor: (status(416) if visitor.headers["Range"] else whole())(visitor)))
    assert target.is_finished()
    assert server.ranges == ["bytes=2000-", None]


@pytest.mark.parametrize("extra", [0, 1, 1000])
def test_a_part_that_is_too_long_or_full_of_nonsense_is_not_resumed(server: Server, target: Target, extra: int) -> None:
    target.part.write_bytes(bytes(SIZE + extra))
    target.fetch(server.url("/file", ranged()))
    assert target.is_finished()
    assert server.ranges == [None]


def test_a_complete_part_needs_no_request(server: Server, target: Target) -> None:
    target.part.write_bytes(CONTENT)
    target.fetch(server.url("/file", ranged()))
    assert target.is_finished()
    assert server.requests == []


def test_a_mirror_that_lies_does_not_cost_the_part(server: Server, target: Target, nobody: str) -> None:
    target.part.write_bytes(CONTENT[:1000])
    target.fails(nobody, server.url("/404"), server.url("/huge", whole(Content_Length=10 * SIZE)), match="announces")
    assert target.part.read_bytes() == CONTENT[:1000]


def test_a_file_that_is_there_survives_failures(server: Server, target: Target, nobody: str) -> None:
    target.path.write_bytes(b"an older version")
    urls = [nobody, server.url("/404"), server.url("/wrong", ranged(bytes(SIZE))), server.url("/endless", chunked(CONTENT * 2))]
    target.fails(*urls, match="wrong checksum")
    assert target.path.read_bytes() == b"an older version"
    assert target.names == ["file"]
    target.fetch(*urls, server.url("/file", ranged()))
    assert target.is_finished()


def test_ctrl_c_leaves_the_part_for_the_next_time(server: Server, target: Target) -> None:
    def interrupt(done: int, total: int | None) -> None:
        if done > 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_file([server.url("/file", ranged())], target.path, MD5, size_limit=SIZE, progress=interrupt)
    assert target.names == ["file.part"]
    kept = target.part.read_bytes()
    assert len(kept) > 1000
    assert CONTENT.startswith(kept)
    if len(kept) == SIZE:  # everything came at once
        target.part.write_bytes(kept[:-1])
    length = target.part.stat().st_size
    target.fetch(server.url("/file"))
    assert server.ranges == [None, f"bytes={length}-"]
    assert target.is_finished()


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_followed_with_their_range(server: Server, target: Target, code: int) -> None:
    target.part.write_bytes(CONTENT[:1000])
    url = server.url("/old", redirect(server.url("/file", ranged()), code=code))
    target.fetch(url)
    assert target.is_finished()
    assert server.requests == [("/old", "bytes=1000-"), ("/file", "bytes=1000-")]


def test_five_redirects_and_no_more(server: Server, target: Target) -> None:
    for step in range(1, 7):
        server.url(f"/{step}", redirect(f"/{step - 1}"))
    server.url("/0", ranged())
    target.fails(server.url("/6"), match="HTTP 302 .too many redirects")
    assert len(server.requests) == 6
    target.fetch(server.url("/5"))
    assert target.is_finished()


def test_redirects_in_a_circle(server: Server, target: Target) -> None:
    server.url("/a", redirect("/b"))
    server.url("/b", redirect("/a"))
    target.fails(server.url("/a"), server.url("/self", redirect("/self")), match="HTTP 302 .too many redirects.*HTTP 302")
    assert len(server.requests) <= 6


@pytest.mark.parametrize("scheme", ["file", "ftp", "data", "gopher"])
def test_redirects_to_other_schemes(server: Server, target: Target, tmp_path: Path, scheme: str) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(CONTENT)
    target.fails(server.url("/file", redirect(f"{scheme}://{secret}")), match="redirects")
    assert target.names == ["secret"]


def test_redirects_from_https_to_http_are_refused() -> None:
    handler, body, headers = fetch_module._Redirects(), io.BytesIO(), HTTPMessage()
    with pytest.raises(URLError, match="from https to http, which is not allowed"):
        handler.redirect_request(Request("https://a.org/x"), body, 302, "Found", headers, "http://a.org/x")
    for old, new in (("https", "https"), ("http", "https"), ("http", "http")):
        followed = handler.redirect_request(Request(f"{old}://a.org/x"), body, 302, "Found", headers, f"{new}://b.org/y")
        assert followed is not None
        assert followed.full_url == f"{new}://b.org/y"


def test_the_body_of_a_redirect_is_not_read(server: Server, target: Target) -> None:
    # It announces more than it sends: who waited for the rest would wait for the timeout, and fail.
    server.url("/file", ranged())
    silence = threading.Event()

    def page(visitor: Visitor) -> None:
        visitor.answer(302, b"", Location="/file", Content_Length=10**12)
        silence.wait(300)

    try:
        target.fetch(server.url("/endless", page))
    finally:
        silence.set()
    assert target.is_finished()


@pytest.mark.parametrize(
    "url", ["file:///etc/hostname", "ftp://a.org/x", "/etc/hostname", "http://[bad", "http://127.0.0.1:x/y", "http://a b/", ""]
)
def test_addresses_that_are_none(target: Target, url: str) -> None:
    target.fails(url, match="not an http or https address|invalid response|cannot")
    assert target.names == []


def test_what_speaks_no_http(target: Target, server: Server) -> None:
    target.fails(server.url("/file", lambda visitor: visitor.wfile.write(b"220 ftp ready\r\n\r\n") and None), match="invalid response")


def test_passwords_in_addresses_are_not_told(target: Target) -> None:
    assert "secret" not in target.fails("http://user:secret@127.0.0.1:1/file", match="127")


@pytest.mark.skipif(sys.platform == "win32", reason="no such locks")
def test_two_processes_do_not_write_the_same_part(server: Server, target: Target) -> None:
    with fetch_module._own(target.part) as stream:
        stream.write(CONTENT[:1000])
        with pytest.raises(HighwayError, match=r"another process is downloading to .*file\.part"):
            target.fetch(server.url("/file", ranged()))
    assert server.requests == []
    assert target.part.read_bytes() == CONTENT[:1000]
    target.fetch(server.url("/file"))
    assert target.is_finished()


@pytest.mark.skipif(sys.platform == "win32", reason="no such locks")
def test_a_part_that_another_process_finishes_meanwhile_is_not_touched(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    target.part.write_bytes(CONTENT)
    monkeypatch.setattr(fetch_module.fcntl, "flock", lambda *arguments: target.part.rename(target.path))
    with pytest.raises(HighwayError, match="another process"):
        target.fetch()
    assert target.is_finished()


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits")
def test_a_full_disk_is_not_taken_for_a_bad_mirror(server: Server, target: Target) -> None:
    import resource

    content = CONTENT * 10
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, hard))
    try:
        urls = [server.url("/a", ranged(content)), server.url("/b", ranged(content))]
        with pytest.raises(InputError, match=r"cannot write .*file\.part: file too large"):
            fetch_file(urls, target.path, MD5, size_limit=len(content))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path for path, _ in server.requests] == ["/a"]
    assert target.part.stat().st_size == 2_000_000


def test_a_folder_that_is_not_there(server: Server, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot write .*file\.part: no such file"):
        fetch_file([server.url("/file", ranged())], tmp_path / "none" / "file", MD5, size_limit=SIZE)


# Whole data sets


def small(name: str) -> tuple[RemoteSet, dict[str, bytes]]:
    """The data set with small files of the same names, and what the mirror has."""
    known = REMOTE[name]
    if not known.contents:
        files = {file.name: f"{name} {file.name}".encode() * 100 for file in known.downloads}
        return replace(known, mirrors=(), downloads=tuple(remote_file(*item) for item in files.items())), files
    contents = {file.name: f"{name} {file.name}".encode() * 1000 for file in known.contents}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for file, content in ({"readme.html": b"read me"} | contents).items():
            member = tarfile.TarInfo(f"{known.folders[0]}/{file}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    packed = gzip.compress(archive.getvalue(), mtime=0)
    unpacked = tuple(UnpackedFile(file, hashlib.sha256(content).hexdigest()) for file, content in contents.items())
    downloads = (remote_file(known.downloads[0].name, packed),)
    return replace(known, mirrors=(), downloads=downloads, contents=unpacked), {known.downloads[0].name: packed}


def remote_file(name: str, content: bytes) -> RemoteFile:
    return RemoteFile(name, hashlib.md5(content).hexdigest(), len(content))


@pytest.fixture
def mirror(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A mirror of all data sets, in small."""
    for name in list(REMOTE):
        known, files = small(name)
        monkeypatch.setitem(REMOTE, name, known)
        for file, content in files.items():
            server.url(f"/data/{name}/{file}", ranged(content))
    monkeypatch.setenv("HIGHWAYNET_MIRROR", server.url("/data/"))
    return server


def listing(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", REMOTE)
def test_a_data_set_arrives_and_is_not_asked_for_again(mirror: Server, tmp_path: Path, name: str) -> None:
    root = tmp_path / "new" / "root"
    known, calls = REMOTE[name], []
    expected = [file.name for file in known.contents or known.downloads]
    assert verify(name, root) == [(file, "missing") for file in expected]
    paths = fetch(name, root, lambda *call: calls.append(call))
    folder = root / known.folders[0]
    assert paths == [folder / file for file in expected]
    assert all(path.read_bytes().startswith(name.encode()) for path in paths)
    assert verify(name, root) == [(file, "ok") for file in expected]
    extra = ["readme.html"] if known.contents else []
    assert listing(root) == sorted(f"{known.folders[0]}/{file}" for file in expected + extra)
    assert [path.name for path in root.iterdir()] == [known.folders[0]]
    assert [path for path, _ in mirror.requests] == [f"/data/{name}/{file.name}" for file in known.downloads]
    assert {call[0] for call in calls} == {file.name for file in known.downloads}
    assert {(file.name, file.size, file.size) for file in known.downloads} <= set(calls)
    mirror.requests.clear()
    assert fetch(name, root) == paths
    assert mirror.requests == []


def test_only_what_is_missing_or_damaged_is_fetched(mirror: Server, tmp_path: Path) -> None:
    paths = fetch("mnist", tmp_path)
    mirror.requests.clear()
    paths[1].unlink()
    paths[2].write_bytes(b"damaged")
    assert [state for _, state in verify("mnist", tmp_path)] == ["ok", "missing", "damaged", "ok"]
    assert fetch("mnist", tmp_path) == paths
    assert [path.rpartition("/")[2] for path, _ in mirror.requests] == [paths[1].name, paths[2].name]
    assert {state for _, state in verify("mnist", tmp_path)} == {"ok"}


def test_a_damaged_folder_is_repaired_and_other_files_in_it_stay(mirror: Server, tmp_path: Path) -> None:
    paths = fetch("cifar-10", tmp_path)
    mirror.requests.clear()
    paths[0].write_bytes(b"damaged")
    paths[1].unlink()
    (paths[0].parent / "mine.txt").write_text("mine")
    assert [state for _, state in verify("cifar-10", tmp_path)] == ["damaged", "missing", "ok", "ok", "ok", "ok"]
    assert fetch("cifar-10", tmp_path) == paths
    assert len(mirror.requests) == 1
    assert {state for _, state in verify("cifar-10", tmp_path)} == {"ok"}
    assert (paths[0].parent / "mine.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["cifar-10-batches-bin"]


def test_an_archive_put_there_by_hand_is_unpacked(mirror: Server, tmp_path: Path) -> None:
    (tmp_path / "cifar-100-binary.tar.gz").write_bytes(small("cifar-100")[1]["cifar-100-binary.tar.gz"])
    fetch("cifar-100", tmp_path)
    assert mirror.requests == []
    assert [path.name for path in tmp_path.iterdir()] == ["cifar-100-binary"]


@pytest.mark.usefixtures("mirror")
def test_an_archive_with_other_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = REMOTE["cifar-100"]
    monkeypatch.setitem(REMOTE, "cifar-100", replace(known, contents=(*known.contents, UnpackedFile("more.bin", "0" * 64))))
    with pytest.raises(HighwayError, match=r"cifar-100-binary\.tar\.gz does not contain the expected files: more\.bin is missing"):
        fetch("cifar-100", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["cifar-100-binary.tar.gz"]


@pytest.mark.parametrize(
    ("name", "place"),
    [("mnist", "."), ("mnist", "mnist"), ("mnist", "MNIST/raw"), ("fashion-mnist", "."), ("fashion-mnist", "FashionMNIST/raw")],
)
def test_files_are_found_where_others_put_them(mirror: Server, tmp_path: Path, name: str, place: str) -> None:
    folder = tmp_path / place
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in small(name)[1].items():
        (folder / file).write_bytes(content)
    assert {state for _, state in verify(name, tmp_path)} == {"ok"}
    assert fetch(name, tmp_path) == [folder / file.name for file in REMOTE[name].downloads]
    assert mirror.requests == []
    # The files of the other set have the same names, but they are not a damaged version of this one.
    other = "mnist" if name == "fashion-mnist" else "fashion-mnist"
    assert {state for _, state in verify(other, tmp_path)} == {"missing"}
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(b"damaged")
    assert verify(name, tmp_path)[3] == ("t10k-labels-idx1-ubyte.gz", "damaged")


@pytest.mark.usefixtures("mirror")
def test_without_a_network_the_error_says_what_to_put_where(tmp_path: Path, nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (first, *_) = fetch("mnist", tmp_path)
    for path in first.parent.iterdir():
        if path != first:
            path.unlink()
    monkeypatch.setenv("HIGHWAYNET_MIRROR", nobody)
    for name, folder, files in [
        ("mnist", tmp_path / "mnist", "train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz"),
        ("cifar-10", tmp_path, "cifar-10-binary.tar.gz"),
    ]:
        with pytest.raises(DownloadError) as caught:
            fetch(name, tmp_path)
        why, by_hand, named = str(caught.value).splitlines()
        assert why.startswith("cannot download ")
        assert why.endswith("Connection refused")
        assert by_hand == f"By hand: put the files named below into {folder}, and start again."
        assert named == files


def test_unknown_names_and_unusable_places(tmp_path: Path) -> None:
    for function in (fetch, verify):
        with pytest.raises(InputError, match=r"unknown data set to download 'minst': did you mean 'mnist'\?"):
            function("minst", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot create .*file/mnist: not a directory"):
        fetch("mnist", tmp_path / "file")
    with pytest.raises(InputError, match=r"cannot read .*: file name too long"):
        verify("mnist", tmp_path / ("x" * 300))


@pytest.mark.parametrize("name", REMOTE)
def test_the_list_is_well_formed(name: str) -> None:
    known = remote_set(name)
    for file in known.downloads:
        assert len(file.md5) == 32
        assert set(file.md5) <= set("0123456789abcdef")
        assert file.size > 4000
        assert addresses(name, file) == [mirror + file.name for mirror in known.mirrors]
    assert len({file.md5 for file in known.downloads}) == len(known.downloads)
    assert all(mirror.startswith(("https://", "http://fashion-mnist.s3-website.")) and mirror.endswith("/") for mirror in known.mirrors)
    assert len(known.mirrors) >= 2
    assert all(len(file.sha256) == 64 for file in known.contents)


@pytest.mark.parametrize("value", ["example.org", "file:///data", "http://", "http://a:b", "http://[bad", "ftp://a.org"])
def test_a_mirror_variable_that_is_no_address(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("HIGHWAYNET_MIRROR", value)
    with pytest.raises(InputError, match=r"HIGHWAYNET_MIRROR = .*: must be the address of a folder"):
        addresses("mnist", REMOTE["mnist"].downloads[0])


def test_the_mirror_variable_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIGHWAYNET_MIRROR", "https://example.org/data")
    file = REMOTE["cifar-10"].downloads[0]
    assert addresses("cifar-10", file) == [
        "https://example.org/data/cifar-10/cifar-10-binary.tar.gz",
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "https://cave.cs.toronto.edu/kriz/cifar-10-binary.tar.gz",
    ]


def test_data_root(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HIGHWAYNET_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    home = Path.home()
    monkeypatch.setattr(sys, "platform", "linux")
    assert data_root() == home / ".cache" / "highwaynet"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert data_root() == home / ".cache" / "highwaynet"
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert data_root() == Path("/cache/highwaynet")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert data_root() == home / "Library" / "Caches" / "highwaynet"
    monkeypatch.setattr(sys, "platform", "win32")
    assert data_root() == home / "AppData" / "Local" / "highwaynet"
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert data_root() == Path("/local/highwaynet")
    monkeypatch.setenv("HIGHWAYNET_DATA", "~/data")
    assert data_root() == home / "data"
    assert data_root(Path("/option")) == Path("/option")
    monkeypatch.setenv("HIGHWAYNET_DATA", "~nobody-has-this-name/data")
    with pytest.raises(InputError, match="set HIGHWAYNET_DATA"):
        data_root()


@pytest.mark.parametrize("form", ["packed again", "unpacked"])
def test_verify_knows_a_file_by_what_it_holds(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes(range(256)) * 10
    known = RemoteFile("train-images-idx3-ubyte.gz", "0" * 32, 1, hashlib.sha256(content).hexdigest())
    monkeypatch.setitem(REMOTE, "mnist", RemoteSet(downloads=(known,), mirrors=(), folders=("mnist", ".")))
    (tmp_path / "mnist").mkdir()
    path = tmp_path / "mnist" / ("train-images-idx3-ubyte.gz" if form == "packed again" else "train-images-idx3-ubyte")
    path.write_bytes(gzip.compress(content, 1) if form == "packed again" else content)
    assert verify("mnist", tmp_path) == [("train-images-idx3-ubyte.gz", "ok")]
    path.write_bytes(gzip.compress(content + b"x") if form == "packed again" else content[1:])
    assert verify("mnist", tmp_path) == [("train-images-idx3-ubyte.gz", "damaged" if form == "packed again" else "missing")]
