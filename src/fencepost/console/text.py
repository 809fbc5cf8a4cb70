"""A page as lines of text, for terminals and tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fencepost.console.page import Block, Drawing, Live, Matrix, Page, Section, Table
from fencepost.views.rendering import table_of
from fencepost.views.tables import draw_table, escaped
from fencepost.views.times import iso_time
from fencepost.views.view import count

MARKS: Final = {"good": "+", "note": " ", "warning": "?", "bad": "!"}
"""What stands before a sentence, so that no level is said by a colour alone."""


def text_of(page: Page) -> str:
    """The page as text: each section's heading, sentences, tables and drawings."""
    lines = [escaped(page.title), *footer_of(page)]
    for section in page.sections:
        lines += ["", *_section(section)]
    if page.more is not None:
        lines += ["", f"more: {page.more}"]
    return "\n".join(lines) + "\n"


def footer_of(page: Page) -> list[str]:
    """When the page's facts were so, and what they cost the cluster."""
    return [f"as of {iso_time(page.taken_at_ms)}, {cost_of(page)}"]


def cost_of(page: Page) -> str:
    """How many requests the page cost the cluster, and which."""
    names = ", ".join(f"{name} {number}" for name, number in sorted(page.requests.items()))
    paid = f"{count(sum(page.requests.values()), 'request')} to the cluster"
    return f"{paid} ({names})" if names else paid


def _section(section: Section) -> Iterator[str]:
    if section.heading:
        yield f"## {escaped(section.heading)}"
    for sentence in section.sentences:
        yield f"{MARKS[sentence.level]} {escaped(sentence.text)}"
    for block in section.blocks:
        yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Table):
        yield from table_of(block.kind, block.rows) or [f"({escaped(block.caption)}: none)"]
        if block.total is not None and block.total > len(block.rows):
            yield f"{len(block.rows)} of {block.total}"
    elif isinstance(block, Matrix):
        yield from _matrix(block)
    elif isinstance(block, Drawing):
        yield from map(escaped, block.lines)
    elif isinstance(block, Live):
        yield f"{escaped(block.caption)}: events of {escaped(block.events)}"
    else:
        yield from map(escaped, block.text.splitlines())


def _matrix(matrix: Matrix) -> Iterator[str]:
    rows = [
        (row.name, *("" if cell is None else cell.text for cell in row.cells), row.note)
        for row in matrix.rows
    ]
    header = (matrix.corner, *matrix.heads, matrix.note)
    yield from draw_table(header, rows) or [f"({escaped(matrix.caption)}: none)"]
    if matrix.total is not None and matrix.total > len(matrix.rows):
        yield f"{len(matrix.rows)} of {matrix.total}"
    if rows and matrix.key:
        yield "; ".join(f"{letters}: {meaning}" for letters, meaning in matrix.key.items())
