"""What goes wrong with a table of latest values."""

from __future__ import annotations


class TableError(RuntimeError):
    """The table cannot be made, written, read or trusted; the text says why and where."""


class UnorderedError(TableError):
    """Two events of one key have no order: they are in different partitions, and nothing but
    offsets says which is the later one."""
