"""What a message class does, whatever it holds: construction, rules of encoding and decoding."""

from __future__ import annotations

import contextlib
import copy
import math
import pickle
from typing import Any

import pytest

from fencepost.wire.errors import DecodeError, EncodeError, UnsupportedVersionError
from fencepost.wire.layout import NESTED_STRUCTS_MAX
from fencepost.wire.message import PLAINLY_MADE_MAX, Message, Struct, VersionRange, field
from fencepost.wire.types import Int8, Int32, String, Uuid

from . import interpreter
from .samples import Arrays, Leaf, ManyTags, Point, Precise, Primitives, Sample

# Construction


def test_defaults_are_fresh_and_keyword_only() -> None:
    first, second = Sample(), Sample()
    assert first.points == []
    assert first.points is not second.points
    assert first.early == Leaf()
    assert first.early is not second.early
    assert (first.label, first.numbers, first.late, first.content) == ("", None, "none", None)
    assert first.unknown_tags is None
    with pytest.raises(TypeError):
        Sample(3)  # type: ignore[misc,arg-type]
    with pytest.raises(TypeError):
        Sample(nothing=3)  # type: ignore[call-arg]


def test_slots_keep_typing_errors_out() -> None:
    sample = Sample()
    with pytest.raises(AttributeError):
        sample.labels = "x"  # type: ignore[attr-defined]
    assert not hasattr(sample, "__dict__")


def test_equality_and_repr_show_what_was_set() -> None:
    assert Sample(small=1) == Sample(small=1)
    assert Sample(small=1) != Sample(small=2)
    assert Sample() != Primitives()
    assert Sample(unknown_tags={}) == Sample()
    assert Sample(unknown_tags={9: b""}) != Sample()
    shown = Sample(points=[Point(x=1)], label=None, content=memoryview(bytes(100)))
    assert repr(shown) == "Sample(points=[Point(x=1)], label=None, content=<100 bytes>)"
    with pytest.raises(TypeError):
        hash(Sample())


def test_messages_can_be_copied_and_pickled() -> None:
    sample = Sample(points=[Point(x=1)], unknown_tags={9: b"x"})
    assert copy.deepcopy(sample) == sample
    assert pickle.loads(pickle.dumps(sample)) == sample


# Declarations


def test_fields_know_what_was_declared() -> None:
    by_name = {entry.name: entry for entry in Sample.fields}
    assert list(by_name)[:3] == ["small", "port", "points"]
    points, label, late = by_name["points"], by_name["label"], by_name["late"]
    assert (points.type, points.struct, points.is_array) == ("[]Point", Point, True)
    assert (label.kafka_name, label.type) == ("Label", "string")
    assert label.nullable == VersionRange(1, None)
    assert (late.tag, str(late.tagged), str(late.versions)) == (4, "3+", "3+")
    assert by_name["numbers"].nullable == by_name["numbers"].versions
    assert Point.fields[0].doc == "Left to right."


def test_class_arguments() -> None:
    assert (Sample.min_version, Sample.max_version, Sample.flexible_from) == (0, 3, 2)
    assert (Sample.kind, Sample.api_key, Sample.record_id) == ("data", None, None)
    assert [Sample.is_flexible(version) for version in range(4)] == [False, False, True, True]
    assert Sample.kafka_name == "Sample"


def declare(annotation: Any, **options: Any) -> None:
    namespace = {"__module__": __name__, "__annotations__": {"odd": annotation}}
    cls = type(Struct)("Odd", (Struct,), {**namespace, "odd": field(**options)})
    assert cls.fields


@pytest.mark.parametrize(
    ("annotation", "options"),
    [
        (int, {}),
        (str, {}),
        ("list[Int32 | None]", {}),
        ("Int32 | String", {}),
        ("Int32 | None", {}),
        ("String", {"nullable": "1+"}),
        ("String", {"default": None}),
        ("list[Int32]", {"default": [1]}),
        ("String", {"versions": "one"}),
    ],
)
def test_nonsense_declarations_are_refused(annotation: Any, options: Any) -> None:
    with pytest.raises(TypeError, match=r"Odd\.odd"):
        declare(annotation, **options)


def test_field_without_annotation_and_tag_used_twice() -> None:
    namespace = {"__module__": __name__, "odd": field()}
    with pytest.raises(TypeError, match="no annotation"):
        type(Struct)("Odd", (Struct,), {**namespace, "__annotations__": {}}).fields  # noqa: B018
    twice = {"one": field(tag=0), "two": field(tag=0), "__module__": __name__}
    with pytest.raises(TypeError, match="twice"):
        type(Struct)(  # noqa: B018
            "Odd", (Struct,), {**twice, "__annotations__": {"one": "Int8", "two": "Int8"}}
        ).fields


@pytest.mark.parametrize(
    "arguments",
    [{"versions": "0+"}, {"versions": "3-1"}, {"flexible": "0-1", "versions": "0-2"}, {"no": 1}],
)
def test_nonsense_class_arguments_are_refused(arguments: Any) -> None:
    with pytest.raises(TypeError):
        type(Message)("Odd", (Message,), {"__module__": __name__}, **arguments)


def test_version_ranges() -> None:
    assert [str(VersionRange.parse(text)) for text in ("3", "3+", "3-7", "none")] == [
        "3",
        "3+",
        "3-7",
        "none",
    ]
    assert VersionRange.parse("3-7").holds(7)
    assert not VersionRange.parse("3-7").holds(8)
    assert not VersionRange.parse("none").holds(0)


# Encoding


@pytest.mark.usefixtures("on_backend")
class TestEncoding:
    def test_known_bytes(self) -> None:
        sample = Sample(small=-2, points=[Point(x=1, y=2)], label="é")
        assert sample.encode(0) == bytes.fromhex("fe 00000001 00000001 0002c3a9")
        assert sample.encode(1) == bytes.fromhex(
            "fe 0000 00000001 0000000100000002 0002c3a9 ffffffff 00000000"
        )
        assert sample.encode(2) == bytes.fromhex(
            "fe 0000 02 000000010000000200 03c3a9 00 01 01 00 00"
        )
        assert sample.encode(3) == bytes.fromhex(
            "fe 0000 02 000000010000000200 03c3a9 00 01 ff 01 00 00"
        )

    def test_tagged_fields_go_out_by_tag_and_only_when_set(self) -> None:
        sample = Sample(late="x", early=Leaf(weight=5), middle=[7])
        tail = bytes.fromhex(
            "03"  # three tagged fields: 1 early, 2 middle, 4 late
            "01 0c 01 01 00 08 0000000000000005"
            "02 03 02 0007"
            "04 02 02 78"
        )
        assert sample.encode(3).endswith(tail)
        assert Sample(middle=[]).encode(2).endswith(bytes.fromhex("01 02 01 01"))
        assert Sample(early=Leaf(name="")).encode(2).endswith(b"\x00")

    @pytest.mark.parametrize("size", [0, 1, 100, 126, 127, 128, 200, 20_000])
    def test_tagged_values_at_every_place_of_the_buffer(self, size: int) -> None:
        # The C backend writes into 1024 bytes of stack first and finds sizes of tags afterwards.
        for before in [*range(1024 - size - 30, 1024), 1500, 4000]:
            if before < 0:
                continue
            sample = Sample(blob=bytes(before), late="y" * size, early=Leaf(name="z" * size))
            encoded = sample.encode(3)
            assert encoded == interpreter.write_message(sample, 3)
            assert Sample.decode(encoded, 3) == sample

    def test_unknown_tags_are_merged_in_order(self) -> None:
        sample = Sample(middle=[], unknown_tags={300: b"z", 0: b"a", 3: memoryview(b"m")})
        encoded = sample.encode(2)
        assert encoded.endswith(bytes.fromhex("04 00 01 61 02 01 01 03 01 6d ac02 01 7a"))
        assert Sample.decode(encoded, 2).unknown_tags == {0: b"a", 3: b"m", 300: b"z"}

    def test_nullable_struct(self) -> None:
        # 01 marks the struct as present; its last byte counts its tags.
        assert bytes.fromhex("01 02 61 00") in Sample(leaf=Leaf(name="a")).encode(3)
        assert Sample.decode(Sample(leaf=None).encode(3), 3).leaf is None

    def test_values_a_version_cannot_carry(self) -> None:
        refused = [{"numbers": [1]}, {"leaf": Leaf()}, {"blob": b"x"}, {"middle": []}]
        for values in refused:
            (name,) = values
            with pytest.raises(EncodeError, match="cannot be set in version 0") as caught:
                Sample(**values).encode(0)
            assert caught.value.path == name
        with pytest.raises(EncodeError, match=r"early: .* version 1"):
            Sample(early=Leaf(weight=1)).encode(1)
        with pytest.raises(EncodeError, match="late"):
            Sample(late="").encode(2)
        with pytest.raises(EncodeError, match="unknown_tags"):
            Sample(unknown_tags={9: b""}).encode(1)
        Sample(unknown_tags={}).encode(1)
        Sample(numbers=None, blob=b"", late="none").encode(0)

    def test_ignorable_values_are_dropped(self) -> None:
        sample = Sample(port=9, names=["x"], points=[Point(x=1, y=7)])
        assert sample.encode(0) == Sample(points=[Point(x=1)]).encode(0)

    @pytest.mark.parametrize(
        ("values", "path"),
        [
            ({"small": 128}, "small"),
            ({"small": "1"}, "small"),
            ({"small": None}, "small"),
            ({"small": 1.0}, "small"),
            ({"port": -1}, "port"),
            ({"points": None}, "points"),
            ({"points": 3}, "points"),
            ({"points": "abc"}, "points"),
            ({"points": {}}, "points"),
            ({"points": [Point(), Leaf()]}, "points[1]"),
            ({"points": [Point(), Point(y=1 << 31)]}, "points[1].y"),
            ({"label": b"x"}, "label"),
            ({"label": "\ud800"}, "label"),
            ({"label": "x" * 32768}, "label"),
            ({"numbers": [1, 1 << 40]}, "numbers[1]"),
            ({"numbers": ["x"]}, "numbers[0]"),
            ({"names": [None]}, "names[0]"),
            ({"names": ["a", 3]}, "names[1]"),
            ({"leaf": Point()}, "leaf"),
            ({"leaf": Leaf(weight="x")}, "leaf.weight"),  # type: ignore[arg-type]
            ({"blob": None}, "blob"),
            ({"blob": "x"}, "blob"),
            ({"blob": 3}, "blob"),
            ({"content": 3}, "content"),
            ({"content": [b"x", "y"]}, "content[1]"),
            ({"early": None}, "early"),
            ({"early": Point(x=1)}, "early"),
            ({"middle": [1 << 15]}, "middle[0]"),
            ({"late": None}, "late"),
            ({"unknown_tags": {1: b""}}, "unknown_tags"),
            ({"unknown_tags": {-1: b""}}, "unknown_tags"),
            ({"unknown_tags": {1 << 32: b""}}, "unknown_tags"),
            ({"unknown_tags": {"x": b""}}, "unknown_tags"),
            ({"unknown_tags": {9: "x"}}, "unknown_tags"),
            ({"unknown_tags": [9]}, "unknown_tags"),
        ],
    )
    def test_values_that_do_not_fit(self, values: Any, path: str) -> None:
        with pytest.raises(EncodeError) as caught:
            Sample(**values).encode(3)
        assert caught.value.path == path
        assert str(caught.value).startswith(f"{path}: ")

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("int8", -129),
            ("int16", 1 << 15),
            ("int32", 1 << 31),
            ("int64", 1 << 63),
            ("int64", -(1 << 63) - 1),
            ("uint16", 1 << 16),
            ("uint32", 1 << 32),
            ("uint32", -1),
            ("float64", "x"),
            ("float64", 1 << 2000),
            ("boolean", None),
            ("boolean", "true"),
            ("boolean", 2),
            ("uuid", None),
            ("uuid", b"short"),
            ("uuid", b"seventeen letters"),
            ("uuid", "sixteen letters!"),
            ("string", None),
            ("data", ["x"]),
        ],
    )
    @pytest.mark.parametrize("version", [0, 1])
    def test_primitives_that_do_not_fit(self, version: int, name: str, value: Any) -> None:
        with pytest.raises(EncodeError) as caught:
            Primitives(**{name: value}).encode(version)
        assert caught.value.path == name

    def test_strings_end_at_32767_bytes_in_both_forms(self) -> None:
        longest = "x" * 32767
        for version in (0, 1):
            encoded = Primitives(string=longest).encode(version)
            assert Primitives.decode(encoded, version).string == longest
            with pytest.raises(EncodeError, match="32768"):
                Primitives(string=longest + "x").encode(version)

    @pytest.mark.parametrize("name", ["label", "late", "blob", "unknown_tags"])
    def test_field_that_was_deleted(self, name: str) -> None:
        for version in (0, 3):
            sample = Sample()
            delattr(sample, name)
            with pytest.raises(EncodeError, match=f"{name}: was never set"):
                sample.encode(version)

    def test_list_that_shrinks_while_it_is_written(self) -> None:
        numbers: list[Any] = []

        class Shrinking:
            def __index__(self) -> int:
                numbers.clear()
                return 1

        numbers.extend([Shrinking(), 2, 3])
        with contextlib.suppress(EncodeError):  # a copy was written, or it was noticed
            encoded = Sample(numbers=numbers).encode(3)
            assert Sample.decode(encoded, 3).numbers == [1, 2, 3]

    def test_tuples_and_buffers_are_as_good_as_lists_and_bytes(self) -> None:
        plain = Sample(points=[Point(x=1)], numbers=[1, 2], names=["a"], blob=b"b", content=b"cd")
        other: Any = Sample(
            points=(Point(x=1),),  # type: ignore[arg-type]
            numbers=(1, 2),  # type: ignore[arg-type]
            names=("a",),  # type: ignore[arg-type]
            blob=bytearray(b"b"),  # type: ignore[arg-type]
            content=(b"c", bytearray(), memoryview(b"d")),
        )
        assert other.encode(3) == plain.encode(3)

    def test_parts_hand_records_on_uncopied(self) -> None:
        first, second = bytearray(b"first"), memoryview(b"second")
        sample = Sample(content=[first, second], late="x")
        parts = sample.encode_parts(3)
        assert b"".join(parts) == sample.encode(3)
        assert any(type(part) is memoryview and part.obj is first for part in parts)
        assert any(part is second for part in parts)
        assert len(parts) == 4
        assert Sample(small=1).encode_parts(0) == [Sample(small=1).encode(0)]

    def test_records_come_in_any_buffer(self) -> None:
        content = bytes(range(16))
        shapes = [
            bytearray(content),
            memoryview(content).cast("I"),
            memoryview(content).cast("B", (4, 4)),
            memoryview(bytes(byte for byte in content for _ in range(2)))[::2],
        ]
        plain = Sample(content=content)
        for version in (2, 3):
            for shape in [*shapes, [], [shapes[1], shapes[3]]]:
                sample = Sample(content=shape)
                if isinstance(shape, list):
                    plain.content = content * len(shape)
                assert sample.encode(version) == plain.encode(version)
                assert b"".join(sample.encode_parts(version)) == plain.encode(version)
            plain.content = content

    def test_released_records_are_refused(self) -> None:
        released = memoryview(bytes(16))
        released.release()
        for write in (Sample(content=released).encode, Sample(content=[released]).encode_parts):
            with pytest.raises(EncodeError, match="content"):
                write(2)

    def test_versions_that_never_were(self) -> None:
        for version in (-1, 4, "1", None):
            with pytest.raises(UnsupportedVersionError, match="Sample has no version"):
                Sample().encode(version)  # type: ignore[arg-type]
            with pytest.raises(UnsupportedVersionError):
                Sample.decode(b"", version)  # type: ignore[arg-type]


# Decoding


@pytest.mark.usefixtures("on_backend")
class TestDecoding:
    def test_absent_fields_get_fresh_defaults(self) -> None:
        data = Sample(small=1).encode(0)
        first, second = Sample.decode(data, 0), Sample.decode(data, 0)
        assert first == Sample(small=1)
        assert first.early is not second.early
        assert first.names is not second.names
        again = Sample.decode(Sample().encode(2), 2), Sample.decode(Sample().encode(2), 2)
        assert again[0].early is not again[1].early

    def test_types_of_values(self) -> None:
        sample = Primitives(
            uuid=Uuid(bytes(range(16))), boolean=True, data=b"d", records=b"r", float64=0.5
        )
        for version in (0, 1):
            got = Primitives.decode(sample.encode(version), version)
            assert type(got.uuid) is Uuid
            assert got.boolean is True
            assert type(got.data) is bytes
            assert type(got.records) is memoryview
            assert type(got.float64) is float
            assert got == sample
        assert Primitives.decode(Primitives().encode(0), 0).uuid == Uuid.ZERO

    def test_arrays_of_everything(self) -> None:
        arrays = Arrays(
            int8s=[-128, 127],
            int64s=[1 << 62],
            uuids=[Uuid.ZERO, Uuid(bytes(range(16)))],
            booleans=[True, False],
            blobs=[b"", b"x"],
            leaves=[Leaf(name="l")],
        )
        for version in (0, 1):
            got = Arrays.decode(arrays.encode(version), version)
            assert got == arrays
            assert all(type(value) is Uuid for value in got.uuids)
            assert got.booleans == [True, False]

    @pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 6, 31, 32, 127, 128, 4096, 4097, 20_000])
    @pytest.mark.parametrize("version", range(4))
    def test_arrays_of_any_length(self, count: int, version: int) -> None:
        sample = Sample(points=[Point(x=index) for index in range(count)])
        if version:
            sample.numbers = list(range(-count, 0))
            sample.names = ["n"] * count
        assert Sample.decode(sample.encode(version), version) == sample
        if version >= 2 and count:
            sample.points[count // 2].unknown_tags = {3: b"odd one out"}
            assert Sample.decode(sample.encode(version), version) == sample

    def test_records_are_views_of_the_input(self) -> None:
        encoded = bytearray(Sample(content=b"0123456789").encode(2))
        for data in (encoded, memoryview(encoded)):
            got = Sample.decode(data, 2)
            assert not got.content.readonly
            got.content[0] = ord("X")
            assert b"X123456789" in encoded
            got.content[0] = ord("0")
        assert Sample.decode(bytes(encoded), 2).content.readonly

    def test_large_input_is_not_copied(self) -> None:
        encoded = bytearray(Sample(content=bytes(1 << 17), label="ü", blob=b"b").encode(2))
        got = Sample.decode(encoded, 2)
        got.content[0] = 1
        assert encoded.count(1) > 0
        assert (got.label, got.blob) == ("ü", b"b")

    def test_any_flat_or_shaped_buffer(self) -> None:
        encoded = Sample(small=5, label="abc").encode(1)
        padded = encoded + bytes(-len(encoded) % 4)
        wide = memoryview(padded).cast("I")
        assert Sample.read(wide, 0, 1) == (Sample(small=5, label="abc"), len(encoded))
        holder = Sample(content=b"abcdefgh", blob=b"1").encode(2)
        for code in "bc?":
            got = Sample.decode(memoryview(holder).cast(code), 2).content
            assert isinstance(got, memoryview)
            assert (got.format, bytes(got)) == ("B", b"abcdefgh")
        shaped = memoryview(holder).cast("B", (1, len(holder)))
        got = Sample.decode(shaped, 2).content
        assert isinstance(got, memoryview)
        assert (got.shape, bytes(got)) == ((8,), b"abcdefgh")
        wide = memoryview(holder + bytes(-len(holder) % 2)).cast("H")
        got = Sample.read(wide, 0, 2)[0].content
        assert isinstance(got, memoryview)
        assert (got.format, len(got), bytes(got)) == ("B", 8, b"abcdefgh")
        doubled = bytes(byte for byte in encoded for _ in range(2))
        assert Sample.decode(memoryview(doubled)[::2], 1) == Sample(small=5, label="abc")
        with pytest.raises(TypeError):
            Sample.decode("text", 1)  # type: ignore[arg-type]

    def test_read_leaves_the_rest_alone(self) -> None:
        encoded = Sample(small=3).encode(2)
        sample, end = Sample.read(b"ab" + encoded + b"cd", 2, 2)
        assert (sample.small, end) == (3, 2 + len(encoded))
        with pytest.raises(DecodeError, match="2 bytes left over"):
            Sample.decode(encoded + b"cd", 2)
        with pytest.raises(ValueError, match="negative"):
            Sample.read(encoded, -1, 2)
        with pytest.raises(DecodeError):
            Sample.read(encoded, len(encoded) + 5, 2)

    @pytest.mark.parametrize(
        ("version", "hexadecimal", "path", "position", "reason"),
        [
            (0, "", "small", 0, "takes 1 bytes, 0 are left"),
            (0, "01 00000001", "points", 1, "1 elements of 4 bytes or more"),
            (0, "01 ffffffff", "points", 1, "null"),
            (0, "01 fffffffe", "points", 1, "negative"),
            (0, "01 7fffffff 00000000", "points", 1, "2147483647 elements"),
            (0, "01 00000000 ffff", "label", 5, "null"),
            (0, "01 00000000 00", "label", 5, "takes 2 bytes, 1 are left"),
            (0, "01 000000", "points", 1, "takes 4 bytes, 3 are left"),
            (1, "01 0000 00000000 fffe", "label", 7, "negative"),
            (1, "01 0000 00000000 fffe 00000000 00000000", "label", 7, "negative"),
            (1, "01 0000 00000000 0000 fffffffe 00000000", "numbers", 9, "negative"),
            (1, "01 0000 00000000 0001ff", "label", 7, "UTF-8"),
            (1, "01 0000 00000000 0005 61", "label", 7, "takes 5 bytes, 1 are left"),
            (1, "01 0000 00000000 0000 ffffffff 00000001 0003 61", "names[0]", 17, "3 bytes"),
            (2, "01 0000 00", "points", 3, "null"),
            (2, "01 0000 ffffffff10", "points", 3, "varint"),
            (2, "01 0000 808080808000", "points", 3, "varint"),
            (2, "01 0000 02 0000000100000001 80", "points[0].unknown_tags", 12, "varint"),
            (2, "01 0000 01 818002", "label", 4, "at most 32767"),
            (2, "01 0000 01 01 00 01 01 00 01 01 01 00", "early.name", 12, "null"),
            (2, "01 0000 01 01 00 01 01 00 01 01 03 01 00", "early", 10, "left"),
            (2, "01 0000 01 01 00 01 01 00 01 01 03 01 00 00", "early", 10, "says 3 bytes"),
            (2, "01 0000 01 01 00 01 01 00 02 09 00 09 00", "unknown_tags", 12, "tag 9 comes"),
            (2, "01 0000 01 01 00 01 01 00 02 09 00 03 00", "unknown_tags", 12, "tag 3 comes"),
            (2, "01 0000 01 01 00 01 01 00 01 09 05 00", "unknown_tags", 10, "tag 9 takes 5"),
            (2, "01 0000 01 01 00 01 01 00 01 09 01", "unknown_tags", 10, "tag 9 takes 1"),
            (2, "01 0000 01 01 00 01 01 00 01 01 01", "early", 10, "1"),
            (3, "01 0000 01 01 00 01 01 01", "leaf.unknown_tags", 9, "varint"),
            (3, "01 0000 01 01 00 01 01", "leaf.name", 8, "varint"),
        ],
    )
    def test_errors_name_field_and_place(
        self, version: int, hexadecimal: str, path: str, position: int, reason: str
    ) -> None:
        data = bytes.fromhex(hexadecimal)
        for source in (data, bytearray(data), memoryview(data)):
            with pytest.raises(DecodeError, match=reason) as caught:
                Sample.decode(source, version)
            assert (caught.value.path, caught.value.position) == (path, position)
        with pytest.raises(DecodeError) as caught:
            Sample.read(b"\x00\x00" + data, 2, version)
        assert caught.value.position == position + 2

    def test_varints_may_be_padded_as_kafka_allows(self) -> None:
        assert Sample.decode(bytes.fromhex("01 0000 8100 01 00 01 01 00 00"), 2) == Sample(small=1)

    @pytest.mark.parametrize(
        ("varint", "tag"),
        [("ffffffff0f", 2**32 - 1), ("808080800f", 15 << 28), ("ffffffff07", 2**31 - 1)],
    )
    def test_a_varint_has_up_to_32_bits(self, varint: str, tag: int) -> None:
        data = bytes.fromhex(f"01 0000 01 01 00 01 01 00 01 {varint} 00")
        got = Sample.decode(data, 2)
        assert got.unknown_tags == {tag: b""}
        assert got.encode(2) == data

    @pytest.mark.parametrize(
        "varint", ["ffffffff10", "808080801f", "808080807f", "808080808f00", "808080808000"]
    )
    def test_a_varint_of_more_than_32_bits_is_refused(self, varint: str) -> None:
        data = bytes.fromhex(f"01 0000 01 01 00 01 01 00 01 {varint} 00")
        with pytest.raises(DecodeError, match="varint") as caught:
            Sample.decode(data, 2)
        assert (caught.value.path, caught.value.position) == ("unknown_tags", 10)

    def test_a_compact_string_has_at_most_32767_bytes_also_where_all_are_there(self) -> None:
        rest = bytes.fromhex("00 01 01 00 00")
        longest = bytes.fromhex("01 0000 01 808002") + b"a" * 32767 + rest
        assert Sample.decode(longest, 2) == Sample(small=1, label="a" * 32767)
        longer = bytes.fromhex("01 0000 01 818002") + b"a" * 32768 + rest
        with pytest.raises(DecodeError, match="at most 32767") as caught:
            Sample.decode(longer, 2)
        assert (caught.value.path, caught.value.position) == ("label", 4)

    @pytest.mark.parametrize("marker", ["80", "81", "fe", "ff"])
    def test_any_negative_byte_in_place_of_a_struct_is_null(self, marker: str) -> None:
        data = bytes.fromhex(f"01 0000 01 01 00 01 {marker} 01 00 00")
        assert Sample.decode(data, 3) == Sample(small=1, leaf=None)

    @pytest.mark.parametrize("marker", ["00", "01", "7f"])
    def test_any_other_byte_before_a_struct_says_that_it_is_there(self, marker: str) -> None:
        data = bytes.fromhex(f"01 0000 01 01 00 01 {marker} 02 61 00 01 00 00")
        assert Sample.decode(data, 3) == Sample(small=1, leaf=Leaf(name="a"))

    def test_bools_other_than_one_are_true(self) -> None:
        encoded = bytearray(Primitives().encode(0))
        encoded[29] = 0xFF
        assert Primitives.decode(encoded, 0).boolean is True

    def test_tags_declared_later_are_unknown_now(self) -> None:
        newer = Sample(late="x").encode(3)
        as_older = newer[:7] + newer[8:]  # without the nullable leaf, which version 2 lacks
        got = Sample.decode(as_older, 2)
        assert got.unknown_tags == {4: b"\x02x"}
        assert got.encode(2) == as_older


def test_tracebacks_show_generated_source() -> None:
    import linecache

    from .catalogue import CODECS, codec

    assert "python" in CODECS
    codec("python", Sample, 3).encode(Sample())
    text = "".join(linecache.getlines(f"<{Sample.__module__}.Sample v3 encode>"))
    assert "def encode(o, out, cuts):" in text


class Borrower(Message, kind="data", versions="0"):
    """Its annotations are resolved here, those of `Point` in the module of samples."""

    point: Point = field()
    extra: Int8 = field()
    text: String = field()
    number: Int32 = field()


def test_annotations_are_resolved_in_the_module_of_their_class() -> None:
    assert Borrower.fields[0].struct is Point
    assert Borrower(point=Point(x=1)).encode(0) == b"\0\0\0\1" + b"\0" + b"\0\0" + b"\0\0\0\0"


# Classes that cannot work are refused when they are made, or first used


@pytest.mark.parametrize(
    "name",
    ["kind", "fields", "self", "encode", "unknown_tags", "min_version", "mro", "class", "A", "_x"],
)
def test_names_that_fields_cannot_have(name: str) -> None:
    namespace = {"__module__": __name__, "__annotations__": {name: "Int8"}, name: field()}
    with pytest.raises(TypeError, match=f"Odd.{name}: "):
        type(Message)("Odd", (Message,), namespace, kind="data", versions="0")


def test_names_of_fields_do_not_meet_those_of_the_constructor() -> None:
    class Twins(Struct):
        leaf: Leaf = field()
        struct_leaf: Int8 = field()
        default_struct_leaf: Int8 = field(default=3)

    assert Twins(struct_leaf=1, default_struct_leaf=2).leaf == Leaf()
    assert Twins().default_struct_leaf == 3


@pytest.mark.parametrize("tag", [-1, 1 << 32, True, "1"])
def test_tags_that_there_are_not(tag: Any) -> None:
    with pytest.raises(TypeError, match=r"Odd\.odd: a tag is a number"):
        declare("Int8", tag=tag)


def test_classes_with_fields_are_final() -> None:
    with pytest.raises(TypeError, match="Sequel is derived from Sample, but structs are final"):
        type(Sample)("Sequel", (Sample,), {"__module__": __name__}, kind="data")


def chain(depth: int, *, array: bool, tag: int | None) -> Any:
    """A message in which structs nest so deep, itself counted."""
    cls: Any = Leaf
    for level in range(depth - 2, -1, -1):
        message = level == 0
        options: Any = {"kind": "data", "versions": "0", "flexible": "0+"} if message else {}
        base: Any = Message if message else Struct
        namespace = {
            "__module__": __name__,
            "__annotations__": {"inner": list[cls] if array else cls, "number": Int8},
            "inner": field(tag=tag),
            "number": field(),
        }
        cls = type(base)(f"Level{level}", (base,), namespace, **options)
    return cls


@pytest.mark.usefixtures("on_backend")
@pytest.mark.parametrize("array", [True, False])
@pytest.mark.parametrize("tag", [None, 0])
def test_structs_nest_so_deep_and_no_deeper(array: bool, tag: int | None) -> None:
    cls = chain(NESTED_STRUCTS_MAX, array=array, tag=tag)
    value: Any = Leaf(name="deep")
    classes = [cls]
    while classes[-1] is not Leaf:
        classes.append(classes[-1].fields[0].struct)
    for outer in reversed(classes[:-1]):
        value = outer(inner=[value] if array else value, number=1)
    assert cls.decode(value.encode(0), 0) == value
    for depth in (NESTED_STRUCTS_MAX + 1, 150):
        with pytest.raises(TypeError, match="nests structs more than 8 deep"):
            chain(depth, array=array, tag=tag)().encode(0)


class Endless(Struct):
    """A struct that has itself inside."""

    inner: list[Endless] = field()


class Endlessly(Message, kind="data", versions="0"):
    """Its holder."""

    first: Endless = field()


@pytest.mark.usefixtures("on_backend")
def test_structs_inside_of_themselves() -> None:
    with pytest.raises(TypeError, match="nests structs more than 8 deep"):
        Endlessly.decode(b"", 0)


@pytest.mark.usefixtures("on_backend")
@pytest.mark.parametrize("tag", range(40))
def test_each_of_many_tagged_fields_stands_under_its_own_tag(tag: int) -> None:
    message = ManyTags(**{f"tagged{tag}": 5})
    encoded = message.encode(0)
    assert encoded == bytes((1, tag, 1, 5))
    assert ManyTags.decode(encoded, 0) == message


@pytest.mark.usefixtures("on_backend")
@pytest.mark.parametrize("ratio", [math.nextafter(1.0, 2.0), math.nextafter(1.0, 0.0), -1.0])
def test_a_number_next_to_the_default_is_written(ratio: float) -> None:
    assert Precise(ratio=1.0).encode(0) == b"\0"
    encoded = Precise(ratio=ratio).encode(0)
    assert len(encoded) == 1 + 2 + 8
    assert Precise.decode(encoded, 0).ratio == ratio


def test_the_first_objects_of_a_class_are_as_the_later_ones() -> None:
    class Outer(Message, versions="0"):
        leaf: Leaf = field()
        leaves: list[Leaf] = field()
        text: String | None = field(default=None)

    count = 2 * PLAINLY_MADE_MAX
    made = [Outer(text="a", unknown_tags={7: b"x"}) for _ in range(count)]
    assert all(one == made[0] and repr(one) == repr(made[0]) for one in made)
    assert len({id(one.leaf) for one in made} | {id(one.leaves) for one in made}) == 2 * count


def test_a_class_refuses_what_it_has_no_field_for_from_the_first_object_on() -> None:
    class Late(Struct):
        number: Int32 = field(default=-1)

    refusals = set()
    for _ in range(2 * PLAINLY_MADE_MAX):
        with pytest.raises(TypeError, match="unexpected keyword argument 'txt'") as refused:
            Late(txt="a")  # type: ignore[call-arg]
        refusals.add(str(refused.value))
    assert len(refusals) == 1
