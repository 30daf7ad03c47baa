"""The page as one file: its parts beside this file, the network and the samples inside it, and a policy that forbids everything else.

Scripts and styles are allowed by their checksums only; nothing is fetched. Names from data and runs are data for the scripts, which show
them as text.
"""

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from highwaynet import __version__

WORKER_SCRIPTS = ("engine.js", "serve.js")
"""They are run by the page and by its worker."""
PAGE_SCRIPTS = (
    "colours.js",
    "link.js",
    "maps.js",
    "pad.js",
    "fields.js",
    "answer.js",
    "gate.js",
    "layers.js",
    "reading.js",
    "state.js",
    "view.js",
    "picture.js",
    "tour.js",
    "inputs.js",
    "address.js",
    "app.js",
)
MARK = '<meta name="generator" content="highwaynet'
"""Marks a page of this package, which may be overwritten."""


def render_explorer(title: str, facts: Mapping[str, Any], binary: Mapping[str, bytes], fingerprints: Sequence[str]) -> str:
    """Return the page as HTML.

    Args:
        title: Title of the page.
        facts: What the scripts need to know, as values for JSON.
        binary: Arrays by name, which the scripts find under that name.
        fingerprints: Those of the runs, so that other pages can tell whether this one is up to date.
    """
    style = page_source("style.css")
    scripts = {name: page_source(name) for name in (*WORKER_SCRIPTS, "worker.js", *PAGE_SCRIPTS)}
    run = [name for name in scripts if name != "worker.js"]
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(_checksum(scripts[name]) for name in run)}",
            f"style-src {_checksum(style)}",
            "worker-src blob:",
            "img-src blob: data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    return Template(page_source("page.html")).substitute(
        title=html.escape(title),
        version=html.escape(__version__),
        fingerprints=html.escape(" ".join(fingerprints)),
        policy=html.escape(policy),
        style=style,
        body=page_source("body.html"),
        facts=script_json(facts),
        binary="\n".join(
            f'<script type="text/plain" id="bytes-{name}">{base64.b64encode(one).decode()}</script>' for name, one in binary.items()
        ),
        worker=f'<script type="text/plain" id="worker.js">{scripts["worker.js"]}</script>',
        scripts="\n".join(f'<script id="{name}">{scripts[name]}</script>' for name in run),
    )


def page_source(name: str) -> str:
    """Return a file of the page, which lies beside this file."""
    return files("highwaynet.web").joinpath(name).read_text(encoding="utf-8")


def _checksum(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def script_json(values: Any) -> str:
    r"""Return JSON that can stand inside a script element: no text in it can end the element or begin a comment.

    >>> script_json({"name": "</script><!--"})
    '{"name":"\\u003c/script\\u003e\\u003c!--"}'
    """
    text = json.dumps(values, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def is_own_page(path: Path) -> bool:
    """Whether a file is a page of this package, which may be overwritten."""
    return MARK in _beginning(path)


def shows(path: Path, fingerprint: str) -> bool:
    """Whether a file is an explore page with the network that has this fingerprint."""
    beginning = _beginning(path)
    return MARK in beginning and "highwaynet-runs" in beginning and fingerprint in beginning


def _beginning(path: Path) -> str:
    try:
        with path.open("r", encoding="utf-8") as stream:
            return stream.read(3000)
    except (OSError, UnicodeDecodeError):
        return ""
