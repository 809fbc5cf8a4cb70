"""Writes the source of an encoder: one straight-line function per message and version.

The function appends pieces to a list that the caller joins. Neighbouring fields of fixed size are
packed by one `struct` call, together with the one-byte length or tag count behind them, or with the
short array of numbers there. Records are appended uncopied; when the caller wants to hand them on
as they are, their places are noted.

Names in the source: `o` the message, `out` the pieces and `w` its append, `cuts` the places of
records in `out`, `n1`, `s2`, ... locals. Encoders check what would be written wrongly without
complaint (classes, uuid sizes, fields the version lacks); the rest fails by itself, in `struct`
for numbers out of range and with AttributeError or TypeError for values of the wrong type.
"""

from __future__ import annotations

import struct
from typing import Any

from fencepost.wire import runtime
from fencepost.wire.emitter import SMALL_COUNT, Emitter, array_methods, repeated_layouts
from fencepost.wire.layout import Layout, Slot
from fencepost.wire.schema import MISSING, Field, records_size
from fencepost.wire.types import FIXED_CODES, MAX_STRING_BYTES, Primitive, Uuid

_ENVIRONMENT: dict[str, Any] = {
    "Malformed": runtime.Malformed,
    "uvarint": runtime.uvarint,
    "utf8": str.encode,
    "same_float": runtime.same_float,
    "SMALL": runtime.SMALL_UVARINTS,
    "BOOL": runtime.BOOL_BYTE,
    "as_bytes": runtime.as_bytes,
    "as_uuid": runtime.as_uuid,
    "as_sequence": runtime.as_sequence,
    "join_uuids": runtime.join_uuids,
    "records_parts": runtime.records_parts,
    "records_size": records_size,
    "tagged_section": runtime.tagged_section,
    "pack": struct.pack,
    "Uuid": Uuid,
}


def encoder_source(layout: Layout, *, notes_cuts: bool) -> tuple[str, dict[str, Any]]:
    """Source of `encode(o, out, cuts)` and the globals it needs.

    `notes_cuts`: the places of records in `out` go into `cuts`, and every one is a flat view.
    """
    writer = _EncodeWriter(layout, notes_cuts)
    writer.emit("w = out.append")
    writer.write_struct(layout, "o")
    writer.flush()
    return writer.source("def encode(o, out, cuts):"), writer.environment


class _EncodeWriter(Emitter):
    def __init__(self, layout: Layout, notes_cuts: bool) -> None:
        super().__init__(dict(_ENVIRONMENT), repeated_layouts(layout))
        self._notes_cuts = notes_cuts
        # The list that pieces go to, and its append: others inside of tagged fields.
        self._out, self._append = "out", "w"
        # The run of fixed-size fields not yet written: formats and the expressions for them.
        self._codes = ""
        self._values: list[str] = []

    # Runs of fixed-size fields

    def _add(self, code: str, value: str) -> None:
        self._codes += code
        self._values.append(value)

    def flush(self) -> None:
        """Write the run collected so far."""
        if self._codes:
            self._emit_run(self._codes, self._values)
        self._codes, self._values = "", []

    def _emit_run(self, codes: str, values: list[str]) -> None:
        if codes == "B" and values == ["0"]:
            self.emit(f"{self._append}({self.constant('ZERO_BYTE', ZERO_BYTE)})")
            return
        pack = self.packer("pack", codes, "pack")
        self.emit(f"{self._append}({pack}({', '.join(values)}))")

    def _uvarint(
        self, name: str, *, largest: int | None = None, is_often_long: bool = False
    ) -> None:
        """End the run with the varint in variable `name`, which has a limit where one is given.

        `is_often_long`: two bytes are as likely as one.
        """
        with self.block(f"if {name} < 128:"):
            if self._codes:
                self._emit_run(self._codes + "B", [*self._values, name])
            else:
                self.emit(f"{self._append}(SMALL[{name}])")
        if is_often_long:
            with self.block(f"elif {name} < 16384:"):
                halves = [f"{name} & 127 | 128", f"{name} >> 7"]
                self._emit_run(self._codes + "BB", [*self._values, *halves])
        with self.block("else:"):
            if largest is not None:
                with self.block(f"if {name} > {largest}:"):
                    self.emit("raise Malformed")
            self.flush()
            self.emit(f"{self._append}(uvarint({name}))")
        self._codes, self._values = "", []

    # Structs

    def write_struct(self, layout: Layout, name: str) -> None:
        """Write the fields of the object in `name`; a run may be left open at the end."""
        cls = self.constant(layout.struct.__name__, layout.struct)
        with self.block(f"if type({name}) is not {cls}:"):
            self.emit("raise Malformed")
        self._refuse_absent(layout, name)
        for slot in layout.plain:
            self._write_slot(slot, f"{name}.{slot.field.name}")
        if layout.is_flexible:
            self._write_tags(layout, name)

    def _refuse_absent(self, layout: Layout, name: str) -> None:
        conditions = [
            self._differs(field, f"{name}.{field.name}")
            for field in layout.absent
            if not field.ignorable
        ]
        if not layout.is_flexible:
            conditions.append(f"{name}.unknown_tags")
        if conditions:
            with self.block(f"if {' or '.join(conditions)}:"):
                self.emit("raise Malformed")

    def _differs(self, field: Field, value: str) -> str:
        """An expression: is `value` anything but the default of `field`?"""
        if field.default is None:
            return f"{value} is not None"
        if field.is_array or field.primitive is Primitive.BYTES:
            return f"{value} is None or len({value}) != 0"
        if field.primitive is Primitive.RECORDS:
            return f"{value} is None or records_size({value}) != 0"
        if field.struct is not None:
            name = self.new_name("y")
            inner = [self._differs(part, f"{name}.{part.name}") for part in field.struct.fields]
            differs = f"{name}.unknown_tags or {' or '.join(inner)}"
            return f"(({name} := {value}) is None or {differs})"
        if field.primitive is Primitive.FLOAT64:
            default = self.constant(f"default_{field.name}", field.default)
            return f"not same_float({value}, {default})"
        if field.default is not MISSING and type(field.default) in (int, bool, str):
            return f"{value} != {field.default!r}"
        return f"{value} != {self.constant(f'default_{field.name}', field.default)}"

    def _write_tags(self, layout: Layout, name: str) -> None:
        are_set = [self._differs(slot.field, f"{name}.{slot.field.name}") for slot in layout.tagged]
        run = (self._codes, self._values)
        with self.block(f"if {' or '.join([f'{name}.unknown_tags', *are_set])}:"):
            self.flush()
            self._write_tag_values(layout, name)
        self._codes, self._values = run
        with self.block("else:"):
            self._add("B", "0")
            self.flush()

    def _write_tag_values(self, layout: Layout, name: str) -> None:
        known, pieces = self.new_name("d"), self.new_name("out")
        outer_out, outer = self._out, self._append
        self.emit(f"{known} = {{}}")
        for slot in layout.tagged:
            value = f"{name}.{slot.field.name}"
            with self.block(f"if {self._differs(slot.field, value)}:"):
                self._out, self._append = pieces, self.new_name("w")
                self.emit(f"{pieces} = []")
                self.emit(f"{self._append} = {pieces}.append")
                self._write_slot(slot, value)
                self.flush()
                self.emit(f'{known}[{slot.field.tag}] = b"".join({pieces})')
                self._out, self._append = outer_out, outer
        declared = frozenset(slot.field.tag for slot in layout.tagged)
        self.emit(
            f"{outer}(tagged_section({known}, {name}.unknown_tags, "
            f"{self.constant(f'declared_{layout.struct.__name__}', declared)}))"
        )

    # Values

    def _write_slot(self, slot: Slot, value: str) -> None:
        if slot.field.is_array:
            self._write_array(slot, value)
        elif slot.layout is not None:
            self._write_nested(slot, slot.layout, value)
        else:
            self._write_primitive(slot, value, slot.is_nullable)

    def _write_nested(self, slot: Slot, layout: Layout, value: str) -> None:
        name = self.new_name("o")
        self.emit(f"{name} = {value}")
        if not slot.is_nullable:
            self._write_present(layout, name)
            return
        self.flush()
        with self.block(f"if {name} is None:"):
            null = self.constant("NULL_IN_TAG", NULL_IN_TAG) if slot.is_tagged else None
            self.emit(f"{self._append}({null or self.constant('NULL_BYTE', NULL_BYTE)})")
        with self.block("else:"):
            self._add("b", "1")
            self._write_present(layout, name)
            self.flush()

    def _write_present(self, layout: Layout, name: str) -> None:
        if self._is_shared(layout):
            self.flush()
            self._call_elements(layout, f"({name},)")
        else:
            self.write_struct(layout, name)

    def _write_primitive(self, slot: Slot, value: str, is_nullable: bool) -> None:
        primitive = slot.field.primitive
        assert primitive is not None
        if primitive is Primitive.BOOL:
            self._add("b", f"BOOL[{value}]")
        elif primitive in FIXED_CODES:
            self._add(FIXED_CODES[primitive][0], value)
        elif primitive is Primitive.UUID:
            name = self.new_name("x")
            self.emit(f"{name} = {value}")
            with self.block(f"if type({name}) is not Uuid:"):
                self.emit(f"{name} = as_uuid({name})")
            self._add("16s", name)
        else:
            self._write_sized(slot, value, is_nullable)

    def _write_sized(self, slot: Slot, value: str, is_nullable: bool) -> None:
        """A string, bytes or records: a length and so many bytes."""
        size, data = self.new_name("n"), self.new_name("s")
        is_records = slot.field.primitive is Primitive.RECORDS
        self.emit(f"{data} = {value}")
        if not is_nullable:
            self._measure(slot, size, data)
        else:
            with self.block(f"if {data} is None:"):
                self.emit(f"{size} = {0 if slot.is_compact else -1}")
                self.emit(f"{data} = " + ("()" if is_records else 'b""'))
            with self.block("else:"):
                self._measure(slot, size, data)
        if slot.is_compact:
            if slot.field.primitive is Primitive.STRING:
                self._uvarint(size, largest=MAX_STRING_BYTES + 1)
            else:
                self._uvarint(size, is_often_long=True)
        else:
            self._add("h" if slot.field.primitive is Primitive.STRING else "i", size)
            self.flush()
        if not is_records:
            self.emit(f"{self._append}({data})")
        elif self._notes_cuts and self._out == "out":
            part = self.new_name("r")
            with self.block(f"for {part} in {data}:"):
                self.emit("cuts.append(len(out))")
                self.emit(f"{self._append}({part})")
        else:
            self.emit(f"{self._out} += {data}")

    def _measure(self, slot: Slot, size: str, data: str) -> None:
        """Turn the value in `data` into bytes (records: parts) and put its length into `size`."""
        plus_one = " + 1" if slot.is_compact else ""
        if slot.field.primitive is Primitive.RECORDS:
            self._measure_records(size, data, plus_one)
            return
        if slot.field.primitive is Primitive.STRING:
            self.emit(f"{data} = utf8({data})")  # of a str, also when derived and overridden
        else:
            with self.block(f"if type({data}) is not bytes:"):
                self.emit(f"{data} = as_bytes({data})")
        self.emit(f"{size} = len({data}){plus_one}")

    def _measure_records(self, size: str, data: str, plus_one: str) -> None:
        with self.block(f"if type({data}) is bytes:"):
            self.emit(f"{size} = len({data}){plus_one}")
            self.emit(f"{data} = ({data},)")
        if not self._notes_cuts:  # whatever its format, it is joined to the rest as it is
            with self.block(f"elif type({data}) is memoryview and {data}.c_contiguous:"):
                self.emit(f"{size} = {data}.nbytes{plus_one}")
                self.emit(f"{data} = ({data},)")
        with self.block("else:"):
            self.emit(f"{size}, {data} = records_parts({data})")
            if plus_one:
                self.emit(f"{size} += 1")

    def _write_array(self, slot: Slot, value: str) -> None:
        items = self.new_name("l")
        self.emit(f"{items} = {value}")
        if not slot.is_nullable:
            self._write_elements(slot, items)
            return
        self.flush()
        with self.block(f"if {items} is None:"):
            null = ("ZERO_BYTE", ZERO_BYTE) if slot.is_compact else ("NULL_COUNT", NULL_COUNT)
            self.emit(f"{self._append}({self.constant(*null)})")
        with self.block("else:"):
            self._write_elements(slot, items)

    def _write_elements(self, slot: Slot, items: str) -> None:
        with self.block(f"if type({items}) is not list:"):
            self.emit(f"{items} = as_sequence({items})")
        primitive = slot.field.primitive
        if primitive in FIXED_CODES and primitive is not Primitive.BOOL:
            self._write_numbers(FIXED_CODES[primitive][0], items, slot.is_compact)
            return
        seen, count = self.new_name("l"), self.new_name("n")
        self.emit(f"{seen} = {items}[:]")  # writing an element may run code that changes the list
        plus_one = " + 1" if slot.is_compact else ""
        self.emit(f"{count} = len({seen}){plus_one}")
        if slot.is_compact:
            self._uvarint(count)
        else:
            self._add("i", count)
            self.flush()
        if primitive is Primitive.UUID:
            self.emit(f"{self._append}(join_uuids({seen}))")
        elif slot.layout is not None:
            self._write_structs(slot.layout, seen)
        else:
            element = self.new_name("o")
            with self.block(f"for {element} in {seen}:"):
                self._write_primitive(slot, element, False)
                self.flush()
        self._refuse_changed(items, f"{count}", plus_one)

    def _refuse_changed(self, items: str, count: str, plus_one: str) -> None:
        with self.block(f"if len({items}){plus_one} != {count}:"):
            self.emit("raise Malformed")

    def _write_structs(self, layout: Layout, items: str) -> None:
        if self._is_shared(layout):
            self._call_elements(layout, items)
        else:
            self._write_struct_loop(layout, items)

    def _is_shared(self, layout: Layout) -> bool:
        return id(layout) in self.repeated and not layout.has_records

    def _call_elements(self, layout: Layout, items: str) -> None:
        """Write structs by a function that other places share."""

        def write() -> None:
            outer, self._out, self._append = (self._out, self._append), "out", "w"
            self.emit("w = out.append")
            self._write_struct_loop(layout, "items")
            self._out, self._append = outer

        name = self.function(layout, "items, out", write)
        self.emit(f"{name}({items}, {self._out})")

    def _write_struct_loop(self, layout: Layout, items: str) -> None:
        element = self.new_name("o")
        with self.block(f"for {element} in {items}:"):
            self.write_struct(layout, element)
            self.flush()

    def _write_numbers(self, code: str, items: str, is_compact: bool) -> None:
        """The run, count and numbers of an array in one call, where the array is short."""
        count = self.new_name("n")
        prefix, plus_one = ("B", " + 1") if is_compact else ("i", "")
        codes = self._codes + prefix
        methods = self.constant(f"pack_{codes}_many_{code}", array_methods(codes, code, "pack"))
        self.emit(f"{count} = len({items})")
        few = f"if {count} < {SMALL_COUNT}:"
        if is_compact and not self._codes:
            with self.block(f"if not {count}:"):
                self.emit(f"{self._append}({self.constant('NO_ELEMENTS', NO_ELEMENTS)})")
            few = f"el{few}"
        with self.block(few):
            values = ", ".join([*self._values, f"{count}{plus_one}", f"*{items}"])
            self.emit(f"{self._append}({methods}[{count}]({values}))")
        with self.block("else:"):
            self.flush()
            head = f"uvarint({count} + 1)" if is_compact else f'pack(">i", {count})'
            self.emit(f"{self._append}({head})")
            self.emit(f'{self._append}(pack(f">{{{count}}}{code}", *{items}))')
        self._refuse_changed(items, count, "")


ZERO_BYTE = b"\x00"
NO_ELEMENTS = b"\x01"
NULL_BYTE = b"\xff"
NULL_IN_TAG = b"\0"
NULL_COUNT = b"\xff\xff\xff\xff"
