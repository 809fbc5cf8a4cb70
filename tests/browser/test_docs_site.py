"""The documentation's site in a browser: nothing is cut at two widths, and the search finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.built_site import BUILD_TIMEOUT_S, build
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.timeout(BUILD_TIMEOUT_S + 300)
PAGES_OF_MANY = ("fetch", "index", "metadata")
"""Of the pages of APIs, which are made by one function."""

CUT = """() => {
  const width = document.documentElement.clientWidth;
  const found = document.documentElement.scrollWidth > width ? ["the page"] : [];
  for (const one of document.querySelectorAll("article :is(table, img, svg, h1, h2, h3, p)")) {
    const outer = one.closest(".table-wrapper, .scroll") || one;
    const hidden = outer.scrollWidth > outer.clientWidth + 1 && outer !== one;
    if (hidden || one.getBoundingClientRect().right > width + 1) {
      found.push(one.tagName + " " + (one.textContent.trim() || one.src).slice(0, 60));
    }
  }
  return found;
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, chromium: Any) -> Path:
    return build(tmp_path_factory.mktemp("site").resolve() / "docs")


def pages(site: Path) -> list[Path]:
    """All pages, and of those of APIs some."""
    apis = site / "reference" / "apis"
    return [
        path
        for path in sorted(site.rglob("*.html"))
        if "_static" not in path.parts
        and (path.parent != apis or path.stem in PAGES_OF_MANY)
        and path.stem not in ("genindex", "py-modindex", "search")
    ]


@pytest.mark.parametrize("width", [1280, 400])
def test_no_table_and_no_figure_is_cut(site: Path, chromium: Any, width: int):
    page = chromium.new_page(viewport={"width": width, "height": 900})
    found = []
    for path in pages(site):
        page.goto(path.as_uri(), timeout=1000 * DEADLINE_S)
        found += [f"{path.relative_to(site)}: {one}" for one in page.evaluate(CUT)]
    page.close()
    assert found == []


@pytest.mark.parametrize(
    ("words", "page_found"),
    [("current_leader_epoch", "reference/apis/fetch.html"), ("testcontainers", "FIXTURES.html")],
)
def test_the_search_finds(site: Path, chromium: Any, words: str, page_found: str):
    page = chromium.new_page()
    page.goto((site / "index.html").as_uri())
    page.fill("input[name=q]", words)
    page.press("input[name=q]", "Enter")
    link = page.locator(f"#search-results a[href^='{page_found}']").first
    link.wait_for(timeout=1000 * DEADLINE_S)
    page.close()
