"""What a message class declares about its fields: version ranges, types, tags and defaults.

`field(...)` in a class body leaves a `FieldSpec`, which is only what was written there. The first
use of a class resolves its annotations and turns every spec into a `Field`, with its type taken
apart. Resolution is lazy because annotations are usually strings
(`from __future__ import annotations`) and evaluating them at import would cost every importer.

Only the class's own annotations are looked at, in the namespace of the module that declares it:
`typing.get_type_hints` would also evaluate those of base classes, with the wrong names in scope.

This module knows declarations, not bytes; layouts and codecs are made from it in `layout`.
"""

from __future__ import annotations

import sys
from functools import cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    TypeAlias,
    Union,
    get_args,
    get_origin,
)

from fencepost.wire.runtime import MAX_UVARINT, same_float
from fencepost.wire.types import RANGES, Primitive, Uuid

if TYPE_CHECKING:
    from fencepost.wire.message import Struct


class VersionRange(NamedTuple):
    """Versions `first` to `last`, both included; `last` None means "and all later ones".

    The empty range has `last < first`.
    """

    first: int
    last: int | None

    @classmethod
    @cache
    def parse(cls, text: str) -> VersionRange:
        """Kafka's notation: `3`, `3+`, `3-7` or `none`."""
        if text == "none":
            return NO_VERSIONS
        try:
            if text.endswith("+"):
                return cls(int(text[:-1]), None)
            first, dash, last = text.partition("-")
            return cls(int(first), int(last) if dash else int(first))
        except ValueError:
            raise ValueError(f"not a version range: {text!r}") from None

    def holds(self, version: int) -> bool:
        """Whether `version` lies within."""
        return self.first <= version and (self.last is None or version <= self.last)

    def __str__(self) -> str:
        if self.last is None:
            return f"{self.first}+"
        if self.last < self.first:
            return "none"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


NO_VERSIONS = VersionRange(0, -1)


class _Missing:
    """The one value that no field can have."""

    def __repr__(self) -> str:
        return "<default>"


MISSING: Any = _Missing()


class FieldSpec(NamedTuple):
    """The arguments of one `field(...)`, as written."""

    versions: str
    default: Any
    nullable: str | None
    tag: int | None
    tagged: str | None
    ignorable: bool
    flexible: str
    kafka_name: str | None
    doc: str
    secret: str


def field(
    versions: str = "0+",
    *,
    default: Any = MISSING,
    nullable: str | None = None,
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
    flexible: str = "0+",
    name: str | None = None,
    doc: str = "",
    secret: str = "",
) -> Any:
    """Declare one field of a `Struct` or `Message`.

    `versions`: where the field exists. `default`: what it holds when it is not set; the zero of
    its type unless given, and fresh for every object. `nullable`: the versions in which null may
    be written; all versions when the annotation allows None and nothing is said here. `tag`: the
    number of a tagged field, `tagged` the versions in which it is one (default: all of
    `versions`). `ignorable`: a value other than the default is dropped, instead of refused, in
    versions without the field. `flexible`: in which of the message's flexible versions lengths in
    this field are compact; "none" for the client id of request headers, which must be readable
    without knowing the version. `name`: Kafka's name, where it is not the attribute in CamelCase.
    `doc`: what the field means, with its unit. `secret`: what of its values is kept from people who
    are shown the message (`wire.secrets`); nothing unless given.
    """
    return FieldSpec(
        versions=versions,
        default=default,
        nullable=nullable,
        tag=tag,
        tagged=tagged,
        ignorable=ignorable,
        flexible=flexible,
        kafka_name=name,
        doc=doc,
        secret=secret,
    )


StructClass: TypeAlias = "type[Struct]"


class Field(NamedTuple):
    """One resolved field.

    Exactly one of `primitive` and `struct` is set; `is_array` says whether the value is a list of
    them. `default` is the default itself where that is immutable; an empty list or a struct with
    only defaults is represented by `MISSING` and made by `fresh_default`.
    """

    name: str
    kafka_name: str
    type: str
    versions: VersionRange
    nullable: VersionRange
    tag: int | None
    tagged: VersionRange
    ignorable: bool
    flexible: VersionRange
    default: Any
    doc: str
    primitive: Primitive | None
    struct: StructClass | None
    is_array: bool
    secret: str = ""
    """What of its values is hidden from people: see `wire.secrets`."""

    def fresh_default(self) -> Any:
        """The default value; a new object when it can be changed."""
        if self.default is not MISSING:
            return self.default
        if self.is_array:
            return []
        assert self.struct is not None
        return self.struct()

    def is_default(self, value: Any) -> bool:
        """Whether `value` says no more than leaving the field out would."""
        if self.default is None or value is None:
            return value is self.default
        if self.is_array or self.primitive is Primitive.BYTES:
            return len(value) == 0
        if self.primitive is Primitive.RECORDS:
            return records_size(value) == 0
        if self.struct is not None:
            return type(value) is self.struct and is_all_default(value)
        if self.primitive is Primitive.FLOAT64:
            return same_float(value, self.default)
        return bool(value == self.default)


def records_size(value: Any) -> int:
    """Bytes in a records value, which may come in parts."""
    if isinstance(value, (list, tuple)):
        return sum(map(_part_size, value))
    return _part_size(value)


def _part_size(value: Any) -> int:
    return value.nbytes if isinstance(value, memoryview) else len(value)


def is_all_default(struct: Struct) -> bool:
    """Whether every field of `struct` has its default and nothing unknown is kept in it."""
    return not struct.unknown_tags and all(
        entry.is_default(getattr(struct, entry.name)) for entry in type(struct).fields
    )


def camel_case(attribute: str) -> str:
    """`leader_epoch` becomes `LeaderEpoch`."""
    return "".join(word[:1].upper() + word[1:] for word in attribute.split("_"))


_ZEROS: dict[Primitive, Any] = {
    Primitive.BOOL: False,
    Primitive.FLOAT64: 0.0,
    Primitive.UUID: Uuid.ZERO,
    Primitive.STRING: "",
    Primitive.BYTES: b"",
    Primitive.RECORDS: b"",
    **dict.fromkeys(RANGES, 0),
}

_NEVER_NULL = frozenset(Primitive) - {Primitive.STRING, Primitive.BYTES, Primitive.RECORDS}


def annotations_of(cls: type[Struct]) -> dict[str, Any]:
    """The annotations of this class alone, which has fields.

    Asked of `type`: where Python 3.14 evaluates them late, the class has none of its own in its
    dictionary, and `cls.__annotations__` would be those that its metaclass has for itself.
    """
    found: dict[str, Any] = vars(type)["__annotations__"].__get__(cls)
    return found


def resolve_fields(cls: type[Struct], specs: dict[str, FieldSpec]) -> tuple[Field, ...]:
    """Turn the specs of `cls` into fields; TypeError when a declaration makes no sense."""
    annotations = annotations_of(cls)
    namespace = vars(sys.modules[cls.__module__])
    fields: list[Field] = []
    for name, spec in specs.items():
        if name not in annotations:
            raise TypeError(f"{cls.__name__}.{name} has no annotation")
        annotation = annotations[name]
        if isinstance(annotation, str):  # mostly a name, which need not be compiled
            found = namespace.get(annotation)
            annotation = eval(annotation, namespace) if found is None else found
        try:
            fields.append(_resolve(name, spec, annotation))
        except (TypeError, ValueError) as error:
            raise TypeError(f"{cls.__name__}.{name}: {error}") from error
    tags = [entry.tag for entry in fields if entry.tag is not None]
    if len(tags) != len(set(tags)):
        raise TypeError(f"{cls.__name__} uses a tag twice")
    return tuple(fields)


def _resolve(name: str, spec: FieldSpec, annotation: Any) -> Field:
    versions = VersionRange.parse(spec.versions)
    primitive, struct, is_array, accepts_none = _taken_apart(annotation)
    kafka_type = primitive.value if primitive is not None else struct.kafka_name
    if spec.nullable is not None:
        nullable = VersionRange.parse(spec.nullable)
    else:
        nullable = versions if accepts_none else NO_VERSIONS
    if (nullable != NO_VERSIONS) and not accepts_none:
        raise TypeError("nullable, but its annotation does not allow None")
    if nullable != NO_VERSIONS and primitive in _NEVER_NULL and not is_array:
        raise TypeError(f"{kafka_type} cannot be null")
    if spec.tag is not None and (type(spec.tag) is not int or not 0 <= spec.tag <= MAX_UVARINT):
        raise TypeError(f"a tag is a number from 0 to {MAX_UVARINT}, not {spec.tag!r}")
    if spec.tag is None:
        tagged = NO_VERSIONS
    else:
        tagged = VersionRange.parse(spec.tagged) if spec.tagged is not None else versions
    default = spec.default
    if default is MISSING and primitive is not None and not is_array:
        default = _ZEROS[primitive]
    if (is_array or struct is not None) and default not in (MISSING, None):
        raise TypeError("the default of an array or struct is empty or None")
    if default is None and not accepts_none:
        raise TypeError("the default is None, but the annotation does not allow it")
    return Field(
        name=name,
        kafka_name=spec.kafka_name or camel_case(name),
        type=f"[]{kafka_type}" if is_array else kafka_type,
        versions=versions,
        nullable=nullable,
        tag=spec.tag,
        tagged=tagged,
        ignorable=spec.ignorable,
        flexible=VersionRange.parse(spec.flexible),
        default=default,
        doc=spec.doc,
        secret=spec.secret,
        primitive=primitive,
        struct=struct,
        is_array=is_array,
    )


@cache
def _taken_apart(annotation: Any) -> tuple[Primitive | None, Any, bool, bool]:
    """Its primitive or struct, whether it is an array of them, and whether it may be None."""
    annotation, accepts_none = _without_none(annotation)
    is_array = get_origin(annotation) is list
    element = get_args(annotation)[0] if is_array else annotation
    return *_element_type(element), is_array, accepts_none


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) not in (Union, UnionType):
        return annotation, False
    rest = [part for part in get_args(annotation) if part is not NoneType]
    if len(rest) != 1 or len(rest) == len(get_args(annotation)):
        raise TypeError(f"cannot be on the wire: {annotation}")
    return rest[0], True


def _element_type(annotation: Any) -> tuple[Primitive | None, Any]:
    if annotation is Uuid:
        return Primitive.UUID, None
    if get_origin(annotation) is Annotated:
        primitive = get_args(annotation)[1]
        if isinstance(primitive, Primitive):
            return primitive, None
    if isinstance(annotation, type) and hasattr(annotation, "kafka_name"):
        return None, annotation
    raise TypeError(f"cannot be on the wire: {annotation!r}")
