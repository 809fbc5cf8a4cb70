"""The site as `make docs` builds it: links lead somewhere, nothing is loaded from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .built_site import BUILD_TIMEOUT_S, broken, links, site_in

pytestmark = [pytest.mark.long, pytest.mark.timeout(BUILD_TIMEOUT_S + 60)]
STARTS = ("testing", "spark", "codec", "operator")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site."""
    return site_in(tmp_path_factory.mktemp("site").resolve() / "docs")


def test_links_lead_somewhere_anchors_included(site: Path):
    assert broken(site) == []


def test_a_broken_link_is_found(tmp_path: Path):
    (tmp_path / "a.html").write_text('<p id="x"><a href="b.html#y">b</a><img src="c.png"></p>')
    (tmp_path / "b.html").write_text('<a href="a.html#x">a</a> <a href="https://b.c/#z">out</a>')
    assert broken(tmp_path) == ["a.html: b.html#y", "a.html: c.png"]


def test_the_front_page_leads_to_the_starts_and_these_to_their_tutorials(site: Path):
    front = links(site / "index.html").targets
    assert {f"start/{name}.html" for name in STARTS} <= front
    for name in STARTS:
        assert f"../tutorials/{name}.html" in links(site / "start" / f"{name}.html").targets


def test_fields_have_their_anchors(site: Path):
    page = (site / "reference/apis/fetch.html").read_text()
    assert 'id="fetchrequest-topics-partitions-current-leader-epoch"' in page


def test_search_finds_fields(site: Path):
    index = (site / "searchindex.js").read_text()
    assert '"current_leader_epoch":' in index
    assert '"fenced_leader_epoch":' in index.lower()


def test_nothing_is_loaded_from_elsewhere(site: Path):
    loads = re.compile(
        r"<(?:script|img|iframe|source)[^>]*\ssrc=\"(?:https?:)?//"
        r"|<link[^>]*\shref=\"(?:https?:)?//"
    )
    found = [path.name for path in site.rglob("*.html") if loads.search(path.read_text())]
    assert not found
    imports = re.compile(r"(?:@import\s+|url\()[\"']?(?:https?:)?//")
    assert not [p.name for p in site.rglob("*.css") if imports.search(p.read_text())]


def test_no_markdown_is_left_over(site: Path):
    page = (site / "python/messages.html").read_text()
    assert "| --- |" not in page
    assert "|---|" not in page
