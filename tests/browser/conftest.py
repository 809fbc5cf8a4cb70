"""A real browser on a real console of a real cluster. Debian's Chromium, driven by Playwright.

Every page that a test opens is watched: an error on its console, a violation of its content
security policy, or a request to anything but the console fails the test.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from fencepost.testing import Cluster, Proxy
from fencepost.testing.control import ControlPort
from tests.browser.data import fill
from tests.browser.sources import write_sources
from tests.console.serving import ServedConsole, serving
from tests.process_state import kept_for_the_session
from tests.waiting import DEADLINE_S

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser/" in item.path.as_posix():
            item.add_marker(pytest.mark.browser)


def installed_browser() -> str:
    """The path of a Chromium. Skips the test where there is none."""
    named = os.environ.get("FENCEPOST_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(
            "no Chromium is installed: apt-get install chromium (or name one in FENCEPOST_CHROMIUM)"
        )
    return found


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    path = installed_browser()
    api = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is missing: pip install 'fencepost[test]'"
    )
    with kept_for_the_session():
        playwright = api.sync_playwright().start()
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
    yield browser
    browser.close()
    playwright.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Three brokers with topics, records and a group, for tests that leave them as they are."""
    installed_browser()
    with kept_for_the_session():
        running = Cluster(3, faults=False)
        running.__enter__()
        fill(running.bootstrap_servers)
    yield running
    running.__exit__(None, None, None)


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of what the console is given beside the cluster."""
    return tmp_path_factory.mktemp("sources")


@pytest.fixture(scope="session")
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    """In front of the cluster: its faults are those of the console's page, and meet no test."""
    with kept_for_the_session():
        running = Proxy(cluster.bootstrap_servers)
        running.start()
    yield running
    running.close()


@pytest.fixture(scope="session")
def console(cluster: Cluster, proxy: Proxy, sources: Path) -> Iterator[ServedConsole]:
    with kept_for_the_session():
        port = ControlPort(proxy)
        port.start()
        given = [*write_sources(sources), "--faults", f"http://{port.address}/"]
        context = serving(cluster.bootstrap_servers, "--allow-writes", *given)
        served = context.__enter__()
    yield served
    context.__exit__(None, None, None)
    port.close()
    told = [line for line in served.stderr if "audit: " not in line]
    assert told == [], "a page that failed is told of on stderr"


class Watched:
    """Opens contexts of the browser whose pages are watched; `complaints` is what was seen."""

    def __init__(self, browser: Any) -> None:
        self.complaints: list[str] = []
        self.allowed_errors: list[str] = []
        self._browser = browser
        self._contexts: list[Any] = []

    def page(self, origin: str, **options: Any) -> Any:
        """A new page, of which every request has to go to `origin`."""
        context = self._browser.new_context(base_url=origin, **options)
        self._contexts.append(context)
        context.set_default_timeout(DEADLINE_S * 1000)

        def only_here(route: Any) -> None:
            if urlsplit(route.request.url).netloc == urlsplit(origin).netloc:
                route.continue_()
            else:
                self.complaints.append(f"a request to {route.request.url}")
                route.abort()

        context.route("**/*", only_here)
        page = context.new_page()
        page.on("console", self._on_message)
        page.on("pageerror", lambda error: self.complaints.append(f"an error: {error}"))
        page.on("dialog", self._on_dialog)
        return page

    def close(self) -> None:
        for context in self._contexts:
            context.close()

    def _on_message(self, message: Any) -> None:
        if message.type not in ("error", "warning"):
            return
        if not any(allowed in message.text for allowed in self.allowed_errors):
            self.complaints.append(f"{message.type}: {message.text}")

    def _on_dialog(self, dialog: Any) -> None:
        self.complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()


@pytest.fixture
def watched(chromium: Any) -> Iterator[Watched]:
    made = Watched(chromium)
    yield made
    made.close()
    assert made.complaints == []


@pytest.fixture
def page(watched: Watched, console: ServedConsole) -> Any:
    """A page of the console, 1280 pixels wide and light."""
    return watched.page(console.origin, viewport={"width": 1280, "height": 800})
