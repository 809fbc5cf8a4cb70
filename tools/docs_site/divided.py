"""A long page is several on the site: each section that is named here is a page of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

DIVIDED = {
    "GUIDE.md": {
        "Metrics and health": "METRICS.md",
        "Configuration": "CONFIGURATION.md",
        "Command line": "COMMANDS.md",
        "In your tests": "IN_TESTS.md",
        "Differences from Apache Kafka": "DIFFERENCES.md",
    }
}
"""By page: the titles of sections, and where they are on the site."""

HEADING = re.compile(r"^(#+) (.*)$")
FENCE = re.compile(r"^```")


def parts(place: str, text: str) -> Iterator[tuple[str, str]]:
    """Place and text of the pages that a page is on the site: one, or several."""
    apart = DIVIDED.get(place, {})
    found: dict[str, list[str]] = {place: []}
    here = place
    for line, heading in _lines(text):
        if heading and len(heading[1]) <= 2:
            here = apart.get(heading[2], place)
        if heading and here != place:
            line = line.removeprefix("#")
        found.setdefault(here, []).append(line)
    if apart:
        found[place] += ["", "## Pages of their own", ""]
        found[place] += [f"* [{title}]({page})" for title, page in apart.items()]
    for page, lines in found.items():
        yield page, "\n".join(lines) + "\n"


def anchors(place: str, text: str) -> dict[str, str]:
    """Where each heading of a page is on the site, by its anchor."""
    return {
        anchor(heading[2]): page
        for page, part in parts(place, text)
        for _, heading in _lines(part)
        if heading
    }


def anchor(title: str) -> str:
    """What a link to a heading has behind its `#`."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _lines(text: str) -> Iterator[tuple[str, re.Match[str] | None]]:
    """The lines of a page, each with its heading if it is one; comments in blocks are none."""
    in_block = False
    for line in text.splitlines():
        in_block ^= bool(FENCE.match(line))
        yield line, None if in_block else HEADING.match(line)
