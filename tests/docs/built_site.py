"""The whole site, built as `make docs` builds it, and what is on its pages."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD_TIMEOUT_S = 600
MADE = ROOT / "build" / "docs"
SOURCES = (ROOT / "docs", ROOT / "tools", ROOT / "src")
UNRELATED = (".pyc", ".so")  # made by whatever runs
MISSING = [
    name for name in ("sphinx", "myst_parser", "furo") if importlib.util.find_spec(name) is None
]


def site_in(out: Path) -> Path:
    """The site that `make docs` has built, if it is newer than all that it is made of; else one
    that is built into `out`."""
    front = MADE / "index.html"
    if front.is_file():
        built_ns = front.stat().st_mtime_ns
        made_of = [path for folder in SOURCES for path in folder.rglob("*") if path.is_file()]
        if all(
            path.stat().st_mtime_ns < built_ns for path in made_of if path.suffix not in UNRELATED
        ):
            return MADE
    return build(out)


def build(out: Path) -> Path:
    """Build the site into `out`; a warning is an error. Skips the test where Sphinx is missing."""
    if MISSING:
        pytest.skip(f"make docs installs {', '.join(MISSING)}")
    done = subprocess.run(
        [sys.executable, "-m", "docs_site", "--out", str(out)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return out


@dataclass
class Links:
    """What a page refers to, and what can be referred to on it."""

    targets: set[str] = field(default_factory=set)
    anchors: set[str] = field(default_factory=set)


class LinkReader(HTMLParser):
    """Collects links, pictures, scripts, styles and anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.found = Links()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" or (tag == "a" and name == "name"):
                self.found.anchors.add(value or "")
            elif name in ("href", "src") and value:
                self.found.targets.add(value)


def links(page: Path) -> Links:
    """The links of a page."""
    reader = LinkReader()
    reader.feed(page.read_text())
    return reader.found


def broken(site: Path) -> list[str]:
    """The links within the site that lead nowhere, anchors included."""
    pages = {path: links(path) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        for target in sorted(page.targets):
            scheme_or_path, _, anchor = target.partition("#")
            if ":" in scheme_or_path:
                continue
            name = scheme_or_path.partition("?")[0]
            file = (path.parent / name).resolve() if name else path
            if not file.is_file() or (
                anchor and file in pages and anchor not in pages[file].anchors
            ):
                found.append(f"{path.relative_to(site)}: {target}")
    return found
