"""`fencepost wire show`: the fields of a message as a table."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from fencepost.cli.cluster_options import UsageError, add_json_option, print_json
from fencepost.cli.wire.failures import wire_command
from fencepost.cli.wire.names import find
from fencepost.wire import describe
from fencepost.wire.describe import Row
from fencepost.wire.message import Message, VersionRange

EPILOG = """\
NAME is an API or its number (request and response), or one message: FetchRequest, RequestHeader,
TopicRecord, OffsetCommitValue. With --version only what that version has, in the order of the wire.

examples:
  fencepost wire show Fetch
  fencepost wire show fetchrequest --version 12
  fencepost wire show 18 --json
"""
PIPED_COLUMNS = 120
MEANING_COLUMNS_MIN = 30
TAGGED_SECTION = "tagged section"
_GAP = "  "


def register_show(actions: Any) -> None:
    """Add the parser of `fencepost wire show`."""
    parser = actions.add_parser(
        "show",
        help="the fields of a message",
        description="The fields of a message, in words or as JSON.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--version", type=int, metavar="N", help="only what this version has")
    add_json_option(parser)
    parser.set_defaults(run=show)


@wire_command
def show(arguments: argparse.Namespace) -> int:
    """One message, or the two of an API."""
    classes = find(arguments.name)
    version = arguments.version
    if version is not None and version < 0:
        raise UsageError("--version must not be negative")
    if arguments.json:
        described = [_as_json(cls, version) for cls in classes]
        print_json(described if len(described) > 1 else described[0])
        return 0
    columns = shutil.get_terminal_size((PIPED_COLUMNS, 24)).columns
    lines: list[str] = []
    for cls in classes:
        lines += [*([""] if lines else []), *table(cls, version, columns)]
    print("\n".join(lines))
    return 0


def table(cls: type[Message], version: int | None, columns: int) -> list[str]:
    """The lines about one message, wrapped to `columns`."""
    heading = [describe.heading(cls, version)]
    rows = version_rows(cls, version)
    names: tuple[str, ...]
    if version is None:
        names = ("field", "type", "versions", "null", "default", "tag", "meaning")
        cells = [_any_version(row) for row in rows]
    else:
        names = ("field", "type", "on the wire", "default", "tag", "meaning")
        cells = [_one_version(row) for row in with_tag_sections(cls, version, rows)]
    if not cells:
        return [*heading, "  no fields"]
    return [*heading, *_wrapped([names, *cells], columns)]


def version_rows(cls: type[Message], version: int | None) -> list[Row]:
    """The rows of `describe`; those of one version have a tag only where it goes by its tag."""
    rows = describe.rows(cls, version)
    if version is None:
        return rows
    return [
        row if row.tag is None or VersionRange.parse(row.tagged).holds(version) else _untagged(row)
        for row in rows
    ]


def _untagged(row: Row) -> Row:
    return row._replace(tag=None, tagged="")


def _any_version(row: Row) -> tuple[str, ...]:
    tag = "" if row.tag is None else str(row.tag)
    if row.tag is not None and row.tagged != row.versions:
        tag += f" ({row.tagged})"
    name = "  " * row.depth + row.name
    return (name, row.type, row.versions, row.nullable, row.default, tag, row.doc)


def _one_version(row: Row) -> tuple[str, ...]:
    tag = "" if row.tag is None else str(row.tag)
    return ("  " * row.depth + row.name, row.type, encoding(row), row.default, tag, row.doc)


def _wrapped(rows: Sequence[tuple[str, ...]], columns: int) -> list[str]:
    """Columns as wide as they need to be; the last is wrapped, or goes below when it is narrow."""
    facts = [row[:-1] for row in rows]
    widths = [max(map(len, column)) for column in zip(*facts, strict=True)]
    used = [index for index, width in enumerate(widths) if width and _has_content(facts, index)]
    margin = sum(widths[index] + len(_GAP) for index in used)
    is_beside = columns - margin >= MEANING_COLUMNS_MIN
    lines = []
    for row in rows:
        start = _GAP.join(row[index].ljust(widths[index]) for index in used)
        room = columns - margin if is_beside else max(columns - 8, MEANING_COLUMNS_MIN)
        meaning = textwrap.wrap(row[-1], room)
        if is_beside:
            lines.append((start + _GAP + (meaning[0] if meaning else "")).rstrip())
            lines += [" " * margin + line for line in meaning[1:]]
        else:
            lines.append(start.rstrip())
            lines += [" " * 8 + line for line in meaning] if row is not rows[0] else []
    return lines


def _has_content(facts: Sequence[tuple[str, ...]], index: int) -> bool:
    """Whether a column says anything below its heading."""
    return any(row[index] for row in facts[1:])


# -- how one version is written --------------------------------------------------------------

_FIXED = {
    "bool": "1 byte, 0 is false",
    "int8": "1 byte",
    "int16": "2 bytes",
    "int32": "4 bytes",
    "int64": "8 bytes",
    "uint16": "2 bytes, unsigned",
    "uint32": "4 bytes, unsigned",
    "float64": "8 bytes, IEEE 754",
    "uuid": "16 bytes",
}
_LENGTHS = {
    "string": ("int16", "UTF-8"),
    "bytes": ("int32", "bytes"),
    "records": ("int32", "bytes"),
}


def encoding(row: Row) -> str:
    """How the field of a row of one version is written, such as `uvarint length + 1, UTF-8`.

    Numbers are big-endian.
    """
    if row.type == TAGGED_SECTION:
        return "uvarint count"
    words = row.type.split()
    return _encoded(words[-1], "compact" in words, "nullable" in words)


def _encoded(base: str, is_compact: bool, is_nullable: bool) -> str:
    if base.startswith("[]"):
        null = (", 0 is null" if is_compact else ", -1 is null") if is_nullable else ""
        count = "uvarint count + 1" if is_compact else "int32 count"
        element = base[2:]
        if not _is_primitive(element):
            return f"{count}{null}"
        return f"{count}{null}, each {_encoded(element, is_compact, False)}"
    if base in _FIXED:
        return _FIXED[base]
    if base in _LENGTHS:
        plain, content = _LENGTHS[base]
        null = (", 0 is null" if is_compact else ", -1 is null") if is_nullable else ""
        length = "uvarint length + 1" if is_compact else f"{plain} length"
        return f"{length}{null}, {content}"
    return "int8 -1 is null, 1 is not, then its fields" if is_nullable else "its fields"


def _is_primitive(base: str) -> bool:
    return base in _FIXED or base in _LENGTHS


def with_tag_sections(cls: type[Message], version: int, rows: Sequence[Row]) -> list[Row]:
    """`rows` of one version, with a row for the tagged section that ends every flexible struct."""
    if not cls.is_flexible(version):
        return list(rows)
    return list(_with_section(cls.__name__, rows, 0))


def _with_section(struct: str, rows: Sequence[Row], depth: int) -> Iterator[Row]:
    section = Row(
        struct=struct,
        depth=depth,
        name="(tags)",
        kafka_name="",
        type=TAGGED_SECTION,
        versions="",
        nullable="",
        default="",
        tag=None,
        tagged="",
        ignorable=False,
        doc="" if depth else "Each: uvarint tag, uvarint size, content. Tags ascend.",
    )
    is_open = True
    position = 0
    while position < len(rows):
        row = rows[position]
        end = position + 1
        while end < len(rows) and rows[end].depth > depth:
            end += 1
        if row.tag is not None and is_open:
            is_open = False
            yield section
        yield row
        if end > position + 1:
            yield from _with_section(rows[position + 1].struct, rows[position + 1 : end], depth + 1)
        position = end
    if is_open:
        yield section


def _as_json(cls: type[Message], version: int | None) -> dict[str, Any]:
    rows = version_rows(cls, version)
    fields = [row._asdict() for row in rows]
    if version is not None:
        for one, row in zip(fields, rows, strict=True):
            one["encoding"] = encoding(row)
    return {
        "name": cls.__name__,
        "heading": describe.heading(cls, version),
        "kind": cls.kind,
        "api_key": cls.api_key,
        "record_id": cls.record_id,
        "min_version": cls.min_version,
        "max_version": cls.max_version,
        "flexible_from": cls.flexible_from,
        "latest_unstable": cls.latest_unstable,
        "version": version,
        "fields": fields,
    }
