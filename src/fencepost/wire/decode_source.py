"""Writes the source of a decoder: one straight-line function per message and version.

Neighbouring fields of fixed size are read by one `struct` call, together with the byte that
follows them where that byte is a length, a count of elements or a count of tags (a varint whose
first byte is nearly always its last). Nested structs and loops over arrays are written in place.

Names in the source: `b` the input, `v` a view of it for records, `p` the position, `end` the size
of the input, `left` how many elements arrays may still have, `n1`, `o2`, ... locals. Decoders check
lengths and counts against `end` before they allocate, and leave it to `struct` and indexing to fail
on fields of fixed size.
"""

from __future__ import annotations

import struct
from typing import Any

from fencepost.wire import runtime
from fencepost.wire.emitter import SMALL_COUNT, Emitter, array_methods
from fencepost.wire.layout import Layout, Slot
from fencepost.wire.schema import MISSING, Field
from fencepost.wire.types import FIXED_CODES, MAX_STRING_BYTES, Primitive, Uuid

FEW_ELEMENTS = 4
"""Arrays of fewer structs than this are read one by one."""

_ENVIRONMENT: dict[str, Any] = {
    "Malformed": runtime.Malformed,
    "TooMany": runtime.TooMany,
    "uvarint": runtime.read_uvarint,
    "read_uuids": runtime.read_uuids,
    "unpack": struct.unpack_from,
    "new": object.__new__,
    "new_bytes": bytes.__new__,
    "Uuid": Uuid,
    "ZERO": Uuid.ZERO,
}


def decoder_source(layout: Layout, *, from_view: bool) -> tuple[str, dict[str, Any]]:
    """Source of `decode(b, v, p, end, left) -> (message, position)` and the globals it needs.

    `from_view`: `b` may be a memoryview; otherwise it is `bytes`, which is faster.
    """
    writer = _DecodeWriter(layout.is_flexible, from_view)
    writer.write_struct(layout, "o")
    writer.flush()
    writer.emit("return o, p")
    header = "def decode(b, v, p, end, left):\n"
    return header + "\n".join(writer.lines) + "\n", writer.environment


class _DecodeWriter(Emitter):
    def __init__(self, is_flexible: bool, from_view: bool) -> None:
        super().__init__(dict(_ENVIRONMENT))
        self._is_flexible = is_flexible
        self._text = 'str(b[p:{end}], "utf-8")' if from_view else "b[p:{end}].decode()"
        # The run of fixed-size fields not yet read: format, size and where each value goes.
        self._codes = ""
        self._size = 0
        self._targets: list[str] = []
        self._after_run: list[str] = []

    # Runs of fixed-size fields

    def _add(self, code: str, size: int, target: str) -> None:
        self._codes += code
        self._size += size
        self._targets.append(target)

    def flush(self) -> None:
        """Read the run collected so far."""
        if not self._codes:
            return
        if self._codes == "B":
            self.emit(f"{self._targets[0]} = b[p]")
        else:
            unpack = self.packer("unpack", self._codes, "unpack_from")
            comma = "," if len(self._targets) == 1 else ""
            self.emit(f"{', '.join(self._targets)}{comma} = {unpack}(b, p)")
        self.emit(f"p += {self._size}")
        for line in self._after_run:
            self.emit(line)
        self._codes, self._size, self._targets, self._after_run = "", 0, [], []

    def _uvarint(self, name: str, invalid: str = "") -> None:
        """Read a varint; `invalid` is an `if` for values that more than one byte could have."""
        self._add("B", 1, name)
        self.flush()
        with self.block(f"if {name} > 127:"):
            self.emit(f"{name}, p = uvarint(b, p - 1)")
            if invalid:
                with self.block(invalid):
                    self.emit("raise Malformed")

    def _count(self, name: str) -> None:
        """Read the count of an array into `name`; null is -1 in either form."""
        if self._is_flexible:
            self._uvarint(name)
            self.emit(f"{name} -= 1")
        else:
            self._add("i", 4, name)
            self.flush()

    # Structs

    def write_struct(self, layout: Layout, name: str) -> None:
        """Make an object and read its fields; a run may be left open at the end."""
        cls = self.constant(layout.struct.__name__, layout.struct)
        self.emit(f"{name} = new({cls})")
        for field in layout.absent:
            self._write_default(field, f"{name}.{field.name}")
        for slot in layout.plain:
            self._write_slot(slot, f"{name}.{slot.field.name}")
        if layout.is_flexible:
            self._write_tags(layout, name)
        else:
            self.emit(f"{name}.unknown_tags = None")

    def _write_default(self, field: Field, target: str) -> None:
        if field.default is not MISSING:
            default = field.default
            if type(default) in (int, bool, str, type(None)):
                self.emit(f"{target} = {default!r}")
            else:
                self.emit(f"{target} = {self.constant(f'default_{field.name}', default)}")
        elif field.is_array:
            self.emit(f"{target} = []")
        else:
            assert field.struct is not None
            name = self.new_name("d")
            self.emit(f"{target} = {name} = new({self._class_name(field.struct)})")
            for inner in field.struct.fields:
                self._write_default(inner, f"{name}.{inner.name}")
            self.emit(f"{name}.unknown_tags = None")

    def _class_name(self, struct: type) -> str:
        return self.constant(struct.__name__, struct)

    def _write_tags(self, layout: Layout, name: str) -> None:
        count = self.new_name("t")
        self._uvarint(count)
        with self.block(f"if {count}:"):
            self._write_tag_loop(layout, name, count)
        with self.block("else:"):
            for slot in layout.tagged:
                self._write_default(slot.field, f"{name}.{slot.field.name}")
            self.emit(f"{name}.unknown_tags = None")

    def _write_tag_loop(self, layout: Layout, name: str, count: str) -> None:
        for slot in layout.tagged:
            self._write_default(slot.field, f"{name}.{slot.field.name}")
        tag, last = self.new_name("tag"), self.new_name("last")
        size, unknown = self.new_name("z"), self.new_name("u")
        self.emit(f"{unknown} = None")
        self.emit(f"{last} = -1")
        with self.block(f"for _ in range({count}):"):
            self._uvarint(tag)
            self._uvarint(size)
            self.emit(f"{size} += p")
            with self.block(f"if {tag} <= {last} or {size} > end:"):
                self.emit("raise Malformed")
            self.emit(f"{last} = {tag}")
            keyword = "if"
            for slot in layout.tagged:
                with self.block(f"{keyword} {tag} == {slot.field.tag}:"):
                    self._write_slot(slot, f"{name}.{slot.field.name}")
                    self.flush()
                keyword = "elif"
            if layout.tagged:
                with self.block("else:"):
                    self._keep_unknown(unknown, tag, size)
            else:
                self._keep_unknown(unknown, tag, size)
            with self.block(f"if p != {size}:"):
                self.emit("raise Malformed")
        self.emit(f"{name}.unknown_tags = {unknown}")

    def _keep_unknown(self, unknown: str, tag: str, stop: str) -> None:
        self._spend("1")
        with self.block(f"if {unknown} is None:"):
            self.emit(f"{unknown} = {{}}")
        self.emit(f"{unknown}[{tag}] = bytes(b[p:{stop}])")
        self.emit(f"p = {stop}")

    # Values

    def _write_slot(self, slot: Slot, target: str) -> None:
        if slot.field.is_array:
            self._write_array(slot, target)
        elif slot.layout is not None:
            self._write_nested(slot, slot.layout, target)
        else:
            assert slot.field.primitive is not None
            self._write_primitive(slot.field.primitive, target, slot.is_nullable)

    def _write_nested(self, slot: Slot, layout: Layout, target: str) -> None:
        name = self.new_name("o")
        if not slot.is_nullable:
            self.write_struct(layout, name)
            self.emit(f"{target} = {name}")
            return
        present = self.new_name("k")
        self._add("b", 1, present)
        self.flush()
        with self.block(f"if {present} < 0:"):
            self.emit(f"{target} = None")
        with self.block("else:"):
            self.write_struct(layout, name)
            self.flush()
            self.emit(f"{target} = {name}")

    def _write_primitive(self, primitive: Primitive, target: str, is_nullable: bool) -> None:
        if primitive in FIXED_CODES:
            self._add(*FIXED_CODES[primitive], target)
        elif primitive is Primitive.UUID:
            name = self.new_name("x")
            self._add("16s", 16, name)
            self._after_run.append(
                f"{target} = ZERO if {name} == ZERO else new_bytes(Uuid, {name})"
            )
        else:
            self._write_sized(primitive, target, is_nullable)

    def _write_sized(self, primitive: Primitive, target: str, is_nullable: bool) -> None:
        """A string, bytes or records: a length, and a slice that must lie within the input."""
        size, stop = self.new_name("n"), self.new_name("q")
        is_string = primitive is Primitive.STRING
        if self._is_flexible:
            limit = f"if {size} > {MAX_STRING_BYTES + 1}:" if is_string else ""
            self._uvarint(size, limit)
            self.emit(f"{stop} = p + {size} - 1")
            null, invalid = f"if not {size}:", f"{stop} > end"
        else:
            self._add(*(("h", 2) if is_string else ("i", 4)), size)
            self.flush()
            self.emit(f"{stop} = p + {size}")
            null, invalid = f"if {size} == -1:", f"{size} < 0 or {stop} > end"
        value = {
            Primitive.STRING: self._text.format(end=stop),
            Primitive.BYTES: f"bytes(b[p:{stop}])",
            Primitive.RECORDS: f"v[p:{stop}]",
        }[primitive]
        if not is_nullable:
            if self._is_flexible:
                invalid += f" or not {size}"
            with self.block(f"if {invalid}:"):
                self.emit("raise Malformed")
            self.emit(f"{target} = {value}")
            self.emit(f"p = {stop}")
            return
        with self.block(null):
            self.emit(f"{target} = None")
        with self.block(f"elif {invalid}:"):
            self.emit("raise Malformed")
        with self.block("else:"):
            self.emit(f"{target} = {value}")
            self.emit(f"p = {stop}")

    def _write_array(self, slot: Slot, target: str) -> None:
        count = self.new_name("n")
        self._count(count)
        check = f"if {count} < 0 or {count} * {slot.element_min_size} > end - p:"
        if not slot.is_nullable:
            with self.block(check):
                self.emit("raise Malformed")
            self._write_elements(slot, target, count)
            return
        with self.block(f"if {count} == -1:"):
            self.emit(f"{target} = None")
        with self.block(f"el{check}"):
            self.emit("raise Malformed")
        with self.block("else:"):
            self._write_elements(slot, target, count)

    def _spend(self, count: str) -> None:
        """Take `count` elements from what the message may have in all."""
        self.emit(f"left -= {count}")
        with self.block("if left < 0:"):
            self.emit("raise TooMany(p)")

    def _write_elements(self, slot: Slot, target: str, count: str) -> None:
        self._spend(count)
        primitive = slot.field.primitive
        if primitive in FIXED_CODES:
            code, size = FIXED_CODES[primitive]
            methods = self.constant(
                f"unpack_many_{code.replace('?', 'z')}", array_methods("", code, "unpack_from")
            )
            self.emit(
                f"{target} = list({methods}[{count}](b, p) if {count} < {SMALL_COUNT} "
                f'else unpack(f">{{{count}}}{code}", b, p))'
            )
            self.emit(f"p += {count} * {size}" if size > 1 else f"p += {count}")
            return
        if primitive is Primitive.UUID:
            self.emit(f"{target} = read_uuids(b, p, {count})")
            self.emit(f"p += {count} * 16")
            return
        items, append = self.new_name("l"), self.new_name("a")
        self.emit(f"{items} = []")
        self.emit(f"{append} = {items}.append")
        if slot.layout is not None and _is_fixed(slot.layout):
            self._write_fixed_structs(slot.layout, count, append)
        else:
            self._write_loop(slot, count, append)
        self.emit(f"{target} = {items}")

    def _write_loop(self, slot: Slot, count: str, append: str) -> None:
        element = self.new_name("o")
        with self.block(f"for _ in range({count}):"):
            if slot.layout is not None:
                self.write_struct(slot.layout, element)
            else:
                assert slot.field.primitive is not None
                self._write_primitive(slot.field.primitive, element, False)
            self.flush()
            self.emit(f"{append}({element})")

    def _write_fixed_structs(self, layout: Layout, count: str, append: str) -> None:
        """Elements of one size: all of them in one go, unless some element has tagged fields."""
        slots, size = layout.plain, layout.min_size
        codes = "".join(_code(slot) for slot in slots)
        stop, element = self.new_name("q"), self.new_name("o")
        names = [self.new_name("x") for _ in slots]
        self.emit(f"{stop} = p + {count} * {size}")
        uneven = f"{count} < {FEW_ELEMENTS}"
        if layout.is_flexible:
            codes += "B"
            uneven += f" or any(b[p + {size - 1}:{stop}:{size}])"
        with self.block(f"if {uneven}:"), self.block(f"for _ in range({count}):"):
            self.write_struct(layout, element)
            self.flush()
            self.emit(f"{append}({element})")
        with self.block("else:"):
            unpack = self.packer("iter", codes, "iter_unpack")
            targets = ", ".join([*names, "_"] if layout.is_flexible else names)
            comma = "," if len(slots) == 1 and not layout.is_flexible else ""
            with self.block(f"for {targets}{comma} in {unpack}(b[p:{stop}]):"):
                self.emit(f"{element} = new({self._class_name(layout.struct)})")
                for slot, name in zip(slots, names):
                    self.emit(f"{element}.{slot.field.name} = {name}")
                for field in [*layout.absent, *(slot.field for slot in layout.tagged)]:
                    self._write_default(field, f"{element}.{field.name}")
                self.emit(f"{element}.unknown_tags = None")
                self.emit(f"{append}({element})")
            self.emit(f"p = {stop}")


def _code(slot: Slot) -> str:
    assert slot.field.primitive is not None
    return FIXED_CODES[slot.field.primitive][0]


def _is_fixed(layout: Layout) -> bool:
    """Whether all instances without tagged fields have one size, and are only numbers."""
    return bool(layout.plain) and all(
        slot.field.primitive in FIXED_CODES and not slot.field.is_array for slot in layout.plain
    )
