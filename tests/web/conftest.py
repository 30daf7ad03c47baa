"""A real browser: Debian's Chromium, driven by Playwright.

Without them the tests that need it are skipped, unless HIGHWAYNET_REQUIRE_BROWSER=1 says that they must run.
"""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_chromium() -> str | None:
    """The browser's program."""
    return next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """One browser for each file of tests."""
    program = find_chromium()
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        program = None
    if program is None:
        assert os.environ.get("HIGHWAYNET_REQUIRE_BROWSER") != "1", (
            "HIGHWAYNET_REQUIRE_BROWSER=1, and there is no Chromium or no Playwright"
        )
        pytest.skip("Chromium or Playwright is missing")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield started
        started.close()
