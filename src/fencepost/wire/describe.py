"""Says in words what a message class declares: rows, one line about the class, text for `help`.

This is the one place that turns a schema into something to read. `help(FetchRequest)`, the command
line and the documentation all show what it makes. It reads `Cls.fields` (and layouts, for one
version) and is imported when it is first used, so that messages cost nothing more to import.
"""

from __future__ import annotations

from inspect import Parameter, Signature, cleandoc
from textwrap import fill, indent
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.wire.errors import UnsupportedVersionError
from fencepost.wire.layout import Layout, Slot, layout_of
from fencepost.wire.schema import (
    MISSING,
    NO_VERSIONS,
    Field,
    VersionRange,
    annotations_of,
    camel_case,
)
from fencepost.wire.types import FIXED_CODES, Primitive, Uuid

if TYPE_CHECKING:
    from fencepost.wire.message import Message, Struct

TEXT_WIDTH = 76
"""Columns of rendered text; `help` puts four more in front."""

INDENT = "    "


class Row(NamedTuple):
    """One field, in values that print and go into JSON (`row._asdict()`) as they are."""

    struct: str
    """Name of the class that declares the field."""

    depth: int
    """0 for the fields of the class asked about, 1 for those of its structs, and so on."""

    name: str
    kafka_name: str
    type: str
    """Kafka's name of the type, `[]` in front for arrays. At one version also `compact`, which
    counts for an array's elements too, and `nullable`."""

    versions: str
    nullable: str
    """Versions in which null may be written; empty when never."""

    default: str
    """What the field holds when it is not set, as one would write it in Python."""

    tag: int | None
    tagged: str
    """Versions in which the field goes by its tag; empty when never."""

    ignorable: bool
    """Whether a value is dropped, not refused, in versions without the field."""

    doc: str


def rows(cls: type[Struct], version: int | None = None) -> list[Row]:
    """Every field of `cls`, those of a struct right behind the field that holds it.

    With `version` only what is on the wire then, in the order of the wire (tagged fields come last
    and ascend), with exact types. That is for messages alone: TypeError for a struct, which has
    versions only as a part of messages; UnsupportedVersionError when the message lacks this one.
    """
    if version is None:
        return _rows_of_class(cls, 0)
    return _rows_of_layout(_layout_at(cls, version), 0)


def heading(cls: type[Struct], version: int | None = None) -> str:
    """One line: what `cls` is, its API key or record id, its versions and which are flexible."""
    if not _is_message(cls):
        return f"{cls.kafka_name} struct"
    message: type[Message] = cls  # type: ignore[assignment]
    versions = VersionRange(message.min_version, message.max_version)
    parts = [_kind_and_name(message)]
    if version is None:
        parts.append(f"versions {versions}")
        flexible = message.flexible_from
        parts.append("never flexible" if flexible is None else f"flexible {flexible}+")
        if message.latest_unstable:
            parts.append(f"{message.max_version} not stable yet")
    else:
        parts.append(f"version {version} of {versions}")
        if _layout_at(cls, version).is_flexible:
            parts.append("flexible")
    return ", ".join(parts)


def text(cls: type[Struct], version: int | None = None) -> str:
    """The heading and all rows, indented by depth, for a terminal."""
    entries = [_entry(row) for row in rows(cls, version)]
    return "\n".join([heading(cls, version), "", *(entries or ["No fields."])])


def class_doc(cls: type[Struct]) -> str | None:
    """What `help(cls)` shows first: the docstring of the class, its heading and its fields."""
    own: str | None = cls.__dict__.get("__doc__")
    if not cls.fields and not _is_message(cls):
        return own
    return f"{cleandoc(own or '')}\n\n{text(cls)}".lstrip()


def member_doc(cls: type[Struct], name: str) -> str:
    """What `help` and `inspect.getdoc` show for one field of `cls`."""
    return _entry(next(row for row in _own_rows(cls) if row.name == name))


def signature(cls: type[Struct]) -> Signature:
    """The constructor as a user calls it: keywords, annotations as written, defaults."""
    written = annotations_of(cls)
    parameters = [
        Parameter(
            entry.name,
            Parameter.KEYWORD_ONLY,
            default=_Shown(_default(entry)),
            annotation=_Shown(str(written[entry.name])),
        )
        for entry in cls.fields
    ]
    unknown = Parameter(
        "unknown_tags",
        Parameter.KEYWORD_ONLY,
        default=None,
        annotation=_Shown("dict[int, bytes] | None"),
    )
    return Signature([*parameters, unknown])


class _Shown(str):
    """Text that signatures print without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _is_message(cls: type[Struct]) -> bool:
    return hasattr(cls, "max_version")


def _layout_at(cls: type[Struct], version: int) -> Layout:
    if not _is_message(cls):
        raise TypeError(f"{cls.__name__} is a struct; ask the message around it for a version")
    message: type[Message] = cls  # type: ignore[assignment]
    if not message.min_version <= version <= message.max_version:
        raise UnsupportedVersionError(
            cls.__name__, version, message.min_version, message.max_version
        )
    return layout_of(cls, version, message.is_flexible(version))


def _kind_and_name(message: type[Message]) -> str:
    name, kind = message.kafka_name, message.kind
    if kind in ("request", "response") and message.api_key is not None:
        return f"{name.removesuffix(kind.capitalize())} {kind}, API key {message.api_key}"
    words = {None: "", "data": "", "metadata": " metadata record"}
    described = name + words.get(kind, f" {(kind or '').replace('-', ' ')}")
    return described if message.record_id is None else f"{described}, id {message.record_id}"


def _rows_of_class(cls: type[Struct], depth: int) -> list[Row]:
    found: list[Row] = []
    for row, entry in zip(_own_rows(cls, depth), cls.fields):
        found.append(row)
        if entry.struct is not None:
            found += _rows_of_class(entry.struct, depth + 1)
    return found


def _own_rows(cls: type[Struct], depth: int = 0) -> list[Row]:
    return [_row(cls, entry, depth, entry.type) for entry in cls.fields]


def _rows_of_layout(layout: Layout, depth: int) -> list[Row]:
    found: list[Row] = []
    for slot in layout.plain + layout.tagged:
        found.append(_row(layout.struct, slot.field, depth, _exact_type(slot)))
        if slot.layout is not None:
            found += _rows_of_layout(slot.layout, depth + 1)
    return found


def _exact_type(slot: Slot) -> str:
    entry = slot.field
    has_length = entry.is_array or entry.primitive not in {*FIXED_CODES, Primitive.UUID, None}
    compact = "compact " if slot.is_compact and has_length else ""
    return compact + ("nullable " if slot.is_nullable else "") + entry.type


def _row(cls: type[Struct], entry: Field, depth: int, type_: str) -> Row:
    return Row(
        struct=cls.__name__,
        depth=depth,
        name=entry.name,
        kafka_name=entry.kafka_name,
        type=type_,
        versions=str(entry.versions),
        nullable=_unless_none(entry.nullable),
        default=_default(entry),
        tag=entry.tag,
        tagged=_unless_none(entry.tagged),
        ignorable=entry.ignorable,
        doc=entry.doc,
    )


def _unless_none(versions: VersionRange) -> str:
    return "" if versions == NO_VERSIONS else str(versions)


def _default(entry: Field) -> str:
    value: Any = entry.default
    if value is MISSING:
        return "[]" if entry.struct is None or entry.is_array else f"{entry.struct.__name__}()"
    if isinstance(value, Uuid):
        return "Uuid.ZERO" if value == Uuid.ZERO else repr(value)
    if isinstance(value, (str, bytes)) and '"' not in repr(value):
        return repr(value).replace("'", '"')
    return repr(value)


def _entry(row: Row) -> str:
    """One field of the text: a line of facts and, below it, what the field means."""
    facts = [f"versions {row.versions}"]
    if row.nullable:
        facts.append(f"null in {row.nullable}")
    if row.tag is not None:
        when = "" if row.tagged == row.versions else f" in {row.tagged}"
        facts.append(f"tag {row.tag}{when}")
    if row.ignorable:
        facts.append("ignorable")
    if row.kafka_name != camel_case(row.name):
        facts.append(f"Kafka: {row.kafka_name}")
    margin = INDENT * row.depth
    line = f"{margin}{row.name}: {row.type} = {row.default} ({', '.join(facts)})"
    if not row.doc:
        return line
    width = max(TEXT_WIDTH - len(margin) - len(INDENT), 40)
    return f"{line}\n{indent(fill(row.doc, width), margin + INDENT)}"
