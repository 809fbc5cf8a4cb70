"""Messages as JSON objects and back, without loss: what tools show, store and edit.

`to_json` gives what `json.dumps` takes, `from_json` takes what `json.loads` gives. A message's
object has the fields of one version, under their names in Python:

| on the wire | in JSON |
|---|---|
| bool, string | the same |
| int8 to int64, uint16, uint32 | a number; int64 also as a string of digits, see below |
| float64 | a number, `"NaN"`, `"Infinity"`, `"-Infinity"`; other NaNs as `"NaN:"` + 16 hex digits |
| uuid | Kafka's text form, 22 letters of URL-safe base64 |
| bytes, records | a string of base64 with padding |
| struct, array | object, array |
| null | null |
| undeclared tags | `"_unknown_tags": {"9": "base64"}`, only where there are any |

Readers that keep numbers as float64 (JavaScript, jq before 1.7) change integers beyond 2**53. For
them `to_json(..., int64_as_strings=True)` writes every int64 as a string; `from_json` takes both.

Reading is strict: a key that the version does not have, a value of another type or out of range, a
number that float64 would round, base64 other than `to_json` writes it is a JsonFormError that says
where. A field that is missing is at its default.
"""

from __future__ import annotations

import math
import re
import struct
from base64 import b64decode, b64encode
from typing import Any, Final, NamedTuple, TypeVar

from fencepost.wire.errors import UnsupportedVersionError, shown
from fencepost.wire.layout import Layout, Slot, layout_of
from fencepost.wire.message import Field, Message, Struct
from fencepost.wire.runtime import MAX_UVARINT, Malformed, as_bytes, as_sequence, as_uuid
from fencepost.wire.secrets import HIDDEN, is_hidden
from fencepost.wire.types import MAX_STRING_BYTES, RANGES, Primitive, Uuid

UNKNOWN_TAGS: Final = "_unknown_tags"

JsonObject = dict[str, Any]
M = TypeVar("M", bound=Message)

_QUIET_NAN: Final = "7ff8000000000000"
_WHOLE_NUMBER: Final = "0|-?[1-9][0-9]*"
_INT64_LETTERS_MAX: Final = 20  # with the sign


class JsonFormError(ValueError):
    """A JSON object is no message of the class and version; `path` names the place in it."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason, path)
        self.reason = reason
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


def to_json(
    message: Message,
    version: int,
    *,
    int64_as_strings: bool = False,
    hide_secrets: bool = False,
) -> JsonObject:
    """The fields that `message` has at `version`, as a JSON object; tagged fields come last.

    `int64_as_strings` is for readers that do not keep 64 bits of a number. With `hide_secrets` what
    `wire.secrets` knows of is `"[hidden]"`, which `from_json` refuses where bytes belong.

    Raises UnsupportedVersionError, and JsonFormError for what could not be encoded either: a value
    that does not fit its field, or one other than the default in a field that the version lacks.
    """
    options = _Options(int64_as_strings, hide_secrets)
    return _struct_to_json(_layout(type(message), version), message, "", options)


def from_json(cls: type[M], version: int, obj: Any) -> M:
    """The message that `to_json` wrote as `obj`. Raises JsonFormError, UnsupportedVersionError."""
    message: M = _struct_from_json(_layout(cls, version), obj, "")
    return message


def bytes_from_json(value: Any, path: str) -> bytes:
    """The bytes behind a base64 string. Raises JsonFormError."""
    if not isinstance(value, str):
        raise JsonFormError(f"a base64 string is needed, not {_kind(value)}", path)
    try:
        found = b64decode(value, validate=True)
    except ValueError as error:
        raise JsonFormError(f"not base64: {error}", path) from None
    if b64encode(found).decode() != value:  # bits that decoding ignores
        raise JsonFormError("not base64 as it is written", path)
    return found


def bytes_to_json(value: Any, path: str = "") -> str:
    """Bytes, a view, or records in parts as a base64 string. Raises JsonFormError."""
    try:
        if isinstance(value, (list, tuple)):
            return b64encode(b"".join(map(as_bytes, as_sequence(value)))).decode()
        return b64encode(as_bytes(value)).decode()
    except Malformed:
        raise JsonFormError(f"bytes are needed, not {_kind(value)}", path) from None
    except ValueError as error:  # a released view
        raise JsonFormError(str(error), path) from None


def unknown_tags_to_json(tags: dict[int, bytes], path: str = "") -> JsonObject:
    """Undeclared tagged fields, ascending. Raises JsonFormError."""
    for tag in tags:
        if type(tag) is not int or not 0 <= tag <= MAX_UVARINT:
            raise JsonFormError(f"{shown(tag)} is no tag", path)
    return {str(tag): bytes_to_json(tags[tag], f"{path}.{tag}") for tag in sorted(tags)}


def unknown_tags_from_json(obj: Any, path: str) -> dict[int, bytes]:
    """Undeclared tagged fields. Raises JsonFormError."""
    if not isinstance(obj, dict):
        raise JsonFormError(f"an object is needed, not {_kind(obj)}", path)
    tags: dict[int, bytes] = {}
    for key, value in obj.items():
        if not (isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) <= 10):
            raise JsonFormError(f"{key!r} is no tag", path)
        tag = int(key)
        if tag > MAX_UVARINT or str(tag) != key:
            raise JsonFormError(f"{key!r} is no tag", path)
        tags[tag] = bytes_from_json(value, f"{path}.{key}")
    return tags


def _layout(cls: type[Message], version: int) -> Layout:
    if isinstance(version, bool) or not isinstance(version, int):
        raise TypeError(f"a version is a number, not {version!r}")
    if not cls.min_version <= version <= cls.max_version:
        raise UnsupportedVersionError(cls.__name__, version, cls.min_version, cls.max_version)
    return layout_of(cls, version, cls.is_flexible(version))


class _Options(NamedTuple):
    """As the arguments of `to_json`."""

    int64_as_strings: bool
    hide_secrets: bool


# -- to JSON ---------------------------------------------------------------------------------


def _struct_to_json(layout: Layout, value: Any, path: str, options: _Options) -> JsonObject:
    if type(value) is not layout.struct:
        raise JsonFormError(f"not a {layout.struct.__name__}: {_kind(value)}", path)
    for field in layout.absent:
        if not field.ignorable:
            _refuse_absent(layout, field, _get(value, field.name, path), _join(path, field.name))
    obj: JsonObject = {}
    for slot in layout.plain + layout.tagged:
        name = slot.field.name
        inner = _get(value, name, path)
        if options.hide_secrets and inner and is_hidden(slot.field, value):
            obj[name] = HIDDEN
        else:
            obj[name] = _to_json(slot, inner, _join(path, name), options)
    tags, where = _get(value, "unknown_tags", path), _join(path, UNKNOWN_TAGS)
    if tags is not None and not isinstance(tags, dict):
        raise JsonFormError(f"a dict is needed, not {_kind(tags)}", where)
    if tags:
        if not layout.is_flexible:
            raise JsonFormError("a version without tags", where)
        obj[UNKNOWN_TAGS] = unknown_tags_to_json(tags, where)
        _refuse_declared(layout, tags, where)
    return obj


def _get(struct: Struct, name: str, path: str) -> Any:
    try:
        return getattr(struct, name)
    except AttributeError:
        raise JsonFormError("was never set", _join(path, name)) from None


def _refuse_absent(layout: Layout, field: Field, value: Any, path: str) -> None:
    try:
        is_default = field.is_default(value)
    except (TypeError, AttributeError, ValueError) as error:
        raise JsonFormError(str(error), path) from None
    if not is_default:
        raise JsonFormError(f"version {layout.version} has no such field", path)


def _to_json(slot: Slot, value: Any, path: str, options: _Options) -> Any:
    if value is None:
        if not slot.is_nullable:
            raise JsonFormError("null is not allowed", path)
        return None
    if not slot.field.is_array:
        return _single_to_json(slot, value, path, options)
    if not isinstance(value, (list, tuple)):
        raise JsonFormError(f"an array is needed, not {_kind(value)}", path)
    return [
        _single_to_json(slot, item, f"{path}[{index}]", options)
        for index, item in enumerate(as_sequence(value))
    ]


def _single_to_json(slot: Slot, value: Any, path: str, options: _Options) -> Any:
    if slot.layout is not None:
        return _struct_to_json(slot.layout, value, path, options)
    primitive = slot.field.primitive
    assert primitive is not None
    if primitive in (Primitive.BYTES, Primitive.RECORDS):
        if primitive is Primitive.BYTES and isinstance(value, (list, tuple)):
            raise JsonFormError("bytes are needed, not an array", path)
        return bytes_to_json(value, path)
    if primitive is Primitive.UUID:
        return _uuid_to_json(value, path)
    if primitive is Primitive.FLOAT64:
        return _float_to_json(value, path)
    checked = _checked(primitive, value, path)
    return str(checked) if options.int64_as_strings and primitive is Primitive.INT64 else checked


def _uuid_to_json(value: Any, path: str) -> str:
    try:
        return str(Uuid(as_uuid(value)))
    except Malformed:
        raise JsonFormError(f"a Uuid of 16 bytes is needed, not {_kind(value)}", path) from None
    except ValueError as error:  # a released view
        raise JsonFormError(str(error), path) from None


def _exact_float(value: Any, path: str) -> float:
    """A number as a float64, which may have to be of the same value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise JsonFormError(f"a number is needed, not {_kind(value)}", path)
    try:
        number = float(value)
    except OverflowError:
        raise JsonFormError("the number does not fit into float64", path) from None
    if isinstance(value, int) and int(number) != value:
        raise JsonFormError(f"{shown(value)} is between two values of float64", path)
    return number


def _float_to_json(value: Any, path: str) -> Any:
    value = _exact_float(value, path)
    if math.isnan(value):
        digits = struct.pack(">d", value).hex()
        return "NaN" if digits == _QUIET_NAN else f"NaN:{digits}"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


# -- from JSON -------------------------------------------------------------------------------


def _struct_from_json(layout: Layout, obj: Any, path: str) -> Any:
    if not isinstance(obj, dict):
        raise JsonFormError(f"an object is needed, not {_kind(obj)}", path)
    slots = {slot.field.name: slot for slot in layout.plain + layout.tagged}
    for key in obj:
        if key not in slots and not (key == UNKNOWN_TAGS and layout.is_flexible):
            raise JsonFormError(_no_such_key(layout, key), _join(path, str(key)))
    values: dict[str, Any] = {}
    for name, slot in slots.items():
        if name in obj:
            values[name] = _from_json(slot, obj[name], _join(path, name))
        elif slot.field.default is None and not slot.is_nullable:
            raise JsonFormError("missing, and without a default here", _join(path, name))
    tags = None
    if UNKNOWN_TAGS in obj:
        tags = _free_tags(layout, obj[UNKNOWN_TAGS], _join(path, UNKNOWN_TAGS))
    struct_class: type[Struct] = layout.struct
    return struct_class(**values, unknown_tags=tags)


def _no_such_key(layout: Layout, key: str) -> str:
    if key in [field.name for field in layout.absent]:
        return f"version {layout.version} has no such field"
    if key == UNKNOWN_TAGS:
        return f"version {layout.version} has no tags"
    return f"no field of {layout.struct.__name__}"


def _free_tags(layout: Layout, obj: Any, path: str) -> dict[int, bytes]:
    tags = unknown_tags_from_json(obj, path)
    _refuse_declared(layout, tags, path)
    return tags


def _refuse_declared(layout: Layout, tags: dict[int, bytes], path: str) -> None:
    for slot in layout.tagged:
        if slot.field.tag in tags:
            raise JsonFormError(f"tag {slot.field.tag} is the field {slot.field.name}", path)


def _from_json(slot: Slot, value: Any, path: str) -> Any:
    if value is None:
        if not slot.is_nullable:
            raise JsonFormError("null is not allowed", path)
        return None
    if not slot.field.is_array:
        return _single_from_json(slot, value, path)
    if not isinstance(value, list):
        raise JsonFormError(f"an array is needed, not {_kind(value)}", path)
    return [_single_from_json(slot, item, f"{path}[{index}]") for index, item in enumerate(value)]


def _single_from_json(slot: Slot, value: Any, path: str) -> Any:
    if slot.layout is not None:
        return _struct_from_json(slot.layout, value, path)
    primitive = slot.field.primitive
    assert primitive is not None
    if primitive in (Primitive.BYTES, Primitive.RECORDS):
        return bytes_from_json(value, path)
    if primitive is Primitive.UUID:
        return _uuid_from_json(value, path)
    if primitive is Primitive.FLOAT64:
        return _float_from_json(value, path)
    if primitive is Primitive.INT64 and isinstance(value, str):
        value = _whole_number(value, path)
    return _checked(primitive, value, path)


def _whole_number(text: str, path: str) -> int:
    if len(text) > _INT64_LETTERS_MAX or not re.fullmatch(_WHOLE_NUMBER, text):
        raise JsonFormError(f"{text[:40]!r} is no int64", path)
    return int(text)


def _uuid_from_json(value: Any, path: str) -> Uuid:
    if not isinstance(value, str):
        raise JsonFormError(f"a string is needed, not {_kind(value)}", path)
    try:
        found = Uuid.from_string(value)
    except ValueError as error:
        raise JsonFormError(str(error), path) from None
    if str(found) != value:  # other letters, or bits that decoding ignores
        raise JsonFormError(f"not a Uuid as it is written: {value!r}", path)
    return found


def _float_from_json(value: Any, path: str) -> float:
    if isinstance(value, str):
        if value in ("NaN", "Infinity", "-Infinity"):
            return float(value)
        try:
            (number,) = struct.unpack(">d", bytes.fromhex(value.removeprefix("NaN:")))
        except (struct.error, ValueError):
            number = 0.0
        if not value.startswith("NaN:") or not math.isnan(number):
            raise JsonFormError(f"{value!r} is no float64", path)
        if f"NaN:{struct.pack('>d', number).hex()}" != value:
            raise JsonFormError(f"{value!r} is no float64 as it is written", path)
        return float(number)
    return _exact_float(value, path)


def _checked(primitive: Primitive, value: Any, path: str) -> Any:
    """A boolean, integer or string, which look alike on both sides."""
    if primitive is Primitive.BOOL:
        if not isinstance(value, bool):
            raise JsonFormError(f"true or false is needed, not {_kind(value)}", path)
        return value
    if primitive is Primitive.STRING:
        return _checked_string(value, path)
    if isinstance(value, bool) or not isinstance(value, int):
        raise JsonFormError(f"a whole number is needed, not {_kind(value)}", path)
    low, high = RANGES[primitive]
    if not low <= value <= high:
        raise JsonFormError(f"{shown(value)} does not fit into {primitive.value}", path)
    return value


def _checked_string(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise JsonFormError(f"a string is needed, not {_kind(value)}", path)
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise JsonFormError("half a surrogate pair is no text", path) from None
    if size > MAX_STRING_BYTES:
        raise JsonFormError(f"takes {size} bytes, at most {MAX_STRING_BYTES}", path)
    return value


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", bool: "true or false", type(None): "null"}
    names.update({str: "a string", int: "a number", float: "a number"})
    return names.get(type(value), type(value).__name__)
