"""Writes the source of a decoder: one straight-line function per message and version.

Neighbouring fields of fixed size are read by one `struct` call, together with the byte that
follows them where that byte is a length, a count of elements or a count of tags (a varint whose
first byte is nearly always its last). Nested structs and loops over arrays are written in place;
what messages rarely hold, undeclared tags and varints of several bytes, is left to `runtime`. The
objects of an array are made all at once where all their bytes have been seen.

Names in the source: `b` the input, `v` a view of it for records, `p` the position, `end` the size
of the input (in functions: of what they may read), `left` how many elements arrays may still have,
`n1`, `o2`, ... locals. Decoders check counts against `end`, or the tag around them, before they
allocate. They leave it to `struct` and indexing to fail on fields of fixed size, and let a string
run past the end: what is read behind it fails, and if nothing is, the last line does.
"""

from __future__ import annotations

import struct
from functools import cache
from itertools import filterfalse, repeat, starmap
from typing import Any

from fencepost.wire import runtime
from fencepost.wire.emitter import SMALL_COUNT, Emitter, array_methods, repeated_layouts
from fencepost.wire.layout import Layout, Slot
from fencepost.wire.schema import MISSING, Field
from fencepost.wire.types import FIXED_CODES, Primitive, Uuid

FEW_ELEMENTS = 6
"""Arrays of fewer structs than this are read one by one: as fast, without looking at all tags."""

MADE_AT_ONCE = 16
"""The objects of arrays up to this size are made before the first is read, which is faster; those
of others as they are read, since there may be none of what the count claims."""

_ENVIRONMENT: dict[str, Any] = {
    "Malformed": runtime.Malformed,
    "TooMany": runtime.TooMany,
    "uvarint": runtime.read_uvarint,
    "string_size": runtime.read_string_size,
    "read_uuids": runtime.read_uuids,
    "read_tag": runtime.read_tag,
    "read_unknown_tags": runtime.read_unknown_tags,
    "text": runtime.read_text,
    "unpack": struct.unpack_from,
    "new": object.__new__,
    "new_bytes": bytes.__new__,
    "filterfalse": filterfalse,
    "repeat": repeat,
    "starmap": starmap,
    "Uuid": Uuid,
    "ZERO": Uuid.ZERO,
}


def decoder_source(
    layout: Layout, *, from_view: bool, is_bounded: bool, replaces: bool = False
) -> tuple[str, dict[str, Any]]:
    """Source of `decode(b, v, p, end, left) -> (message, position)` and the globals it needs.

    `from_view`: `b` may be a memoryview; otherwise it is `bytes`, which is faster. `is_bounded`:
    elements are counted against `left`; otherwise `left` is known to be more than enough.
    `replaces`: texts that are not UTF-8 are taken, as `runtime.read_text` says.
    """
    writer = _DecodeWriter(layout, from_view, is_bounded, replaces)
    writer.make_object(layout, "o")
    writer.write_struct(layout, "o")
    writer.flush()
    with writer.block("if p > end:"):
        writer.emit("raise Malformed")
    writer.emit("return o, p")
    return writer.source("def decode(b, v, p, end, left):"), writer.environment


class _DecodeWriter(Emitter):
    def __init__(self, layout: Layout, from_view: bool, is_bounded: bool, replaces: bool) -> None:
        super().__init__(dict(_ENVIRONMENT), repeated_layouts(layout))
        self._is_bounded = is_bounded
        self._limit = "end"  # of what may be read here: the input, or the tag around it
        self._values = {
            Primitive.STRING: 'str(b[p:{stop}], "utf-8")' if from_view else "b[p:{stop}].decode()",
            Primitive.BYTES: "bytes(b[p:{stop}])" if from_view else "b[p:{stop}]",
            Primitive.RECORDS: "v[p:{stop}]",
        }
        if replaces:
            self._values[Primitive.STRING] = "text(b[p:{stop}])"
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

    def _uvarint(self, name: str, reader: str = "uvarint") -> None:
        """Read a varint; `reader` reads those of several bytes."""
        self._add("B", 1, name)
        self.flush()
        with self.block(f"if {name} > 127:"):
            self.emit(f"{name}, p = {reader}(b, p - 1)")

    def _uvarint_of_two_bytes(self, name: str) -> None:
        """Read a varint that is likely to have two bytes, as the size of records has."""
        high = self.new_name("h")
        self._add("B", 1, name)
        self.flush()
        with self.block(f"if {name} > 127:"):
            self.emit(f"{high} = b[p]")
            with self.block(f"if {high} < 128:"):
                self.emit(f"{name} += ({high} << 7) - 128")
                self.emit("p += 1")
            with self.block("else:"):
                self.emit(f"{name}, p = uvarint(b, p - 1)")

    # Structs

    def make_object(self, layout: Layout, name: str) -> None:
        """Make the object that `write_struct` fills."""
        self.emit(f"{name} = new(*{self._arguments(layout.struct)})")

    def write_struct(self, layout: Layout, name: str) -> None:
        """Read the fields of an object; a run may be left open at the end."""
        for field in [*layout.absent, *(slot.field for slot in layout.tagged)]:
            self._write_default(field, f"{name}.{field.name}")
        self.emit(f"{name}.unknown_tags = None")
        for slot in layout.plain:
            self._write_slot(slot, f"{name}.{slot.field.name}")
        if layout.is_flexible:
            self._write_tags(layout, name)

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
            self.emit(f"{target} = {name} = new(*{self._arguments(field.struct)})")
            for inner in field.struct.fields:
                self._write_default(inner, f"{name}.{inner.name}")
            self.emit(f"{name}.unknown_tags = None")

    def _arguments(self, struct: type) -> str:
        """The arguments of `object.__new__`, as the tuple that it would have to make of them."""
        return self.constant(f"of_{struct.__name__}", _arguments_of(struct))

    def _write_tags(self, layout: Layout, name: str) -> None:
        """Read the tagged fields, which hold their defaults so far."""
        count = self.new_name("t")
        self._add("B", 1, count)
        self.flush()
        with self.block(f"if {count}:"):
            if layout.tagged:
                self._write_tag_loop(layout, name, count)
            else:
                arguments = f"b, p - 1, {self._limit}, left"
                self.emit(f"{name}.unknown_tags, p, left = read_unknown_tags({arguments})")

    def _write_tag_loop(self, layout: Layout, name: str, count: str) -> None:
        tag, stop, unknown = self.new_name("tag"), self.new_name("z"), self.new_name("u")
        with self.block(f"if {count} > 127:"):
            self.emit(f"{count}, p = uvarint(b, p - 1)")
        self.emit(f"{unknown} = {{}}")
        self.emit(f"{tag} = -1")
        with self.block(f"for _ in repeat(None, {count}):"):
            self.emit(f"{tag}, {stop}, p = read_tag(b, p, {self._limit}, {tag})")
            keyword, outer, self._limit = "if", self._limit, stop
            for slot in layout.tagged:
                with self.block(f"{keyword} {tag} == {slot.field.tag}:"):
                    self._write_slot(slot, f"{name}.{slot.field.name}")
                    self.flush()
                keyword = "elif"
            self._limit = outer
            with self.block("else:"):
                self._spend("1")
                self.emit(f"{unknown}[{tag}] = bytes(b[p:{stop}])")
                self.emit(f"p = {stop}")
            with self.block(f"if p != {stop}:"):
                self.emit("raise Malformed")
        self.emit(f"{name}.unknown_tags = {unknown} or None")

    # Values

    def _write_slot(self, slot: Slot, target: str) -> None:
        if slot.field.is_array:
            self._write_array(slot, target)
        elif slot.layout is not None:
            self._write_nested(slot, slot.layout, target)
        else:
            self._write_primitive(slot, target, slot.is_nullable)

    def _write_nested(self, slot: Slot, layout: Layout, target: str) -> None:
        if not slot.is_nullable:
            self._write_present(layout, target)
            return
        present = self.new_name("k")
        self._add("b", 1, present)
        self.flush()
        # The mark is an int8, -1 for null; in a tagged field a varint, 0 for null.
        with self.block(f"if {present} <= 0:" if slot.is_tagged else f"if {present} < 0:"):
            self.emit(f"{target} = None")
        with self.block("else:"):
            self._write_present(layout, target)
            self.flush()

    def _write_present(self, layout: Layout, target: str) -> None:
        if id(layout) in self.repeated:
            self.flush()
            self._call_elements(layout, f"({target},)", "1")
            return
        name = self.new_name("o")
        self.make_object(layout, name)
        self.emit(f"{target} = {name}")
        self.write_struct(layout, name)

    def _write_primitive(self, slot: Slot, target: str, is_nullable: bool) -> None:
        primitive = slot.field.primitive
        assert primitive is not None
        if primitive in FIXED_CODES:
            self._add(*FIXED_CODES[primitive], target)
        elif primitive is Primitive.UUID:
            name = self.new_name("x")
            self._add("16s", 16, name)
            self._after_run.append(
                f"{target} = ZERO if {name} == ZERO else new_bytes(Uuid, {name})"
            )
        else:
            self._write_sized(primitive, slot.is_compact, target, is_nullable)

    def _write_sized(
        self, primitive: Primitive, is_compact: bool, target: str, is_nullable: bool
    ) -> None:
        """A string, bytes or records: a length and so many bytes."""
        size, stop = self.new_name("n"), self.new_name("q")
        is_string = primitive is Primitive.STRING
        if is_compact:
            if is_string:
                self._uvarint(size, "string_size")
            else:
                self._uvarint_of_two_bytes(size)
            is_there, sum_ = size, f"p + {size} - 1"
        else:
            self._add(*(("h", 2) if is_string else ("i", 4)), size)
            self.flush()
            is_there, sum_ = f"{size} >= 0", f"p + {size}"
        with self.block(f"if {is_there}:"):
            self.emit(f"{stop} = {sum_}")
            self.emit(f"{target} = {self._values[primitive].format(stop=stop)}")
            self.emit(f"p = {stop}")
        self._write_null(target, is_nullable, "" if is_compact else f"{size} == -1")

    def _write_null(self, target: str, is_nullable: bool, condition: str) -> None:
        """The branches for what is not there: null if `condition` holds, or an error."""
        if is_nullable:
            with self.block(f"elif {condition}:" if condition else "else:"):
                self.emit(f"{target} = None")
        if not is_nullable or condition:
            with self.block("else:"):
                self.emit("raise Malformed")

    def _write_array(self, slot: Slot, target: str) -> None:
        count = self.new_name("n")
        if slot.is_compact:
            self._uvarint(count)
            with self.block(f"if {count} > 1:"):
                self.emit(f"{count} -= 1")
                self._write_elements(slot, target, count)
            empty, null = f"elif {count}:", ""
        else:
            self._add("i", 4, count)
            self.flush()
            with self.block(f"if {count} > 0:"):
                self._write_elements(slot, target, count)
            empty, null = f"elif not {count}:", f"{count} == -1"
        with self.block(empty):
            self.emit(f"{target} = []")
        self._write_null(target, slot.is_nullable, null)

    def _spend(self, count: str) -> None:
        """Take `count` elements from what the message may have in all."""
        if self._is_bounded:
            self.emit(f"left -= {count}")
            with self.block("if left < 0:"):
                self.emit("raise TooMany(p)")

    def _write_elements(self, slot: Slot, target: str, count: str) -> None:
        with self.block(f"if {count} * {slot.element_min_size} > {self._limit} - p:"):
            self.emit("raise Malformed")
        self._spend(count)
        primitive = slot.field.primitive
        if slot.layout is not None:
            self._write_structs(slot.layout, target, count)
        elif primitive in FIXED_CODES:
            code, size = FIXED_CODES[primitive]
            methods = self.constant(
                f"unpack_many_{code.replace('?', 'z')}", array_methods("", code, "unpack_from")
            )
            with self.block(f"if {count} < {SMALL_COUNT}:"):
                self.emit(f"{target} = [*{methods}[{count}](b, p)]")
            with self.block("else:"):
                self.emit(f'{target} = [*unpack(f">{{{count}}}{code}", b, p)]')
            self.emit(f"p += {count} * {size}" if size > 1 else f"p += {count}")
        elif primitive is Primitive.UUID:
            self.emit(f"{target} = read_uuids(b, p, {count})")
            self.emit(f"p += {count} * 16")
        else:
            items, element = self.new_name("l"), self.new_name("o")
            self.emit(f"{target} = {items} = []")
            with self.block(f"for _ in repeat(None, {count}):"):
                self._write_primitive(slot, element, False)
                self.emit(f"{items}.append({element})")

    def _write_structs(self, layout: Layout, target: str, count: str) -> None:
        if id(layout) in self.repeated:
            self._call_elements(layout, target, count)
        else:
            self._write_new_structs(layout, target, count)

    def _call_elements(self, layout: Layout, target: str, count: str) -> None:
        """Read `count` structs by a function that other places share."""

        def write() -> None:
            outer, self._limit = self._limit, "end"
            self._write_new_structs(layout, "items", "count")
            self.emit("return items, p, left")
            self._limit = outer

        name = self.function(layout, "b, v, p, end, left, count", write)
        self.emit(f"{target}, p, left = {name}(b, v, p, {self._limit}, left, {count})")

    def _write_new_structs(self, layout: Layout, target: str, count: str) -> None:
        if _is_fixed(layout):
            self._write_fixed_structs(layout, target, count)
        else:
            self._write_struct_loop(layout, target, count)

    def _write_struct_loop(self, layout: Layout, target: str, count: str) -> None:
        """Elements one by one. `filterfalse` keeps the object that `append` puts into the list."""
        items, element = self.new_name("l"), self.new_name("o")
        arguments = self._arguments(layout.struct)
        few = f"[*starmap(new, repeat({arguments}, {count}))] if {count} <= {MADE_AT_ONCE} else []"
        self.emit(f"{target} = {items} = [new(*{arguments})] if {count} == 1 else {few}")
        made = f"filterfalse({items}.append, starmap(new, repeat({arguments}, {count})))"
        with self.block(f"for {element} in {items} or {made}:"):
            self.write_struct(layout, element)
            self.flush()

    def _write_fixed_structs(self, layout: Layout, target: str, count: str) -> None:
        """Elements of one size: all of them in one go, unless some element has tagged fields."""
        slots, size = layout.plain, layout.min_size
        codes = "".join(_code(slot) for slot in slots)
        stop, element = self.new_name("q"), self.new_name("o")
        self.emit(f"{stop} = p + {count} * {size}")
        uneven = f"{count} < {FEW_ELEMENTS}"
        if layout.is_flexible:
            codes += "B"
            uneven += f" or any(b[p + {size - 1}:{stop}:{size}])"
        with self.block(f"if {uneven}:"):
            self._write_struct_loop(layout, target, count)
        with self.block("else:"):
            self._write_even_structs(layout, target, count, codes, (stop, element))

    def _write_even_structs(
        self, layout: Layout, target: str, count: str, codes: str, names: tuple[str, str]
    ) -> None:
        stop, element = names
        items, arguments = self.new_name("l"), self._arguments(layout.struct)
        unpack = self.packer("iter", codes, "iter_unpack")
        targets = [f"{element}.{slot.field.name}" for slot in layout.plain]
        if layout.is_flexible:
            targets.append("_")
        values = f"({', '.join(targets)},)"
        self.emit(f"{target} = {items} = [*starmap(new, repeat({arguments}, {count}))]")
        with self.block(f"for {element}, {values} in zip({items}, {unpack}(b[p:{stop}])):"):
            for field in [*layout.absent, *(slot.field for slot in layout.tagged)]:
                self._write_default(field, f"{element}.{field.name}")
            self.emit(f"{element}.unknown_tags = None")
        self.emit(f"p = {stop}")


@cache
def _arguments_of(struct: type) -> tuple[type]:
    return (struct,)


def _code(slot: Slot) -> str:
    assert slot.field.primitive is not None
    return FIXED_CODES[slot.field.primitive][0]


def _is_fixed(layout: Layout) -> bool:
    """Whether all instances without tagged fields have one size, and are only numbers."""
    return bool(layout.plain) and all(
        slot.field.primitive in FIXED_CODES and not slot.field.is_array for slot in layout.plain
    )
