"""Filters of records: what they mean, where they make no sense, and what they may cost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.batch.header import BatchHeader
from fencepost.batch.records import Record
from fencepost.console.records.cursors import Found
from fencepost.console.records.decoders import Decoder
from fencepost.console.records.filter_subject import Steps, Subject, TooManySteps
from fencepost.console.records.filter_tokens import LENGTH_MAX, PARTS_MAX, FilterError
from fencepost.console.records.filters import DEPTH_MAX, Filter

ORDER = {
    "id": 7,
    "customer": {"name": "ann", "odd name": 1, "vip": True},
    "items": [{"sku": "a"}, {"sku": "b"}],
    "note": None,
    "price": "12.50",
}
HEADER = BatchHeader(0, 100, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)


def found(value: Any = None, key: bytes | None = b"eu-1", **fields: Any) -> Found:
    raw = json.dumps(ORDER if value is None else value).encode()
    values = {"offset": 5, "timestamp_ms": 1_767_322_984_000, "timestamp_type": 0}
    headers = (("source", b"web"), ("source", b"app"), ("null", None), ("a.b", b"1"))
    record = Record(**{**values, "key": key, "value": raw, "headers": headers, **fields})
    return Found(3, record, HEADER, "outside")


def holds(text: str, one: Found | None = None, steps: Steps | None = None) -> bool:
    as_is = Decoder("auto")
    subject = Subject(found() if one is None else one, as_is, as_is, steps or Steps())
    return Filter(text).lets_through(subject)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("offset = 5", True),
        ("offset != 5", False),
        ("offset < 6 and offset <= 5 and offset > 4 and offset >= 5", True),
        ("partition = 3 and not partition = 2", True),
        ("offset = 1 or partition = 3 and offset = 2", False),
        ("(offset = 1 or partition = 3) and offset = 5", True),
        ("not offset = 1 and partition = 3", True),
        ('timestamp >= "2026-01-02T03:03:04Z"', True),
        ('timestamp < "2026-01-02T03:03:04+00:00"', False),
        ("timestamp > 1767322983999", True),
        ('key = "eu-1"', True),
        ("key contains 'eu'", True),
        ('value contains "ann"', True),
        ("value.id = 7", True),
        ("value.id >= 7.5", False),
        ('value.id = "7"', False),
        ("value.price > 12", True),
        ('value.customer.name = "ann"', True),
        ('value.customer."odd name" = 1', True),
        ("value.customer.vip = true", True),
        ("value.customer.vip = 1", False),
        ('value.items.1.sku = "b"', True),
        ("value.items.2.sku = null", True),
        ('value.items contains "sku"', True),
        ("value.note = null", True),
        ("value.absent.deeper = null", True),
        ("value.absent != 3", True),
        ("value.absent < 3", False),
        ('value.id < "8"', False),
        ('header.source = "web"', True),
        ("header.null = null", True),
        ("header.absent = null", True),
        ("header.a.b = 1", True),
        ('key matches "^eu-[0-9]$"', True),
        ("value.absent matches '.*'", False),
        ('value contains "\\u0061nn"', True),
    ],
)
def test_filters_mean_what_they_say(text: str, expected: bool):
    if "matches" in text:
        pytest.importorskip("re2")
    assert holds(text) is expected


def test_null_keys_and_text_that_is_no_json():
    assert holds("key = null", found(key=None))
    plain = found()._replace(record=found().record._replace(value=b"42"))
    assert holds("value = 42 and value < 43 and value != 41", plain)
    assert holds('value = "42"', plain)
    assert not holds("value.id = 42", plain)


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("", 0, "one of offset, partition"),
        ("offset", 6, "one of =, !="),
        ("offset =", 8, "a number, a text in quotes"),
        ("offset = 5 5", 11, "and, or, or the end"),
        ("offset = abc", 9, "not 'abc'"),
        ('key = "abc', 6, "a text without its end"),
        ("offset == 5", 8, "not '='"),
        ("(offset = 5", 11, ") is expected"),
        ("offset = 5)", 10, "and, or, or the end"),
        ("value. = 5", 7, "a name is expected"),
        ("header = 5", 0, "header.NAME"),
        ("offset.x = 5", 0, "is a number and has no parts"),
        ("key contains 5", 13, "a text in quotes"),
        ("secret = 5", 0, "not 'secret'"),
        ('timestamp > "soon"', 12, "ISO 8601"),
        ("__import__('os')", 0, "not '__import__'"),
        ("value.a = 5 ; x", 12, "';' is no part of it"),
        ('value matches "("', 14, "no expression of RE2"),
        ("offset = 5 and", 14, "not the end"),
        ("x" * (LENGTH_MAX + 1), LENGTH_MAX, "at most 2000 characters"),
        ("(" * (DEPTH_MAX + 1), DEPTH_MAX, "nested more than 30"),
        ("not " * (DEPTH_MAX + 1), 4 * DEPTH_MAX, "nested more than 30"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_place(text: str, position: int, reason: str):
    if "matches" in text:
        pytest.importorskip("re2")
    with pytest.raises(FilterError) as told:
        Filter(text)
    assert told.value.position == position
    assert reason in str(told.value)


def test_a_filter_has_so_many_parts():
    Filter(" or ".join(["key=1"] * PARTS_MAX))
    with pytest.raises(FilterError, match="at most 200 parts"):
        Filter(" or ".join(["key=1"] * (PARTS_MAX + 1)))


def test_expressions_take_linear_time():
    pytest.importorskip("re2")
    slow_elsewhere = found(value="a" * 50_000 + "!")
    assert not holds('value matches "(a+)+$"', slow_elsewhere)


def test_evaluation_is_counted():
    steps = Steps(1_000)
    large = found(value="y" * 10_000)
    for _ in range(10):
        assert not holds('value contains "x"', large, steps)
    with pytest.raises(TooManySteps):
        all(not holds('value contains "x"', large, steps) for _ in range(10))
    assert holds("value.0 = null", found(value=[1] * 500_000)), "too long to be read as JSON"


PIECES = st.sampled_from(
    ["offset", "timestamp", "key", "value", "header", ".", "=", "!=", "<", ">=", "contains"]
    + ["matches", "and", "or", "not", "(", ")", "null", "true", "5", "-1", "2.5", "'x'", '"y"']
    + ['"["', "a-b", "0", "\\", "'", '"', ";", "é", "\x00"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=30).map(" ".join) | st.text(max_size=80))
def test_whatever_a_browser_sends_is_a_filter_or_an_error(text: str):
    try:
        made = Filter(text)
    except FilterError as error:
        made, position = None, error.position
    if made is None:
        assert 0 <= position <= len(text)
        return
    as_is = Decoder("auto")
    for one in (found(), found(key=None, value=[1]), found(value="\ud800x")):
        assert made.lets_through(Subject(one, as_is, as_is, Steps())) in (True, False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(JSON, st.sampled_from(("=", "!=", "<", "<=", ">", ">=")), st.integers() | st.none())
def test_any_value_compares_with_any_literal(value: Any, operator: str, literal: int | None):
    shown = "null" if literal is None else str(literal)
    one = found(value={"a": value})
    assert holds(f"value.a {operator} {shown}", one) in (True, False)
    opposite = {"=": "!=", "!=": "="}.get(operator)
    if opposite is not None:
        both = holds(f"value.a {operator} {shown}", one), holds(f"value.a {opposite} {shown}", one)
        assert both[0] != both[1]
