"""Whether data of one Protobuf file can be read by another: rules of Confluent's registry.

They are the rules of the language guide ("Updating A Message Type"), as that registry counts them.
Not compatible are: another package; a message that is gone; a field of another kind or type (within
a group of types that are written alike, such as int32, int64, uint32, uint64, bool and enums, it
may change); a numeric field that becomes repeated or ceases to be; a required field that comes or
goes; fields that were independent in one oneof; a member that leaves a oneof and is nowhere else.
Fields, messages, enums and their constants may come, fields and enums may go, and names of fields
may change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fencepost.testing.registry.budget import Budget

_GROUPS: Final = {
    "int32": "number", "int64": "number", "uint32": "number", "uint64": "number",
    "bool": "number", "enum": "number", "sint32": "signed number", "sint64": "signed number",
    "string": "text", "bytes": "text", "fixed32": "fixed32", "sfixed32": "fixed32",
    "fixed64": "fixed64", "sfixed64": "fixed64", "float": "float", "double": "double",
}  # fmt: skip
_MESSAGE: Final = ("message", "group")


@dataclass(frozen=True)
class ProtobufFile:
    """A FileDescriptorProto, and every message of it and of what it imports by its full name,
    together with the package."""

    file: Any
    messages: Mapping[str, tuple[Any, str]]


def unreadable(reader: ProtobufFile, writer: ProtobufFile) -> list[str]:
    """Why `reader` cannot read what `writer` wrote, a text for each reason; none if it can."""
    return list(_Comparison(reader, writer).files())


class _Comparison:
    """`old` is what wrote, `new` what reads."""

    def __init__(self, new: ProtobufFile, old: ProtobufFile) -> None:
        self._new, self._old = new, old
        self._budget = Budget()
        self._seen: set[tuple[int, int]] = set()

    def files(self) -> Iterator[str]:
        if self._new.file.package != self._old.file.package:
            old, new = self._old.file.package, self._new.file.package
            yield f"/: the package is {new!r}, and was {old!r}"
        yield from self._types(self._new.file.message_type, self._old.file.message_type, "")

    def _types(self, new: Sequence[Any], old: Sequence[Any], path: str) -> Iterator[str]:
        now = {one.name: one for one in new}
        for message in old:
            if message.options.map_entry:
                continue
            place = f"{path}/{message.name}"
            if message.name not in now:
                yield f"{place}: the message is gone"
            else:
                yield from self._message(now[message.name], message, place)

    def _message(self, new: Any, old: Any, path: str) -> Iterator[str]:
        self._budget.take()
        key = id(new), id(old)
        if key in self._seen:  # it is told once, and a message may have itself in it
            return
        self._seen.add(key)
        yield from self._oneofs(new, old, path)
        now, before = {one.number: one for one in new.field}, {one.number: one for one in old.field}
        gone = _wholly_gone(new, old)
        for number in sorted({*now, *before}):
            place = f"{path}/{number}"
            if number not in now:
                oneof = _oneof(old, before[number])
                if oneof is not None and oneof not in gone:
                    yield f"{place}: the field was in oneof {oneof}, and is gone"
                elif oneof is None and _is_required(before[number]):
                    yield f"{place}: the required field is gone"
            elif number not in before:
                if _is_required(now[number]):
                    yield f"{place}: the field is new and required"
            else:
                yield from self._field(now[number], before[number], place)
        yield from self._types(new.nested_type, old.nested_type, path)

    def _oneofs(self, new: Any, old: Any, path: str) -> Iterator[str]:
        """Fields that could be set together, and now exclude each other."""
        before = {one.number: one for one in old.field}
        for oneof in dict.fromkeys(filter(None, (_oneof(new, one) for one in new.field))):
            origins = {
                _oneof(old, before[one.number]) or one.number
                for one in new.field
                if _oneof(new, one) == oneof and one.number in before
            }
            if len(origins) > 1:
                yield f"{path}/{oneof}: the oneof has fields that could be set together"

    def _field(self, new: Any, old: Any, path: str) -> Iterator[str]:
        now, before = self._kind(new, self._new), self._kind(old, self._old)
        if now != before:
            yield f"{path}: the field is {now}, and was {before}"
        elif now == "message":
            yield from self._message_field(new, old, path)
        elif now == "map":
            pairs = zip(self._entry(new, self._new), self._entry(old, self._old), strict=True)
            for name, (inner, was) in zip(("key", "value"), pairs, strict=True):
                yield from self._field(inner, was, f"{path}/{name}")
        elif now != "text":
            label, was = _label(new), _label(old)
            if label is not None and was is not None and label != was:
                yield f"{path}: the field is {label}, and was {was}"

    def _message_field(self, new: Any, old: Any, path: str) -> Iterator[str]:
        found = self._new.messages.get(_name(new)), self._old.messages.get(_name(old))
        if found[0] is None or found[1] is None:  # in a file of Google's, which is not registered
            names = _name(new), _name(old)
        else:
            names = _local(_name(new), found[0][1]), _local(_name(old), found[1][1])
        if names[0] != names[1]:
            yield f"{path}: the field is {names[0]}, and was {names[1]}"
        elif found[0] is not None and found[1] is not None:
            yield from self._message(found[0][0], found[1][0], f"{path}/{names[0]}")

    def _kind(self, field: Any, file: ProtobufFile) -> str:
        kind = _type(field)
        if kind not in _MESSAGE:
            return _GROUPS[kind]
        found = file.messages.get(_name(field))
        return "map" if found is not None and found[0].options.map_entry else "message"

    def _entry(self, field: Any, file: ProtobufFile) -> Sequence[Any]:
        """Key and value of a map."""
        return sorted(file.messages[_name(field)][0].field, key=lambda one: one.number)


def _type(field: Any) -> str:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    name: str = FieldDescriptorProto.Type.Name(field.type)
    return name.removeprefix("TYPE_").lower()


def _name(field: Any) -> str:
    return str(field.type_name.removeprefix("."))


def _local(name: str, package: str) -> str:
    return name.removeprefix(f"{package}.") if package else name


def _label(field: Any) -> str | None:
    """None where proto3 has no word for it."""
    label = {1: "optional", 2: "required", 3: "repeated"}[field.label]
    if label == "optional" and not field.proto3_optional and not field.HasField("default_value"):
        return None
    return label


def _is_required(field: Any) -> bool:
    return bool(field.label == 2)


def _oneof(message: Any, field: Any) -> str | None:
    if not field.HasField("oneof_index") or field.proto3_optional:
        return None
    return str(message.oneof_decl[field.oneof_index].name)


def _wholly_gone(new: Any, old: Any) -> set[str]:
    """Oneofs of which neither the name nor a member is there any more: those may go."""
    names = {_oneof(new, one) for one in new.field}
    numbers = {one.number for one in new.field}
    found: dict[str, bool] = {}
    for field in old.field:
        oneof = _oneof(old, field)
        if oneof is not None:
            found[oneof] = found.get(oneof, oneof not in names) and field.number not in numbers
    return {oneof for oneof, is_gone in found.items() if is_gone}
