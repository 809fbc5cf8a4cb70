"""Says what is wrong with bytes or objects that a codec refused, and where.

Fast codecs only notice that something does not fit. These two walk the same layout again, one
field at a time, keeping the path; the first misfit becomes the error. Shared by both backends, so
that their errors are the same.
"""

from __future__ import annotations

import struct
from operator import index as integer_of
from typing import Any

from fencepost.wire.errors import (
    DecodeError,
    EncodeError,
    TextDecodeError,
    TooManyElementsError,
    shown,
)
from fencepost.wire.layout import Layout, Slot
from fencepost.wire.runtime import BOOL_BYTE, ENCODE_FAILURES, Malformed, as_sequence
from fencepost.wire.types import (
    FIXED_CODES,
    MAX_STRING_BYTES,
    RANGES,
    Buffer,
    Primitive,
)

_MAX_UVARINT = 0xFFFFFFFF
_VALUE_NAMES = {primitive: f"a {primitive.value} value" for primitive in Primitive}
_ONE_SIZE = {*FIXED_CODES, Primitive.UUID}


def trailing_bytes(end: int, size: int) -> DecodeError:
    """The error for a message that ends before its buffer does."""
    return DecodeError(f"{size - end} bytes left over", "", end)


def too_many_elements(limit: int, position: int) -> TooManyElementsError:
    """The error for a message whose arrays have more elements than its reader wants."""
    return TooManyElementsError(f"its lists have more than {limit} elements", "", position)


def negative(name: str) -> ValueError:
    """The error for an argument of a decoder that has to be 0 or more."""
    return ValueError(f"{name} is negative")


def explain_decode(
    layout: Layout, data: Buffer, pos: int, cause: Exception, *, replaces: bool = False
) -> DecodeError:
    """The DecodeError for `data`, which a decoder of `layout` refused with `cause`.

    `replaces`: the decoder takes texts that are not UTF-8.
    """
    if pos > len(data):
        return DecodeError(f"begins behind the end of {len(data)} bytes", "", pos)
    reader = _Reader(data, pos, replaces)
    try:
        reader.read_struct(layout)
    except DecodeError as error:
        return error
    return DecodeError(f"malformed: {cause!r}", "", pos)


class _Path:
    """The way from the message to the field in hand: names, and indexes into arrays.

    Steps are not taken back when an error is raised, which is when the path is wanted.
    """

    def __init__(self) -> None:
        self.steps: list[str | int] = []

    def __str__(self) -> str:
        shown = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps]
        return "".join(shown).removeprefix(".")


class _Reader:
    """Walks bytes along a layout without building anything."""

    def __init__(self, data: Buffer, pos: int, replaces: bool) -> None:
        self._replaces = replaces
        self._data = data
        self._pos = pos
        self._end = len(data)
        self._path = _Path()

    def _fail(self, reason: str, position: int) -> DecodeError:
        return DecodeError(reason, str(self._path), position)

    def _take(self, size: int, what: str) -> bytes:
        start, left = self._pos, self._end - self._pos
        if size > left:
            raise self._fail(f"{what} takes {size} bytes, {max(left, 0)} are left", start)
        self._pos += size
        return bytes(self._data[start : self._pos])

    def _uvarint(self) -> int:
        start, value = self._pos, 0
        if start < self._end and (byte := self._data[start]) < 0x80:
            self._pos += 1
            return byte
        for shift in range(0, 35, 7):
            if self._pos >= self._end:
                raise self._fail("a varint is cut off", start)
            byte = self._take(1, "a varint")[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > _MAX_UVARINT:
                    break
                return value
        raise self._fail("a varint of more than 32 bits", start)

    def _length(self, slot: Slot, plain_code: str, is_nullable: bool, what: str) -> int:
        """A length or count, -1 for null."""
        start = self._pos
        if slot.is_compact:
            length = self._uvarint() - 1
        else:
            length = struct.unpack(
                ">" + plain_code, self._take(struct.calcsize(plain_code), "a length")
            )[0]
        if length < -1:
            raise self._fail(f"{what} has the negative length {length}", start)
        if length == -1 and not is_nullable:
            raise self._fail(f"{what} is null, which this version does not allow", start)
        return length

    def read_struct(self, layout: Layout) -> None:
        steps = self._path.steps
        for slot in layout.plain:
            steps.append(slot.field.name)
            self._read_slot(slot)
            steps.pop()
        if layout.is_flexible:
            self._read_tags(layout)

    def _read_tags(self, layout: Layout) -> None:
        by_tag = {slot.field.tag: slot for slot in layout.tagged}
        last = -1
        self._path.steps.append("unknown_tags")
        for _ in range(self._uvarint()):
            last = self._read_tag(by_tag, last)
        self._path.steps.pop()

    def _read_tag(self, by_tag: dict[int | None, Slot], last: int) -> int:
        start, steps = self._pos, self._path.steps
        tag = self._uvarint()
        if tag <= last:
            raise self._fail(f"tag {tag} comes after tag {last}", start)
        slot = by_tag.get(tag)
        if slot is not None:
            steps[-1] = slot.field.name
        size = self._uvarint()
        left, stop = self._end - self._pos, self._pos + size
        if size > left:
            raise self._fail(f"tag {tag} takes {size} bytes, {left} are left", start)
        if slot is None:
            self._pos = stop
            return tag
        self._read_slot(slot)
        if self._pos != stop:
            taken = size + self._pos - stop
            raise self._fail(f"tag {tag} says {size} bytes, its value takes {taken}", start)
        steps[-1] = "unknown_tags"
        return tag

    def _read_slot(self, slot: Slot) -> None:
        if not slot.field.is_array:
            self._read_one(slot, is_nullable=slot.is_nullable)
            return
        start, steps = self._pos, self._path.steps
        count = self._length(slot, "i", slot.is_nullable, "an array")
        left = self._end - self._pos
        if count * slot.element_min_size > left:
            raise self._fail(
                f"{count} elements of {slot.element_min_size} bytes or more,"
                f" but {left} bytes are left",
                start,
            )
        if slot.field.primitive in _ONE_SIZE:
            self._pos += max(count, 0) * slot.element_min_size
            return
        steps.append(0)
        for index in range(count):
            steps[-1] = index
            self._read_one(slot, is_nullable=False)
        steps.pop()

    def _read_one(self, slot: Slot, *, is_nullable: bool) -> None:
        if slot.layout is not None:
            if is_nullable:
                (mark,) = self._take(1, "the mark of a struct")
                if mark > 0x7F or (mark == 0 and slot.is_tagged):
                    return
            self.read_struct(slot.layout)
            return
        primitive = slot.field.primitive
        assert primitive is not None
        if primitive in _ONE_SIZE:
            size = 16 if primitive is Primitive.UUID else FIXED_CODES[primitive][1]
            self._take(size, primitive.value)
            return
        start, is_string = self._pos, primitive is Primitive.STRING
        length = self._length(slot, "h" if is_string else "i", is_nullable, _VALUE_NAMES[primitive])
        if is_string and length > MAX_STRING_BYTES:
            raise self._fail(f"a string of {length} bytes, at most {MAX_STRING_BYTES}", start)
        if length > self._end - self._pos:
            left = self._end - self._pos
            what = _VALUE_NAMES[primitive]
            raise self._fail(f"{what} takes {length} bytes, {left} are left", start)
        value = self._take(max(length, 0), "a value")
        if is_string and not self._replaces:
            try:
                value.decode()
            except UnicodeDecodeError as error:
                reason = f"not UTF-8: {error.reason}"
                raise TextDecodeError(reason, str(self._path), start) from None


def explain_encode(layout: Layout, message: Any, cause: Exception) -> EncodeError:
    """The EncodeError for `message`, which an encoder of `layout` refused with `cause`.

    Looking at the message may run its own code again, with any result.
    """
    if isinstance(cause, MemoryError):
        raise cause
    checker = _Checker(layout.version)
    try:
        checker.check_struct(layout, message)
    except EncodeError as error:
        return error
    except ENCODE_FAILURES as error:
        cause = error
    else:
        checker.path.steps.clear()
    if isinstance(cause, Malformed):
        return EncodeError("changed while it was being written")
    return EncodeError(f"cannot be written: {_described(cause)}", str(checker.path))


def check_encodable(layout: Layout, message: Any) -> None:
    """EncodeError, with the path, for what an encoder of `layout` would refuse."""
    _Checker(layout.version).check_struct(layout, message)


def _described(cause: Exception) -> str:
    try:
        return repr(cause)
    except ENCODE_FAILURES:  # an exception can be anybody's, too
        return type(cause).__name__


class _Checker:
    """Walks an object along a layout and checks what an encoder would need of it."""

    def __init__(self, version: int) -> None:
        self._version = version
        self.path = _Path()

    def _fail(self, reason: str) -> EncodeError:
        return EncodeError(reason, str(self.path))

    def _wrong(self, expected: str, value: Any) -> EncodeError:
        return self._fail(f"must be {expected}, not {type(value).__name__}")

    def check_struct(self, layout: Layout, value: Any) -> None:
        if type(value) is not layout.struct:
            raise self._wrong(layout.struct.__name__, value)
        steps = self.path.steps
        steps.append("")
        for field in layout.absent:
            steps[-1] = field.name
            if not field.ignorable and not self._is_default(field, self._get(value, field.name)):
                raise self._fail(f"cannot be set in version {self._version}")
        for slot in layout.plain + layout.tagged:
            steps[-1] = slot.field.name
            self._check_slot(slot, self._get(value, slot.field.name))
        steps[-1] = "unknown_tags"
        self._check_unknown_tags(layout, self._get(value, "unknown_tags"))
        steps.pop()

    def _get(self, value: Any, name: str) -> Any:
        try:
            return getattr(value, name)
        except AttributeError:
            raise self._fail("was never set") from None

    def _is_default(self, field: Any, value: Any) -> bool:
        try:
            return bool(field.is_default(value))
        except ENCODE_FAILURES as error:
            raise self._fail(_described(error)) from None

    def _check_unknown_tags(self, layout: Layout, tags: Any) -> None:
        if not tags:
            return
        if not layout.is_flexible:
            raise self._fail(f"version {self._version} has no tagged fields")
        if not isinstance(tags, dict):
            raise self._wrong("a dict", tags)
        declared = {slot.field.tag for slot in layout.tagged}
        for tag, value in dict.items(tags):
            if type(tag) is not int or not 0 <= tag <= _MAX_UVARINT:
                raise self._fail(f"{shown(tag)} is not a tag")
            if tag in declared:
                raise self._fail(f"tag {tag} is a declared field of version {self._version}")
            if not isinstance(value, (bytes, bytearray, memoryview)):
                raise self._wrong("bytes", value)

    def _check_slot(self, slot: Slot, value: Any) -> None:
        if value is None:
            if not slot.is_nullable:
                raise self._fail(f"cannot be None in version {self._version}")
            return
        if not slot.field.is_array:
            self._check_one(slot, value)
            return
        if not isinstance(value, (list, tuple)):
            raise self._wrong("a list", value)
        self.path.steps.append(0)
        for index, element in enumerate(as_sequence(value)):
            self.path.steps[-1] = index
            if element is None:
                raise self._fail("cannot be None inside an array")
            self._check_one(slot, element)
        self.path.steps.pop()

    def _check_one(self, slot: Slot, value: Any) -> None:
        if slot.layout is not None:
            self.check_struct(slot.layout, value)
            return
        primitive = slot.field.primitive
        assert primitive is not None
        if primitive in RANGES:
            self._check_int(primitive, value)
        elif primitive is Primitive.STRING:
            self._check_string(value)
        elif primitive is Primitive.BOOL:
            self._check_bool(value)
        elif primitive is Primitive.UUID:
            self._check_uuid(value)
        elif primitive is Primitive.FLOAT64:
            self._check_float(value)
        else:
            self._check_buffer(primitive, value)

    def _check_int(self, primitive: Primitive, value: Any) -> None:
        low, high = RANGES[primitive]
        if not hasattr(value, "__index__"):
            raise self._wrong("an int", value)
        number = integer_of(value)
        if not low <= number <= high:
            raise self._fail(f"{shown(number)} does not fit into {primitive.value}")

    def _check_bool(self, value: Any) -> None:
        try:
            is_bool = value in BOOL_BYTE
        except TypeError:  # not hashable
            is_bool = False
        if not is_bool:
            raise self._wrong("a bool", value)

    def _check_uuid(self, value: Any) -> None:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise self._wrong("a Uuid of 16 bytes", value)
        self._check_buffer(Primitive.BYTES, value)
        if memoryview(value).nbytes != 16:
            raise self._wrong("a Uuid of 16 bytes", value)

    def _check_float(self, value: Any) -> None:
        try:
            struct.pack(">d", value)
        except (struct.error, OverflowError, ValueError, TypeError):
            raise self._wrong("a float", value) from None

    def _check_string(self, value: Any) -> None:
        if not isinstance(value, str):
            raise self._wrong("a str", value)
        try:
            size = len(str.encode(value))
        except UnicodeEncodeError as error:
            raise self._fail(f"not UTF-8: {error.reason}") from None
        if size > MAX_STRING_BYTES:
            raise self._fail(f"takes {size} bytes, at most {MAX_STRING_BYTES}")

    def _check_buffer(self, primitive: Primitive, value: Any) -> None:
        if primitive is Primitive.RECORDS and isinstance(value, (list, tuple)):
            self.path.steps.append(0)
            for index, part in enumerate(as_sequence(value)):
                self.path.steps[-1] = index
                self._check_buffer(Primitive.BYTES, part)
            self.path.steps.pop()
        elif not isinstance(value, (bytes, bytearray, memoryview)):
            raise self._wrong("bytes", value)
        elif isinstance(value, memoryview):
            try:
                _ = value.nbytes
            except ValueError as error:
                raise self._fail(str(error)) from None
