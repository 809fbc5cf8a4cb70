"""What a page is: sections of sentences, tables and drawings, as values.

One function makes a page. A browser, `/api` and `fencepost console --once` show the same value, so
what one of them says, all of them say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from fencepost.views.view import View

Level = Literal["good", "note", "warning", "bad"]
"""How a sentence is meant: all is well, worth knowing, to be looked at, something is broken."""


class Sentence(View, frozen=True):
    """A finding in words; `link` is a path of the console where more of it is."""

    text: str
    level: Level = "note"
    link: str | None = None


class Table(View, frozen=True):
    """Rows of one kind of view, whose `columns` are the table's.

    `links` are, by heading, the path for each row's cell, None where a cell has none. `total` is
    how many rows there are where only some are shown. `levels` are of rows, in their order, where
    a row is worth a colour (and a letter: colour never stands alone).
    """

    caption: str
    kind: type[View]
    rows: Sequence[View]
    links: Mapping[str, Sequence[str | None]] = {}
    levels: Sequence[Level | None] = ()
    total: int | None = None


class Drawing(View, frozen=True):
    """A picture as SVG, which has a title of its own, and as lines of text that say the same."""

    caption: str
    svg: str
    lines: Sequence[str]


class Text(View, frozen=True):
    """Text as it is, such as a command to copy or the bytes of a record in hexadecimal."""

    caption: str
    text: str


class Live(View, frozen=True):
    """A table whose rows come as events of `events`, a path of the console (text/event-stream),
    from when its reader starts it until it is stopped. `headings` are the columns'; `rows_max` is
    how many rows are kept."""

    caption: str
    events: str
    headings: Sequence[str]
    rows_max: int = 500


class Cell(View, frozen=True):
    """What a matrix has where a row and a column meet: a few letters, and what they mean."""

    text: str
    meaning: str = ""
    level: Level | None = None


class MatrixRow(View, frozen=True):
    """A row of a matrix: its name with a link, a cell for each column (None: an empty one), and
    what else there is to say of it."""

    name: str
    cells: Sequence[Cell | None]
    link: str | None = None
    note: str = ""
    level: Level | None = None


class Matrix(View, frozen=True):
    """Rows against columns that are known only when the page is made, such as brokers; `heads`
    names these. `corner` says what the rows are, `key` what letters mean; `total` is as in
    `Table`."""

    caption: str
    corner: str
    heads: Sequence[str]
    rows: Sequence[MatrixRow]
    key: Mapping[str, str] = {}
    note: str = "note"
    total: int | None = None


Block = Table | Drawing | Text | Live | Matrix


class Section(View, frozen=True):
    """A heading, what was found, and what shows it. `document` is what JSON has of the section's
    blocks: views, or a list or dictionary of them."""

    heading: str
    sentences: Sequence[Sentence] = ()
    blocks: Sequence[Block] = ()
    document: Any = None


class Field(View, frozen=True):
    """A value that a page's reader may set: text (of several `lines`), a number, or one of
    `choices`."""

    name: str
    label: str
    value: str
    choices: Sequence[str] = ()
    lines: bool = False


class Confirm(View, frozen=True):
    """A change that a page shows, to be confirmed: by a form that is sent to `path` with `values`,
    with `target` typed in. `digest` is of what is shown, `button` says what the change is."""

    path: str
    values: Mapping[str, str]
    target: str
    digest: str
    button: str


class Page(View, frozen=True):
    """A page. `taken_at_ms` (since 1970) is when what it shows was so; `requests` is how many the
    cluster was asked for this page, by name. `refresh_s` is how often a browser asks again, None
    for a page that stays as it is. `fields` filter it; they are in the URL. `more` is the path of
    the next part of a long list; `confirm` is a change that the page shows."""

    title: str
    sections: Sequence[Section]
    taken_at_ms: int
    requests: Mapping[str, int] = {}
    refresh_s: float | None = 5.0
    fields: Sequence[Field] = ()
    more: str | None = None
    confirm: Confirm | None = None


def document_of(page: Page) -> dict[str, Any]:
    """The page as JSON has it: findings in words and the views that tables and drawings show."""
    return {
        "title": page.title,
        "taken_at_ms": page.taken_at_ms,
        "requests": dict(page.requests),
        "more": page.more,
        "sections": [
            {
                "heading": section.heading,
                "sentences": msgspec.to_builtins(list(section.sentences)),
                "document": msgspec.to_builtins(_document(section)),
            }
            for section in page.sections
        ],
    }


def _document(section: Section) -> Any:
    """What a section says of itself, else the rows of its tables and the text of the rest."""
    if section.document is not None:
        return section.document
    return {
        block.caption: list(block.rows)
        if isinstance(block, Table | Matrix)
        else list(block.lines)
        if isinstance(block, Drawing)
        else {"events": block.events}
        if isinstance(block, Live)
        else block.text
        for block in section.blocks
    }
