"""A page as HTML. Everything a cluster says is text here, never markup: elements are made by htpy,
which escapes; a drawing's SVG is made by us and escapes by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import htpy as h
from markupsafe import Markup, escape

from fencepost.console.page import (
    Block,
    Cell,
    Drawing,
    Field,
    Level,
    Matrix,
    MatrixRow,
    Page,
    Section,
    Sentence,
    Table,
)
from fencepost.console.pages.table import PAGES
from fencepost.console.text import footer_of

LETTERS: Final[dict[Level, str]] = {"good": "ok", "note": "", "warning": "?", "bad": "!"}
"""What a row or a sentence has beside its colour."""

HTMX_CONFIG: Final = '{"allowEval":false,"includeIndicatorStyles":false,"selfRequestsOnly":true}'


def document(page: Page, path: str, cluster: str) -> str:
    """The whole document; `path` is the page's own, with its query."""
    return str(
        h.html(lang="en")[
            h.head[
                h.meta(charset="utf-8"),
                h.meta(name="viewport", content="width=device-width, initial-scale=1"),
                h.meta(name="htmx-config", content=HTMX_CONFIG),
                h.title[f"{page.title} · Fencepost"],
                h.link(rel="stylesheet", href="/static/console.css"),
                h.link(rel="icon", href="/static/icon.svg", type="image/svg+xml"),
                h.script(src="/static/htmx.min.js", defer=True),
                h.script(src="/static/console.js", defer=True),
            ],
            h.body[
                h.a(".skip", href="#main")["To the content"],
                h.header[
                    h.a(".name", href="/")["Fencepost"],
                    h.nav(aria_label="Pages")[
                        (_link(kind.path, kind.label, path) for kind in PAGES if kind.label)
                    ],
                    h.span(".cluster")[cluster],
                ],
                h.main("#main", tabindex="-1")[main(page, path)],
            ],
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


def main(page: Page, path: str) -> h.Fragment:
    """What changes from one look to the next: all below the list of pages."""
    refresh: dict[str, Any] = {}
    if page.refresh_s is not None:
        refresh = {
            "hx-get": path,
            "hx-trigger": "look",
            "hx-target": "#page",
            "hx-select": "#page",
            "hx-swap": "outerHTML focus-scroll:false",
            "data-refresh-s": f"{page.refresh_s:g}",
        }
    return h.fragment[
        h.div("#page", refresh)[
            h.h1[page.title],
            _fields(page.fields, path),
            (_section(section) for section in page.sections),
            page.more is not None and h.p(".more")[h.a(href=page.more)["More"]],
            h.footer[
                h.p[
                    (*footer_of(page), " · ", h.a(href="/api" + path)["JSON"]),
                    page.refresh_s is not None
                    and h.button(type="button", data_pause=True, aria_pressed="false")["Pause"],
                ],
            ],
        ]
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
        (_block(one) for one in section.blocks),
    ]


def _sentence(one: Sentence) -> h.Element:
    text: h.Node = one.text if one.link is None else h.a(href=one.link)[one.text]
    return h.li(class_=one.level)[_letter(one.level), text]


def _letter(level: Level | None) -> h.Node:
    if level is None or not LETTERS[level]:
        return None
    return h.span(".letter", title=level)[LETTERS[level]]


def _block(block: Block) -> h.Element:
    if isinstance(block, Table):
        return _table(block)
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
    return h.figure[h.pre(tabindex="0")[block.text], h.figcaption[block.caption]]


def _table(table: Table) -> h.Element:
    columns = list(table.kind.columns.items())
    if not table.rows:
        return h.p(".none")[f"{table.caption}: none"]
    return h.div(".scroll", tabindex="0", role="group", aria_label=table.caption)[
        h.table[
            h.caption[_caption(table)],
            h.thead[h.tr[(h.th(scope="col")[heading] for heading, _ in columns)]],
            h.tbody[(_row(table, columns, number) for number in range(len(table.rows)))],
        ]
    ]


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


def _row(table: Table, columns: list[tuple[str, str]], number: int) -> Markup:
    """A row, put together as text: lists have thousands of cells, and an element for each of them
    takes five times as long. All that is not ours is escaped here."""
    level = table.levels[number] if table.levels else None
    cells = []
    for place, (heading, name) in enumerate(columns):
        value = getattr(table.rows[number], name)
        links = table.links.get(heading)
        link = links[number] if links else None
        shown = escape(_cell_text(value))
        if link is not None:
            shown = Markup('<a href="{}">{}</a>').format(link, shown)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        kind = ' class="number"' if is_number else ""
        if place == 0:
            letter = h.fragment[_letter(level)]
            cells.append(f'<th scope="row"{kind}>{letter}{shown}</th>')
        else:
            cells.append(f"<td{kind}>{shown}</td>")
    start = "<tr>" if level is None else f'<tr class="{level}">'
    return Markup(f"{start}{''.join(cells)}</tr>")


def _cell_text(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(map(str, value)) or "–"
    return str(value)
