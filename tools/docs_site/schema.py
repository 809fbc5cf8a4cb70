"""A message as its documentation sees it: every field with its path and the versions it is in."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc
from typing import NamedTuple

from fencepost.wire.describe import Row, rows
from fencepost.wire.message import Message, Struct
from fencepost.wire.schema import VersionRange


class Entry(NamedTuple):
    """One field of a message."""

    row: Row
    path: str
    """Names from the message down, with dots."""

    anchor: str
    """What links to the field end in."""

    present: frozenset[int]
    """Versions of the message in which the field is on the wire."""

    tagged: frozenset[int]
    """Those of them in which it goes by its tag."""

    nullable: frozenset[int]
    """Those of them in which it may be null."""

    struct: type[Struct] | None
    """The struct that it holds, or an array of."""


class Change(NamedTuple):
    """What happens to one field from one version to the next."""

    version: int
    """The newer version."""

    kind: str
    """`added`, `removed`, `tagged`, `untagged`, `nullable` or `not nullable`."""

    entry: Entry


def all_versions(cls: type[Message]) -> range:
    """Every version of a message."""
    return range(cls.min_version, cls.max_version + 1)


def own_doc(cls: type[Struct]) -> str:
    """The docstring as written, without the fields that `help` shows below it."""
    return cleandoc(cls.__dict__.get("__doc__") or "")


def entries(cls: type[Message]) -> list[Entry]:
    """All fields of `cls`, those of a struct behind the field that holds it."""
    found: list[Entry] = []
    above: list[Entry] = []
    everywhere = frozenset(all_versions(cls))
    for row, struct in zip(rows(cls), _structs(cls), strict=True):
        del above[row.depth :]
        path = ".".join([*(entry.row.name for entry in above), row.name])
        around = above[-1].present if above else everywhere
        present = _within(row.versions, around)
        entry = Entry(
            row=row,
            path=path,
            anchor=anchor(cls, path),
            present=present,
            tagged=_within(row.tagged, present),
            nullable=_within(row.nullable, present),
            struct=struct,
        )
        above.append(entry)
        found.append(entry)
    return found


def anchor(cls: type[Message], path: str) -> str:
    """`fetchrequest-topics-partitions-fetch-offset` for FetchRequest and the path with dots."""
    return f"{cls.__name__}.{path}".lower().replace(".", "-").replace("_", "-")


def changes(cls: type[Message]) -> list[Change]:
    """What each version changes, from the second one on; parts of what comes or goes are left out.

    A struct that comes brings its fields along, so only the struct is named.
    """
    found = []
    listed = entries(cls)
    for version in all_versions(cls)[1:]:
        moved: list[str] = []
        for entry in listed:
            if any(entry.path.startswith(f"{path}.") for path in moved):
                continue
            kind = _change(entry, version)
            if kind in ("added", "removed"):
                moved.append(entry.path)
            if kind:
                found.append(Change(version, kind, entry))
    return found


def _change(entry: Entry, version: int) -> str:
    before, now = version - 1 in entry.present, version in entry.present
    if before != now:
        return "added" if now else "removed"
    if now and (version - 1 in entry.tagged) != (version in entry.tagged):
        return "tagged" if version in entry.tagged else "untagged"
    if now and (version - 1 in entry.nullable) != (version in entry.nullable):
        return "nullable" if version in entry.nullable else "not nullable"
    return ""


def _within(versions: str, around: frozenset[int]) -> frozenset[int]:
    if not versions:
        return frozenset()
    span = VersionRange.parse(versions)
    return frozenset(version for version in around if span.holds(version))


def _structs(cls: type[Struct]) -> Iterator[type[Struct] | None]:
    """What each field holds, in the order of `describe.rows`."""
    for field in cls.fields:
        yield field.struct
        if field.struct is not None:
            yield from _structs(field.struct)
