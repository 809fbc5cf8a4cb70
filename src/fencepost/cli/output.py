"""Results on standard output: a JSON document with --json, else a table or sentences."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencepost.views.view import View


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def json_bytes(data: bytes | None) -> str | dict[str, str] | None:
    """Bytes for people: text where they are UTF-8, else an object with their hex digits."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def print_json(views: Any) -> None:
    """One JSON document of a view or a list of them, for people and for jq."""
    from fencepost.views.json_documents import json_text

    print(json_text(views))


def print_views(arguments: argparse.Namespace, kind: type[View], views: Sequence[View]) -> None:
    """A list of views: JSON with --json, else a table with the columns of `kind`."""
    if arguments.json:
        print_json(views)
    else:
        print_table_of(kind, views)


def print_result(arguments: argparse.Namespace, view: View, sentence: str) -> None:
    """What was done: JSON with --json, else a sentence."""
    if arguments.json:
        print_json(view)
    else:
        print(sentence)


def print_table_of(kind: type[View], views: Iterable[View]) -> None:
    """A row per view; without views nothing but a note on stderr."""
    from fencepost.views.rendering import table_of

    _print_lines(table_of(kind, views))


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table whose columns only the command knows; without rows nothing but a note on stderr."""
    from fencepost.views.tables import draw_table

    _print_lines(draw_table(header, rows))


def _print_lines(lines: list[str]) -> None:
    if lines:
        print(*lines, sep="\n")
    else:
        print("(none)", file=sys.stderr)
