"""What axe-core finds on the pages: nothing, in light and dark, wide and narrow."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tests.browser.serving_paths import header_paths

CHANGE = "/writes/delete-topic?topic=clicks"
FURTHER = (
    *("/topics/orders", "/topics/orders/0", "/topics/orders/records", "/topics/letters/records"),
    *("/groups/billing", "/groups/packing", "/brokers/1", "/changes", "/reassignments"),
    *("/audits/monday.json", "/replays/run.json", "/checkpoints/query", "/audit-log?show=all"),
    *(CHANGE, "/writes/fault", "/writes/redrive?topic=letters", "/topics/absent", "/nowhere"),
)
"""Pages that the header has not."""


def axe_script() -> str:
    """The script of axe-core. Skips the test where there is none."""
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        pytest.skip("axe-core is missing: pip install axe-playwright-python")
    return (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")


def violations(page: Any, script: str) -> list[str]:
    """What axe finds on the page that is open, a line for each element."""
    page.evaluate(script)
    found = page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{page.url}: {one['id']} ({one['impact']}): {node['html'][:150]}: {node['failureSummary']}"
        for one in found
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 420])
def test_axe_finds_nothing_on_any_page(watched, console, scheme, width):
    watched.allowed_errors = ["status of 404"]
    script = axe_script()
    page = watched.page(
        console.origin, color_scheme=scheme, viewport={"width": width, "height": 800}
    )
    found = []
    for path in (*header_paths(page), *FURTHER):
        page.goto(path)
        found += violations(page, script)
    assert found == []


def test_axe_would_find_something(page):
    """The way it is asked here is one by which it finds what is wrong."""
    page.goto("/topics")
    image = "<img src=/static/icon.svg>"
    page.evaluate(f"document.querySelector('main').insertAdjacentHTML('beforeend', '{image}')")
    assert any("image-alt" in line for line in violations(page, axe_script()))
