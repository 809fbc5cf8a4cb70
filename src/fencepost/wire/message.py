"""Messages: typed classes that are their own schema.

A message is declared once, for every version that was ever released:

    class FetchPartition(Struct):
        partition: Int32 = field(doc="Number of the partition.")
        current_leader_epoch: Int32 = field("9+", default=-1, ignorable=True, doc="...")

    class FetchRequest(Request["FetchResponse"], api_key=1, versions="0-18", flexible="12+"):
        topics: list[FetchTopic] = field(doc="...")

The metaclass turns the fields into slots and gives the class a keyword-only constructor, equality
and a short repr; type checkers learn the same from `dataclass_transform`. Codecs are made per
(class, version) on first use by the backend (`backend`), so that importing a module of messages
costs little more than reading it.

Rules that hold on both backends:

* Decoding is strict: trailing bytes, lengths beyond the input, tags out of order, nulls where none
  may be, and bad UTF-8 raise DecodeError with path and position, and nothing else is raised.
* Fields the version does not have are set to their default.
* Encoding raises EncodeError, with the path, for values that do not fit their type, and for values
  other than the default in fields the version cannot carry, unless these are `ignorable`.
* Tagged fields that equal their default are not written. Undeclared tags are kept in
  `unknown_tags` and written back in their place.
"""

from __future__ import annotations

from functools import cache
from keyword import iskeyword
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    Self,
    TypeVar,
    dataclass_transform,
)

from fencepost.wire import backend
from fencepost.wire.errors import UnsupportedVersionError
from fencepost.wire.layout import layout_of
from fencepost.wire.schema import (
    MISSING,
    NO_VERSIONS,
    Field,
    FieldSpec,
    VersionRange,
    field,
    resolve_fields,
)
from fencepost.wire.secrets import HIDDEN, is_hidden
from fencepost.wire.types import ELEMENTS_UNLIMITED, Buffer

__all__ = ["Field", "Message", "Request", "Struct", "VersionRange", "field"]

PLAINLY_MADE_MAX = 16
"""Which object of a class makes its constructor."""

Kind = Literal[
    "request",
    "response",
    "data",
    "header",
    "metadata",
    "coordinator-key",
    "coordinator-value",
]


class _FieldDocs(dict[str, Any]):
    """The `__slots__` of a class: its fields, which tell `help` what they mean when it asks."""

    __slots__ = ("owner",)
    owner: Any

    def __getitem__(self, name: str) -> str:
        doc: str = _describe().member_doc(self.owner, name)
        return doc


class _Described:
    """An attribute of classes that `describe` makes when it is read; `own` for the metaclass."""

    def __init__(self, attribute: str, own: Any = None) -> None:
        self._attribute = attribute
        self._own = own

    def __get__(self, cls: Any, _: Any = None) -> Any:
        return self._own if cls is None else getattr(_describe(), self._attribute)(cls)

    def __set__(self, cls: Any, value: Any) -> None:  # goes before the class's own docstring
        raise AttributeError("described by its fields")


def _describe() -> Any:
    from fencepost.wire import describe

    return describe


# `field` is deliberately not named as a field specifier: a type checker then takes every
# `= field(...)` for a default, and all constructor arguments are optional, as they are.
@dataclass_transform(kw_only_default=True)
class StructMeta(type):
    """Collects the declared fields of a class into its slots."""

    _specs: dict[str, FieldSpec]
    _fields: tuple[Field, ...] | None
    _plainly_made: int
    __signature__ = _Described("signature")

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> StructMeta:
        specs = {key: value for key, value in namespace.items() if isinstance(value, FieldSpec)}
        _check_class(mcs, name, bases, specs)
        for key in specs:
            del namespace[key]
        docs = _FieldDocs(specs)
        namespace.setdefault("__slots__", docs)
        namespace["_specs"] = specs
        namespace["_fields"] = None
        namespace["_plainly_made"] = 0
        docs.owner = cls = super().__new__(mcs, name, bases, namespace)
        cls._configure(name, **options)
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: Any):
        super().__init__(name, bases, namespace)

    @property
    def fields(cls) -> tuple[Field, ...]:
        """The fields in schema order, resolved on first use."""
        if cls._fields is None:
            cls._fields = resolve_fields(cls, cls._specs)  # type: ignore[arg-type]
        return cls._fields

    def __dir__(cls) -> list[str]:
        return [*super().__dir__(), "fields"]

    def _configure(cls, name: str, *, kafka_name: str | None = None, **options: Any) -> None:
        cls.kafka_name = kafka_name or name
        if options:
            raise TypeError(f"{name}: a struct takes no {', '.join(options)}")


def _check_class(
    meta: type, name: str, bases: tuple[type, ...], specs: dict[str, FieldSpec]
) -> None:
    """Refuse what would lose fields, or hide what every class has under their names."""
    for base in bases:
        if getattr(base, "_specs", None):
            raise TypeError(f"{name} is derived from {base.__name__}, but structs are final")
    taken = _names_of(meta, bases)
    for key in specs:
        is_plain = key.isidentifier() and key.isascii() and key.islower() and key[0] != "_"
        if not is_plain or iskeyword(key) or key == "self":
            raise TypeError(f"{name}.{key}: not a name for a field")
        if key in taken:
            raise TypeError(f"{name}.{key}: the name means something else in every class")


@cache
def _names_of(meta: type, bases: tuple[type, ...]) -> frozenset[str]:
    """What classes of this kind have under a name already."""
    return frozenset(dir(meta)).union(*map(dir, bases))


StructMeta.__doc__ = _Described("class_doc", own=StructMeta.__doc__)  # type: ignore[assignment]


class Struct(metaclass=StructMeta):
    """A group of fields inside a message.

    Subclasses declare fields with `field(...)`, at module level and bottom-up, so that
    annotations can be resolved. They are final: codecs take objects of exactly the declared class.

    `repr` leaves out fields at their default, an error code of 0 among them, and hides secrets
    (`wire.secrets`); but for those, what it shows builds an equal object. `json_form.to_json` has
    every field of a version. `copy.copy` shares what the fields hold; `copy.deepcopy` and `pickle`
    turn records, which are views of the input, into bytes.
    """

    __slots__ = ("unknown_tags",)

    kafka_name: ClassVar[str]
    """The name of the struct in Kafka's schema."""

    fields: ClassVar[tuple[Field, ...]]
    """The schema: name, Kafka's name, type, versions, tag, default and doc of every field."""

    if TYPE_CHECKING:
        unknown_tags: dict[int, bytes] | None = None

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            # Only the first objects of a class meet this. The last of them makes the constructor of
            # the class, which is quicker, but to make it takes as long as thirty objects do.
            cls = type(self)
            cls._plainly_made += 1
            if cls._plainly_made >= PLAINLY_MADE_MAX:
                cls.__init__ = _make_init(cls)
                cls.__init__(self, **values)
            else:
                _fill(self, cls.fields, values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        if (self.unknown_tags or None) != (other.unknown_tags or None):
            return False
        return all(getattr(self, name) == getattr(other, name) for name in type(self)._specs)

    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> Self:
        twin = object.__new__(type(self))
        for name, value in self._state().items():
            setattr(twin, name, value)
        return twin

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        # The form of objects with slots alone: `pickle` and `copy` set each name by themselves.
        return None, {name: _without_views(value) for name, value in self._state().items()}

    def _state(self) -> dict[str, Any]:
        """Everything that is set, by name."""
        state: Any = object.__getstate__(self)
        attributes, slots = state if isinstance(state, tuple) else (state, None)
        return {**(attributes or {}), **(slots or {})}

    def __repr__(self) -> str:
        """The constructor call, without fields at their default, such as an error code of 0.

        `fencepost.wire.json_form.to_json` gives every field of a version.
        """
        shown = [
            f"{entry.name}={_shown(self, entry, value)}"
            for entry in type(self).fields
            if not _is_default(entry, value := getattr(self, entry.name, MISSING))
        ]
        if self.unknown_tags:
            shown.append(f"unknown_tags={_shorten(self.unknown_tags)}")
        return f"{type(self).__name__}({', '.join(shown)})"


class _Codecs(dict[int, backend.Codec]):
    """The codecs of one message, by version; made when first asked for."""

    __slots__ = ("_message",)

    def __init__(self, message: Any) -> None:
        super().__init__()
        self._message = message

    def __missing__(self, version: int) -> backend.Codec:
        cls = self._message
        if not (isinstance(version, int) and cls.min_version <= version <= cls.max_version):
            raise UnsupportedVersionError(cls.__name__, version, cls.min_version, cls.max_version)
        layout = layout_of(cls, int(version), cls.is_flexible(version))
        codec = self[version] = backend.make_codec(layout)
        return codec


@dataclass_transform(kw_only_default=True)  # mypy does not look for it in bases of metaclasses
class MessageMeta(StructMeta):
    """Reads the class arguments of a message: its key, kind and version ranges."""

    def _configure(  # type: ignore[override]
        cls,
        name: str,
        *,
        kind: Kind | None = None,
        versions: str = "0",
        flexible: str = "none",
        api_key: int | None = None,
        record_id: int | None = None,
        latest_unstable: bool = False,
        kafka_name: str | None = None,
    ) -> None:
        valid, flexible_range = VersionRange.parse(versions), VersionRange.parse(flexible)
        if valid.last is None or valid.last < valid.first:
            raise TypeError(f"{name}: versions must have a first and a last: {versions}")
        if flexible_range != NO_VERSIONS and flexible_range.last not in (None, valid.last):
            raise TypeError(f"{name}: once flexible, always flexible: {flexible}")
        cls.kafka_name = kafka_name or name
        if kind is not None or not hasattr(cls, "kind"):
            cls.kind = kind
        cls.api_key = api_key
        cls.record_id = record_id
        cls.latest_unstable = latest_unstable
        cls.min_version, cls.max_version = valid.first, valid.last
        cls.flexible_from = None if flexible_range == NO_VERSIONS else flexible_range.first
        cls._codecs = _Codecs(cls)
        replacing: dict[int, backend.Codec] = {}
        cls._replacing = replacing


MessageMeta.__doc__ = _Described("class_doc", own=MessageMeta.__doc__)  # type: ignore[assignment]


class Message(Struct, metaclass=MessageMeta):
    """A message of the protocol, or a record of Kafka's own logs: what is encoded as a whole.

    Class arguments: `kind`, `versions` (all ever released), `flexible` (from where on), `api_key`
    for requests and responses, `record_id` for metadata and coordinator records,
    `latest_unstable` when the last version is not to be offered to strangers yet, and `kafka_name`
    where the class could not keep Kafka's name.
    """

    __slots__ = ()

    kind: ClassVar[Kind | None]
    """What sort of message this is; "data" for what is none of Kafka's RPCs or records."""

    api_key: ClassVar[int | None]
    """The number of the API; None for what is neither request nor response."""

    record_id: ClassVar[int | None]
    """The number that stands for a record's type in its log; None for other messages."""

    latest_unstable: ClassVar[bool]
    """Whether `max_version` may still change, so that it is not to be offered to strangers."""

    min_version: ClassVar[int]
    """The first version there ever was."""

    max_version: ClassVar[int]
    """The last version known here."""

    flexible_from: ClassVar[int | None]
    """The first version with compact lengths and tagged fields (KIP-482); None when none has."""

    _codecs: ClassVar[_Codecs]
    _replacing: ClassVar[dict[int, backend.Codec]]
    """Of `read_replacing`, by version."""

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Whether `version` has compact lengths and tagged fields."""
        return cls.flexible_from is not None and version >= cls.flexible_from

    @classmethod
    @backend.shortened
    def decode(
        cls,
        data: Buffer,
        version: int,
        *,
        max_elements: int = ELEMENTS_UNLIMITED,
        allow_trailing: bool = False,
    ) -> Self:
        """Read a message that fills `data`; DecodeError when it does not, or is malformed.

        All arrays together may have `max_elements` elements, or it is a TooManyElementsError: for
        readers who decode what strangers send, since a byte on the wire can be an object here.
        With `allow_trailing` the message need only begin `data`, as Kafka's brokers and clients
        have it; `read` also says where the bytes left over begin.
        """
        codec = cls._codecs[version]
        if allow_trailing:
            return codec.read(data, 0, max_elements)[0]  # type: ignore[no-any-return]
        return codec.decode(data, max_elements)  # type: ignore[no-any-return]

    @classmethod
    @backend.shortened
    def read(
        cls, data: Buffer, pos: int, version: int, *, max_elements: int = ELEMENTS_UNLIMITED
    ) -> tuple[Self, int]:
        """Read a message that begins at `pos`; returns it and the position behind it."""
        message: tuple[Self, int] = cls._codecs[version].read(data, pos, max_elements)
        return message

    @classmethod
    def read_replacing(
        cls, data: Buffer, pos: int, version: int, *, max_elements: int = ELEMENTS_UNLIMITED
    ) -> tuple[Self, int]:
        """`read`, but texts that are not UTF-8 are taken, each as a `ReplacedText`.

        Slower than `read`: for what that has refused with a TextDecodeError.
        """
        codec = cls._replacing.get(version)
        if codec is None:
            from fencepost.wire.generated import GeneratedCodec

            cls._codecs[version]  # it is a version that there is
            layout = layout_of(cls, version, cls.is_flexible(version))
            codec = cls._replacing[version] = GeneratedCodec(layout, replaces=True)
        message: tuple[Self, int] = codec.read(data, pos, max_elements)
        return message

    @backend.shortened
    def encode(self, version: int) -> bytes:
        """The message as bytes; EncodeError when it cannot be written at `version`."""
        return self._codecs[version].encode(self)

    @backend.shortened
    def encode_parts(self, version: int) -> list[Buffer]:
        """The message in pieces for a gathering write; records are not copied."""
        return self._codecs[version].encode_parts(self)


R_co = TypeVar("R_co", bound=Message, covariant=True)


class Request(Message, Generic[R_co], kind="request"):
    """A request; it names the class of its response for type checkers.

    `class FetchRequest(Request["FetchResponse"], api_key=1, ...)`: what sends a request can so say
    what comes back. Takes the class arguments of Message; `kind` is "request" already.
    """

    __slots__ = ()

    if not TYPE_CHECKING:

        def __class_getitem__(cls, response: object) -> type[Request]:
            return cls  # nothing but type checkers asks: `Generic` would compile the name


def _fill(made: Any, fields: tuple[Field, ...], values: dict[str, Any]) -> None:
    """What the constructor does, field by field."""
    for entry in fields:
        name = entry.name
        value = values.pop(name, MISSING)
        setattr(made, name, entry.fresh_default() if value is MISSING else value)
    made.unknown_tags = values.pop("unknown_tags", None)
    if values:
        what = f"{type(made).__qualname__}.__init__() got an unexpected keyword argument"
        raise TypeError(f"{what} {next(iter(values))!r}")


def _make_init(cls: type[Struct]) -> Any:
    """The keyword-only constructor of `cls`, as straight-line code."""
    environment: dict[str, Any] = {"MISSING": MISSING}  # in capitals, as no field is
    parameters: list[str] = []
    stores: list[str] = []
    for entry in cls.fields:
        name = entry.name
        if entry.default is not MISSING:
            environment[f"DEFAULT_{name}"] = entry.default
            parameters.append(f"{name}=DEFAULT_{name}")
            stores.append(f"    self.{name} = {name}")
            continue
        parameters.append(f"{name}=MISSING")
        fresh = "[]" if entry.is_array else f"STRUCT_{name}()"
        environment[f"STRUCT_{name}"] = entry.struct
        stores.append(f"    self.{name} = {fresh} if {name} is MISSING else {name}")
    header = ", ".join(["self", "*", *parameters, "unknown_tags=None"])
    stores.append("    self.unknown_tags = unknown_tags")
    exec(f"def __init__({header}):\n" + "\n".join(stores), environment)
    init = environment["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    return init


def _is_default(entry: Field, value: Any) -> bool:
    try:
        return value is not MISSING and entry.is_default(value)
    except (TypeError, AttributeError):  # a value of the wrong type is worth showing
        return False


def _without_views(value: Any) -> Any:
    """`value`, with bytes for records: a view can be neither pickled nor copied."""
    if isinstance(value, memoryview):
        return value.tobytes()
    if isinstance(value, (list, tuple)) and any(isinstance(part, memoryview) for part in value):
        return [_without_views(part) for part in value]
    return value


def _shown(struct: Struct, entry: Field, value: Any) -> str:
    if entry.secret and value and is_hidden(entry, struct):
        return HIDDEN
    return _shorten(value)


def _shorten(value: Any) -> str:
    if isinstance(value, memoryview):
        return f"<{value.nbytes} bytes>"
    if isinstance(value, (bytes, bytearray)) and len(value) > 64:
        return f"<{len(value)} bytes>"
    return repr(value)
