"""Results on standard output: a JSON document with --json, else a table."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from fencepost.cli.failures import escaped


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def counted(count: int, noun: str) -> str:
    """ "1 replica", "2 replicas"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def json_bytes(data: bytes | None) -> str | dict[str, str] | None:
    """Bytes for people: text where they are UTF-8, else an object with their hex digits."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def print_json(value: Any) -> None:
    """One JSON document, for people and for jq."""
    json.dump(value, sys.stdout, indent=2)
    sys.stdout.write("\n")


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as they need to be, two blanks apart; numbers, and what is not known among
    them, to the right. Without rows nothing but a note on stderr. What a terminal would act on is
    escaped: ids of groups, transactions and clients are whatever their owners like."""
    lines = [tuple(map(_cell, row)) for row in rows]
    if not lines:
        print("(none)", file=sys.stderr)
        return
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    columns = [{line[i] for line in lines} - {"-"} for i in range(len(header))]
    numeric = [
        bool(cells) and all(cell.removeprefix("-").isdecimal() for cell in cells)
        for cells in columns
    ]
    for line in (tuple(header), *lines):
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )
        print("  ".join(cells).rstrip())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, list | tuple | set | frozenset):
        return escaped(",".join(map(str, value))) or "-"
    return escaped(str(value))
