"""Tables of text; `fencepost wire` draws them without any package but the standard library."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def draw_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Columns as wide as they need to be, two blanks apart; numbers, and what is not known among
    them, to the right. No line at all without rows. What a terminal would act on is escaped: ids of
    groups, transactions and clients are whatever their owners like."""
    lines = [tuple(map(_cell, row)) for row in rows]
    if not lines:
        return []
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    columns = [{line[i] for line in lines} - {"-"} for i in range(len(header))]
    numeric = [
        bool(cells) and all(cell.removeprefix("-").isdecimal() for cell in cells)
        for cells in columns
    ]
    drawn = []
    for line in (tuple(header), *lines):
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )
        drawn.append("  ".join(cells).rstrip())
    return drawn


def escaped(text: str) -> str:
    """`text` without what a terminal would act on."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, list | tuple | set | frozenset):
        return escaped(",".join(map(str, value))) or "-"
    return escaped(str(value))
