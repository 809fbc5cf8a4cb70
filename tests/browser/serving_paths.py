"""The paths of pages that tests go through."""

from __future__ import annotations

from typing import Any


def header_paths(page: Any) -> list[str]:
    """The paths that the list of pages at the top has; opens the first page."""
    page.goto("/")
    return [one.get_attribute("href") for one in page.locator(".top nav a").all()]
