"""The site, for all tests of its pages."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import filelock
import pytest
from environments import environment_with, packages_of
from website.browser import Browser

ROOT = Path(__file__).parents[2]


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that writes no log."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def build(site: Path, packages: Path) -> None:
    """Build the site by the command of CONTRIBUTING.md, with no more than the extra `docs`."""
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    found = environment_with(packages_of("docs"), packages)
    found["NO_MKDOCS_2_WARNING"] = "1"
    done = subprocess.run(words, cwd=ROOT, env=found, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; the first process that needs it builds it for all."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, built = shared / "site", shared / "site-is-built"
    with filelock.FileLock(shared / "site.lock"):
        if built.exists():
            return folder
        build(folder, tmp_path_factory.mktemp("docs"))
        built.touch()
    return folder


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """The site on a local server: the search and the choice of colours need one."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser for all tests."""
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the site, which takes a minute to build, as slow."""
    for item in items:
        if "site" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")
