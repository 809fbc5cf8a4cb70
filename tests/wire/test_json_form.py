"""The JSON form: nothing is lost on the way there and back, and nothing wrong gets in."""

from __future__ import annotations

import contextlib
import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.wire.errors import UnsupportedVersionError
from fencepost.wire.json_form import JsonFormError, from_json, to_json
from fencepost.wire.message import Message, field
from fencepost.wire.records.group import OffsetCommitValue
from fencepost.wire.types import Float64, Int32, Uuid

from .catalogue import extreme, objects
from .every_version import at_every_version
from .samples import Arrays, Leaf, Point, Primitives, Sample


class Measured(Message, kind="data", versions="0", flexible="none"):
    """A float."""

    value: Float64 = field()


class Strict(Message, kind="data", versions="0-1", flexible="none"):
    """Version 0 cannot say null, which is the default."""

    numbers: list[Int32] | None = field(nullable="1+", default=None)


def through_text(obj: Any) -> Any:
    """What a file or a pipe does to it: strict JSON, no NaN."""
    return json.loads(json.dumps(obj, allow_nan=False))


def assert_same_both_ways(cls: type[Message], version: int, written: Message) -> None:
    data = written.encode(version)
    message = cls.decode(data, version)
    again = from_json(cls, version, through_text(to_json(message, version)))
    assert again == message
    assert again.encode(version) == data
    # A reader that keeps 53 bits of a number: whatever it could change is a string.
    strings = to_json(message, version, int64_as_strings=True)
    narrow = json.loads(json.dumps(strings, allow_nan=False), parse_int=lambda s: int(float(s)))
    assert from_json(cls, version, narrow).encode(version) == data


@at_every_version
def test_extremes_survive(cls: type[Message], version: int) -> None:
    for most in (False, True):
        message = extreme(cls, version, cls.is_flexible(version), most=most)
        assert_same_both_ways(cls, version, message)


@settings(max_examples=40, deadline=None, database=None)
@given(st.data())
def test_anything_survives(data: st.DataObject) -> None:
    """As drawn objects of all messages do: see `test_codecs_agree.test_random_objects`."""
    version = data.draw(st.integers(Sample.min_version, Sample.max_version))
    written = data.draw(objects(Sample, version, Sample.is_flexible(version)))
    assert_same_both_ways(Sample, version, written)


def test_what_it_looks_like():
    message = Sample(
        small=-3,
        points=[Point(x=1, y=2)],
        label=None,
        numbers=[5],
        blob=b"\x00\xff",
        content=[b"ab", memoryview(b"c")],
        early=Leaf(name="l", weight=7, unknown_tags={3: b"\x01"}),
        unknown_tags={70000: b"", 9: b"x"},
    )
    obj = to_json(message, 2)
    assert obj["small"] == -3 and obj["points"] == [{"x": 1, "y": 2}] and obj["label"] is None
    assert obj["blob"] == "AP8=" and obj["content"] == "YWJj"
    assert obj["early"] == {"name": "l", "weight": 7, "_unknown_tags": {"3": "AQ=="}}
    assert list(obj["_unknown_tags"].items()) == [("9", "eA=="), ("70000", "")]
    assert "leaf" not in obj and "late" not in obj  # fields of version 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
        (struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0], "NaN:fff8000000000001"),
        (-0.0, -0.0),
        (5e-324, 5e-324),
    ],
)
def test_floats_keep_their_bits(value: float, text: Any):
    message = Measured(value=value)
    obj = through_text(to_json(message, 0))
    assert repr(obj["value"]) == repr(text)
    assert from_json(Measured, 0, obj).encode(0) == message.encode(0)


@pytest.mark.parametrize(
    ("obj", "error"),
    [
        ([], "an object is needed, not an array"),
        ({"smal": 1}, "smal: no field of Sample"),
        ({"late": "x"}, "late: version 2 has no such field"),
        ({"small": 128}, "small: 128 does not fit into int8"),
        ({"small": True}, "small: a whole number is needed, not true or false"),
        ({"small": 1.0}, "small: a whole number is needed, not a number"),
        ({"small": None}, "small: null is not allowed"),
        ({"port": -1}, "port: -1 does not fit into uint16"),
        ({"label": 1}, "label: a string is needed, not a number"),
        ({"label": "\ud800"}, "label: half a surrogate pair is no text"),
        ({"label": "ä" * 20000}, "label: takes 40000 bytes, at most 32767"),
        ({"points": {}}, "points: an array is needed, not an object"),
        ({"points": [{}, {"x": "1"}]}, "points[1].x: a whole number is needed, not a string"),
        ({"points": [None]}, "points[0]: an object is needed, not null"),
        ({"blob": "AP8"}, "blob: not base64"),
        ({"blob": "A P8="}, "blob: not base64"),
        ({"blob": [0]}, "blob: a base64 string is needed, not an array"),
        ({"early": {"_unknown_tags": {"0": ""}}}, "early._unknown_tags: tag 0 is the field weight"),
        ({"_unknown_tags": []}, "_unknown_tags: an object is needed, not an array"),
        ({"_unknown_tags": {"-1": ""}}, "_unknown_tags: '-1' is no tag"),
        ({"_unknown_tags": {"07": ""}}, "_unknown_tags: '07' is no tag"),
        ({"_unknown_tags": {"4294967296": ""}}, "_unknown_tags: '4294967296' is no tag"),
        ({"_unknown_tags": {"9": 1}}, "_unknown_tags.9: a base64 string is needed, not a number"),
    ],
)
def test_what_is_refused(obj: Any, error: str):
    with pytest.raises(JsonFormError) as caught:
        from_json(Sample, 2, obj)
    assert str(caught.value).startswith(error)


@pytest.mark.parametrize("value", [0, -1, 2**53 + 1, 2**63 - 1, -(2**63)])
def test_int64_as_strings(value: int):
    message = OffsetCommitValue(offset=value)
    obj = to_json(message, 0, int64_as_strings=True)
    assert obj["offset"] == str(value)
    assert from_json(OffsetCommitValue, 0, obj) == message
    assert to_json(message, 0)["offset"] == value
    small = to_json(Sample(small=1), 2, int64_as_strings=True)
    assert small["small"] == 1  # only what is wider than a float64 can be


@pytest.mark.parametrize(
    "text", ["", "1.0", "1e3", "01", "-0", "+1", " 1", "1_0", "٣", "9" * 19, "9" * 9999]
)
def test_what_is_no_int64(text: str):
    with pytest.raises(JsonFormError, match=r"^offset: "):
        from_json(OffsetCommitValue, 0, {"offset": text})


def test_only_int64_can_be_a_string():
    with pytest.raises(JsonFormError, match="small: a whole number is needed, not a string"):
        from_json(Sample, 2, {"small": "1"})


@pytest.mark.parametrize("value", ["nan", "NaN:", "NaN:3ff0000000000000", True, None, [], 10**400])
def test_what_is_no_float(value: Any):
    with pytest.raises(JsonFormError, match=r"^value: "):
        from_json(Measured, 0, {"value": value})


@pytest.mark.parametrize("value", ["", "A" * 21, "A" * 23, "!" * 22, 5, None])
def test_what_is_no_uuid(value: Any):
    from fencepost.wire.records.metadata import TopicRecord

    with pytest.raises(JsonFormError, match=r"^topic_id: "):
        from_json(TopicRecord, 0, {"topic_id": value})


def test_missing_fields_have_their_defaults():
    assert from_json(Sample, 3, {}) == Sample()
    assert from_json(Strict, 1, {}) == Strict(numbers=None)
    with pytest.raises(JsonFormError, match="numbers: missing, and without a default here"):
        from_json(Strict, 0, {})


def test_tags_only_where_the_version_has_them():
    with pytest.raises(JsonFormError, match="_unknown_tags: version 1 has no tags"):
        from_json(Sample, 1, {"_unknown_tags": {}})
    with pytest.raises(JsonFormError, match="_unknown_tags: a version without tags"):
        to_json(Sample(unknown_tags={9: b""}), 1)


def test_what_no_encoder_would_write_is_refused_here_too():
    for message, path in [
        (Sample(blob=b"x"), "blob: version 1 has no such field"),
        (Sample(small=1000), "small: 1000 does not fit"),
        (Sample(points=[Leaf()]), r"points\[0\]: not a Point"),
        (Sample(label=5), "label: a string is needed"),
        (Sample(names=None), "names: null is not allowed"),
    ]:
        with pytest.raises(JsonFormError, match=path):
            to_json(message, 1)
    to_json(Sample(early=Leaf(weight=-1), names=["ignorable"]), 0)


@pytest.mark.parametrize("version", [-1, 4])
def test_versions_that_never_were(version: int):
    with pytest.raises(UnsupportedVersionError):
        to_json(Sample(), version)
    with pytest.raises(UnsupportedVersionError):
        from_json(Sample, version, {})


def test_uuids_are_kafkas_text():
    from fencepost.wire.records.metadata import TopicRecord

    record = TopicRecord(name="t", topic_id=Uuid(bytes(range(16))))
    assert to_json(record, 0)["topic_id"] == "AAECAwQFBgcICQoLDA0ODw"


# What cannot be encoded has no JSON either, and what JSON has is one spelling of each value


def odd_values() -> list[Any]:
    view = memoryview(bytes(16))
    view.release()
    return [
        view,
        memoryview(bytes(33))[::2],
        b"short",
        10**5000,
        [10**5000],
        {1: b"", "2": b""},
        {10**5000: b""},
        {1: view},
        [b"", None],
        object(),
    ]


@pytest.mark.parametrize("cls", [Sample, Primitives, Arrays, Measured])
def test_nothing_but_json_form_errors(cls: Any):
    version = cls.max_version
    for name in [*(entry.name for entry in cls.fields), "unknown_tags"]:
        for value in odd_values():
            message = cls(**{name: value})
            with contextlib.suppress(JsonFormError):
                json.dumps(to_json(message, version))
            with contextlib.suppress(JsonFormError):
                to_json(message, 0)
        delattr(message, name)
        with pytest.raises(JsonFormError, match=f"^{name}: was never set"):
            to_json(message, version)


def test_bytes_in_any_buffer_have_a_json_form():
    view = memoryview(bytes(range(6)))[::2]
    expected = to_json(Sample(blob=b"\0\2\4", content=b"\0\2\4\0\2\4"), 3)
    assert to_json(Sample(blob=view, content=[view, view]), 3) == expected


def test_tags_that_are_fields_have_no_json_form():
    with pytest.raises(JsonFormError, match="_unknown_tags: tag 4 is the field late"):
        to_json(Sample(unknown_tags={4: b""}), 3)


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 10**23, 1 << 20_000], ids=range(4))
def test_numbers_that_float64_would_round(value: int):
    with pytest.raises(JsonFormError, match=r"^value: "):
        from_json(Measured, 0, {"value": value})
    with pytest.raises(JsonFormError, match=r"^value: "):
        to_json(Measured(value=value), 0)
    assert from_json(Measured, 0, {"value": 2**60}).value == 2.0**60


@pytest.mark.parametrize("value", ["AAAAAAAAAAAAAAAAAAAAAB", "+" * 21 + "A", "/" * 21 + "A"])
def test_other_spellings_of_a_uuid(value: str):
    from fencepost.wire.records.metadata import TopicRecord

    with pytest.raises(JsonFormError, match=r"^topic_id: not a Uuid as it is written"):
        from_json(TopicRecord, 0, {"topic_id": value})


@pytest.mark.parametrize("value", ["AB==", "AAB=", "A", "AA", "AA= =", "A-__"])
def test_other_spellings_of_bytes(value: str):
    with pytest.raises(JsonFormError, match=r"^blob: not base64"):
        from_json(Sample, 3, {"blob": value})
