"""`fencepost wire show`: the fields of a message as a table."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from fencepost.cli.failures import InputError, UsageError, offline_command
from fencepost.cli.output import add_json_option, print_json
from fencepost.cli.wire.lookup.names import find, unknown
from fencepost.cli.wire.lookup.structs import find_structs, struct_names
from fencepost.wire import describe
from fencepost.wire.describe import Row
from fencepost.wire.message import Message, Struct, VersionRange

EPILOG = """\
NAME is an API or its number (request and response), or one message: FetchRequest, RequestHeader,
TopicRecord, OffsetCommitValue; or a struct, shown for every message that has one of the name.
With --version only what that version has, in the order of the wire.

examples:
  fencepost wire show Fetch
  fencepost wire show fetchrequest --version 12
  fencepost wire show PartitionData
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
        help="the fields of a message or struct",
        description="The fields of a message, in words or as JSON.",
        epilog=EPILOG,
    )
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--version", type=int, metavar="N", help="only what this version has")
    add_json_option(parser)
    parser.set_defaults(run=show)


@offline_command
def show(arguments: argparse.Namespace) -> int:
    """One message, the two of an API, or all messages with a struct of the name."""
    version = arguments.version
    if version is not None and version < 0:
        raise UsageError("--version must not be negative")
    parts = [_message_part(cls, version) for cls in find(arguments.name)]
    parts = parts or _struct_parts(arguments.name, version)
    if arguments.json:
        described = [_as_json(part, version) for part in parts]
        print_json(described if len(described) > 1 else described[0])
        return 0
    columns = shutil.get_terminal_size((PIPED_COLUMNS, 24)).columns
    lines: list[str] = []
    for part in parts:
        lines += [*([""] if lines else []), *table(part, version, columns)]
    print("\n".join(lines))
    return 0


class Part(NamedTuple):
    """What one table is about: a message, or a struct in it; `rows` are in the message's order."""

    message: type[Message]
    struct: type[Struct]
    paths: tuple[str, ...]
    heading: str
    rows: list[Row]


def _message_part(cls: type[Message], version: int | None) -> Part:
    return Part(cls, cls, (), describe.heading(cls, version), _rows(cls, version))


def _struct_parts(name: str, version: int | None) -> list[Part]:
    """The structs of a name, in messages that have the version. InputError when there are none."""
    uses = find_structs(name)
    if not uses:
        raise unknown(name, struct_names())
    parts = []
    for message, struct, paths in uses:
        if version is not None and not message.min_version <= version <= message.max_version:
            continue
        rows = _rows_inside(_rows(message, version), struct)
        if rows or not struct.fields:
            about = describe.heading(message, version)
            ours, kafkas = struct.__name__, struct.kafka_name
            title = ours if ours == kafkas else f"{ours} (Kafka: {kafkas})"
            heading = f"{title} in {about}: {', '.join(paths)}"
            parts.append(Part(message, struct, paths, heading, rows))
    if not parts:
        messages = ", ".join(use.message.__name__ for use in uses)
        raise InputError(f"{uses[0].struct.__name__} is not in version {version} of {messages}")
    return parts


def _rows(cls: type[Message], version: int | None) -> list[Row]:
    """What a message has; of one version also where the sections of tagged fields are."""
    rows = version_rows(cls, version)
    return rows if version is None else with_tag_sections(cls, version, rows)


def _rows_inside(rows: list[Row], struct: type[Struct]) -> list[Row]:
    """The rows of the first place where the struct is."""
    begin = next((at for at, row in enumerate(rows) if row.struct == struct.__name__), len(rows))
    inside = takewhile(lambda row: row.depth >= rows[begin].depth, rows[begin:])
    return [row._replace(depth=row.depth - rows[begin].depth) for row in inside]


def table(part: Part, version: int | None, columns: int) -> list[str]:
    """The lines about one message or struct, wrapped to `columns`."""
    names: tuple[str, ...]
    if version is None:
        names = ("field", "type", "versions", "null", "default", "tag", "meaning")
        cells = [_any_version(row) for row in part.rows]
    else:
        names = ("field", "type", "on the wire", "default", "tag", "meaning")
        cells = [_one_version(row) for row in part.rows]
    if not cells:
        return [part.heading, "  no fields"]
    return [part.heading, *_wrapped([names, *cells], columns)]


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
        width = columns - margin if is_beside else max(columns - 8, MEANING_COLUMNS_MIN)
        meaning = textwrap.wrap(row[-1], width)
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


def _as_json(part: Part, version: int | None) -> dict[str, Any]:
    rows = [row for row in part.rows if row.type != TAGGED_SECTION]
    fields = [row._asdict() for row in rows]
    if version is not None:
        for one, row in zip(fields, rows, strict=True):
            one["encoding"] = encoding(row)
    cls = part.message
    is_message = part.struct is cls
    return {
        "name": part.struct.__name__,
        "heading": part.heading,
        "kind": cls.kind if is_message else "struct",
        "message": cls.__name__,
        "paths": list(part.paths),
        "api_key": cls.api_key,
        "record_id": cls.record_id,
        "min_version": cls.min_version,
        "max_version": cls.max_version,
        "flexible_from": cls.flexible_from,
        "latest_unstable": cls.latest_unstable,
        "version": version,
        "fields": fields,
    }
