"""Docstrings for Sphinx's autodoc, which reads reStructuredText: tables and blocks of text.

Docstrings here are plain text with Markdown's tables and blocks indented by four.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from docs_site.prose import CODE_SPAN
from docs_site.schema import own_doc
from fencepost.wire.message import Struct

BLOCK_INDENT = "    "


def convert(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Sphinx's event `autodoc-process-docstring`: rewrites `lines` in place."""
    if isinstance(obj, type) and issubclass(obj, Struct):
        lines[:] = own_doc(obj).splitlines()  # fields are in the reference
    lines[:] = list(_converted(lines))


def _converted(lines: list[str]) -> Iterator[str]:
    kept: list[str] = []
    for kind, group in groupby(lines, _kind):
        run = list(group)
        if kind == "table":
            kept += ["", *_table(run), ""]
        else:
            kept += run
    yield from _blocks(_bold_headings(kept))


def _kind(line: str) -> str:
    return "table" if line.startswith("|") else "text"


def _table(lines: list[str]) -> Iterator[str]:
    """A Markdown table as a list-table."""
    yield ".. list-table::"
    yield "   :header-rows: 1"
    yield ""
    for line in [lines[0], *lines[2:]]:
        for index, cell in enumerate(line.strip()[1:-1].split("|")):
            yield f"   {'*' if index == 0 else ' '} - {_literal(cell.strip())}"


def _literal(text: str) -> str:
    return CODE_SPAN.sub(lambda match: f"``{match[1].strip('`')}``", text)


def _bold_headings(lines: list[str]) -> Iterator[str]:
    """Headings inside of docstrings would be sections of the page."""
    for line, below in zip(lines, [*lines[1:], ""]):
        if re.fullmatch(r"-{3,}", line):
            continue
        yield f"**{line}**" if re.fullmatch(r"-{3,}", below) else line


def _blocks(lines: Iterator[str]) -> Iterator[str]:
    """Marks indented blocks that stand alone as literal."""
    before, literal, directive = "", False, False
    for line in lines:
        if line.startswith(".. "):
            directive = True
        elif line and not line.startswith(" "):
            directive = literal = False
        starts = line.startswith(BLOCK_INDENT) and not before.strip()
        if starts and not literal and not directive and not line.lstrip().startswith("* "):
            literal = True
            yield "::"
            yield ""
        yield line
        before = line
