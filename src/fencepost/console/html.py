"""A page as HTML. Everything a cluster says is text here, never markup: elements are made by htpy,
which escapes; a drawing's SVG is made by us and escapes by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import htpy as h
from markupsafe import Markup, escape

from fencepost.console.page import (
    Block,
    Cell,
    Confirm,
    Drawing,
    Field,
    Level,
    Live,
    Matrix,
    MatrixRow,
    Page,
    Section,
    Sentence,
    Table,
)
from fencepost.console.pages.table import PAGES
from fencepost.console.standing import Standing, age_text
from fencepost.console.text import cost_of
from fencepost.views.times import iso_time

LETTERS: Final[dict[Level, str]] = {"good": "ok", "note": "", "warning": "?", "bad": "!"}
"""What a row or a sentence has beside its colour."""
NARROW_COLUMNS: Final = 9
"""Tables of more columns scroll by themselves on wide screens, too."""
SHORT: Final = 24
"""Characters of a cell that stay on one line."""


def document(page: Page, path: str, standing: Standing, csrf: str = "") -> str:
    """The whole document; `path` is the page's own, quoted and with its query. `csrf` is the token
    that a form of it has; such a page is not to be had as JSON."""
    return _document(
        page.title,
        h.fragment[
            h.header(".top")[
                h.a(".name", href="/")["Fencepost"],
                h.nav(aria_label="Pages")[
                    (
                        _link(kind.path, kind.label, path)
                        for kind in PAGES
                        if kind.label and (not kind.is_given or kind.name in standing.sources)
                    ),
                    _link("/writes", "Writes", path) if standing.allows_writes else None,
                ],
                h.span(".cluster", title="the cluster's id")[standing.cluster_id],
                h.button(type="button", data_pause=True, aria_pressed="false", hidden=True)[
                    "Pause"
                ],
            ],
            h.main("#main", tabindex="-1")[
                # For what console.js says by itself; a reader with a screen reader hears of it.
                h.p("#silent", role="status"),
                main(page, path, standing, csrf),
            ],
        ],
    )


def bare(title: str, text: str) -> str:
    """A document of one sentence, without the list of pages."""
    return _document(title, h.main("#main", tabindex="-1")[h.h1[title], h.p[text]])


def _document(title: str, body: h.Node) -> str:
    return str(
        h.html(lang="en")[
            h.head[
                h.meta(charset="utf-8"),
                h.meta(name="viewport", content="width=device-width, initial-scale=1"),
                h.meta(name="color-scheme", content="light dark"),
                h.title[f"{title} · Fencepost"],
                h.link(rel="stylesheet", href="/static/console.css"),
                h.link(rel="icon", href="/static/icon.svg", type="image/svg+xml"),
                h.script(src="/static/console.js", defer=True),
            ],
            h.body[h.a(".skip", href="#main")["To the content"], body],
        ]
    )


def standalone(page: Page, sheet: str) -> str:
    """The page as a document of its own, with its style sheet in it and nothing else needed."""
    return str(
        h.html(lang="en")[
            h.head[
                h.meta(charset="utf-8"),
                h.meta(name="viewport", content="width=device-width, initial-scale=1"),
                h.title[page.title],
                h.style[Markup(sheet)],
            ],
            h.body[h.main[h.h1[page.title], (_section(section) for section in page.sections)],],
        ]
    )


def _link(to: str, label: str, path: str) -> h.Element:
    here = path.partition("?")[0]
    is_here = here == to or (to != "/" and here.startswith(to + "/"))
    return h.a(href=to, aria_current="page" if is_here else None)[label]


def main(page: Page, path: str, standing: Standing, csrf: str) -> h.Element:
    """What changes from one look to the next: all below the list of pages."""
    refresh = {} if page.refresh_s is None else {"data-refresh-s": f"{page.refresh_s:g}"}
    return h.div("#page", refresh)[
        h.ul(".findings.standing")[(_sentence(one) for one in standing.findings)]
        if standing.findings
        else None,
        h.h1[page.title],
        _fields(page.fields, path),
        (_section(section) for section in page.sections),
        page.more is not None and h.p(".more")[h.a(href=page.more)["More"]],
        None if page.confirm is None else _confirm(page.confirm, csrf),
        _footer(page, path, standing, has_json=not csrf),
    ]


def _footer(page: Page, path: str, standing: Standing, has_json: bool) -> h.Element:
    age_ms = max(standing.at_ms - page.taken_at_ms, 0)
    return h.footer[
        h.p[
            f"as of {iso_time(page.taken_at_ms)}, ",
            h.span(".age", data_age_ms=str(age_ms))[age_text(age_ms)],
            f" ago; {cost_of(page)}",
            (" · ", h.a(href="/api" + path)["JSON"]) if has_json else None,
        ],
        h.p[standing.load_text],
    ]


def _confirm(confirm: Confirm, csrf: str) -> h.Element:
    hidden = {**confirm.values, "digest": confirm.digest, "csrf": csrf}
    return h.form(".confirm", method="post", action=confirm.path, autocomplete="off")[
        (h.input(type="hidden", name=name, value=value) for name, value in hidden.items()),
        h.label[
            h.span["To make this change, type ", h.strong[confirm.target]],
            h.input(name="typed", required=True, spellcheck="false"),
        ],
        h.button(type="submit")[confirm.button],
    ]


def _fields(fields: Sequence[Field], path: str) -> h.Node:
    if not fields:
        return None
    return h.form(".fields", method="get", action=path.partition("?")[0], role="search")[
        (
            h.label[
                h.span[field.label],
                h.select(name=field.name)[
                    (h.option(value=one, selected=one == field.value)[one] for one in field.choices)
                ]
                if field.choices
                else h.textarea(name=field.name, rows="4", cols="40")[f"\n{field.value}"]
                if field.lines
                else h.input(name=field.name, value=field.value, type="search"),
            ]
            for field in fields
        ),
        h.button(type="submit")["Show"],
    ]


def _section(section: Section) -> h.Element:
    return h.section[
        h.h2[section.heading] if section.heading else None,
        h.ul(".findings")[(_sentence(one) for one in section.sentences)]
        if section.sentences
        else None,
        (_block(one, section.heading) for one in section.blocks),
    ]


def _sentence(one: Sentence) -> h.Element:
    text: h.Node = one.text if one.link is None else h.a(href=one.link)[one.text]
    return h.li(class_=one.level)[_letter(one.level), text]


def _letter(level: Level | None) -> h.Node:
    if level is None or not LETTERS[level]:
        return None
    return h.span(".letter", title=level)[LETTERS[level]]


def _block(block: Block, heading: str) -> h.Element:
    if isinstance(block, Table):
        return _table(block, heading)
    if isinstance(block, Matrix):
        return _matrix(block)
    if isinstance(block, Drawing):
        return h.figure[
            h.div(".scroll", tabindex="0", role="group", aria_label=block.caption)[
                Markup(block.svg)
            ],
            h.figcaption[block.caption],
            h.details[h.summary["As text"], h.pre["\n".join(block.lines)]],
        ]
    if isinstance(block, Live):
        return _live(block)
    return h.figure[h.pre(tabindex="0")[block.text], h.figcaption[block.caption]]


def _live(block: Live) -> h.Element:
    return h.div(".live", data_tail=block.events, data_rows_max=str(block.rows_max))[
        h.p[
            h.button(type="button", data_start=True)["Start"],
            " ",
            h.button(type="button", data_stop=True, disabled=True)["Stop"],
            " ",
            h.span(role="status", aria_live="polite")["Not started."],
        ],
        h.div(".scroll", tabindex="0", role="group", aria_label=block.caption)[
            h.table[
                h.caption[block.caption],
                h.thead[h.tr[(h.th(scope="col")[one] for one in block.headings)]],
                h.tbody,
            ]
        ],
    ]


def _table(table: Table, section_heading: str) -> h.Element:
    columns = list(table.kind.columns.items())
    if not table.rows:
        return h.p(".none")[f"{table.caption}: none"]
    scroll = ".scroll.narrow" if len(columns) <= NARROW_COLUMNS else ".scroll"
    caption = _caption(table)
    # Where it says what the heading above says, it is for screen readers.
    unseen = ".unseen" if caption.casefold() == section_heading.casefold() else ""
    return h.div(scroll, tabindex="0", role="group", aria_label=table.caption)[
        h.table[
            h.caption(unseen)[caption],
            h.thead[h.tr[(_heading(table, heading, name) for heading, name in columns)]],
            h.tbody[(_row(table, columns, *place) for place in enumerate(_keys(table)))],
        ]
    ]


def _heading(table: Table, heading: str, name: str) -> h.Element:
    numbers = any(_is_number(getattr(row, name)) for row in table.rows)
    # A column whose cells say what they are has a heading for screen readers alone.
    unseen = h.span(".unseen")[name.removesuffix("_text")]
    return h.th(scope="col", class_="number" if numbers else None)[heading or unseen]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _matrix(matrix: Matrix) -> h.Element:
    """A table whose cells are reached with the arrow keys (console.js)."""
    if not matrix.rows:
        return h.p(".none")[f"{matrix.caption}: none"]
    has_notes = any(row.note for row in matrix.rows)
    heads = [matrix.corner, *matrix.heads, *([matrix.note] if has_notes else [])]
    return h.figure[
        h.div(".scroll")[
            h.table(".matrix")[
                h.caption[_caption(matrix)],
                h.thead[h.tr[(h.th(scope="col")[head] for head in heads)]],
                h.tbody[
                    (
                        _matrix_row(row, is_first=number == 0, has_notes=has_notes)
                        for number, row in enumerate(matrix.rows)
                    )
                ],
            ]
        ],
        h.figcaption(".key")[
            (h.span[h.b[letters], f" {meaning}"] for letters, meaning in matrix.key.items())
        ]
        if matrix.key
        else None,
    ]


def _matrix_row(row: MatrixRow, *, is_first: bool, has_notes: bool) -> h.Element:
    name: h.Node = row.name if row.link is None else h.a(href=row.link)[row.name]
    return h.tr(class_=row.level)[
        h.th(scope="row")[_letter(row.level), name],
        (
            _matrix_cell(cell, "0" if is_first and place == 0 else "-1")
            for place, cell in enumerate(row.cells)
        ),
        h.td(tabindex="-1")[row.note] if has_notes else None,
    ]


def _matrix_cell(cell: Cell | None, tabindex: str) -> h.Element:
    if cell is None:
        return h.td(tabindex=tabindex)
    return h.td(class_=cell.level, title=cell.meaning or None, tabindex=tabindex)[cell.text]


def _caption(table: Table | Matrix) -> str:
    if table.total is None or table.total <= len(table.rows):
        return table.caption
    return f"{table.caption}: {len(table.rows)} of {table.total}"


def _row(table: Table, columns: list[tuple[str, str]], number: int, key: str | None) -> Markup:
    """A row, put together as text: lists have thousands of cells, and an element for each of them
    takes five times as long. All that is not ours is escaped here."""
    level = table.levels[number] if table.levels else None
    row = table.rows[number]
    cells = []
    for place, (heading, name) in enumerate(columns):
        value = getattr(row, name)
        links = table.links.get(heading)
        link = links[number] if links else None
        text = _cell_text(value)
        shown = escape(text)
        if link is not None:
            shown = Markup('<a href="{}">{}</a>').format(link, shown)
        is_short = len(text) <= SHORT
        kind = "number" if _is_number(value) else "short" if is_short else "long"
        if place == 0:
            letter = h.fragment[_letter(level)]
            cells.append(f'<th scope="row" class="{kind}">{letter}{shown}</th>')
        else:
            cells.append(f'<td class="{kind}">{shown}</td>')
    start = "<tr" if key is None else f'<tr data-key="{escape(key)}"'
    classed = "" if level is None else f' class="{level}"'
    return Markup(f"{start}{classed}>{''.join(cells)}</tr>")


def _keys(table: Table) -> Sequence[str | None]:
    """By which the script finds rows again after a look: their links, else their first cells; by
    their places where these are not different."""
    first = next(iter(table.kind.columns.values()))
    linked = next(iter(table.links.values()), None) or [None] * len(table.rows)
    keys = [
        link or _cell_text(getattr(row, first))
        for link, row in zip(linked, table.rows, strict=True)
    ]
    return keys if len(set(keys)) == len(keys) else [None] * len(keys)


def _cell_text(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(map(str, value)) or "–"
    return str(value)
