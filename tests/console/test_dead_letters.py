"""Origins of dead letters, by the headers of those who write them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, strategies as st

from fencepost.console.records.dead_letters import PREFIXES, Origin, origin_of

CONNECT = [
    ("__connect.errors.topic", b"orders"),
    ("__connect.errors.partition", b"3"),
    ("__connect.errors.offset", b"17"),
    ("__connect.errors.exception.message", b"no JSON"),
]
SPRING = [
    ("kafka_dlt-original-topic", b"orders"),
    ("kafka_dlt-original-partition", struct.pack(">i", 3)),
    ("kafka_dlt-original-offset", struct.pack(">q", 17)),
    ("kafka_dlt-exception-message", b"no JSON"),
]
SHARE = [(name.replace("connect", "dlq"), value) for name, value in CONNECT[:3]]


@pytest.mark.parametrize(
    ("headers", "convention", "reason"),
    [
        (CONNECT, "Connect", "no JSON"),
        (SPRING, "Spring", "no JSON"),
        (SHARE, "share group", None),
        ([("kafka_dlt-original-partition", b"3"), *SPRING[:1], *SPRING[2:3]], "Spring", None),
    ],
)
def test_each_convention_is_read(headers, convention: str, reason: str | None):
    assert origin_of(headers) == Origin("orders", 3, 17, convention, reason)


def test_of_a_letter_of_a_letter_the_last_origin_counts():
    again = [*CONNECT, ("__connect.errors.topic", b"letters"), ("__connect.errors.offset", b"1")]
    found = origin_of(again)
    assert found is not None and found.text == "letters-3 at 1"


@pytest.mark.parametrize(
    "change",
    [
        ("__connect.errors.topic", b"../../x"),
        ("__connect.errors.topic", b"<b>"),
        ("__connect.errors.topic", b""),
        ("__connect.errors.partition", b"-1"),
        ("__connect.errors.partition", b"3000000000"),
        ("__connect.errors.offset", b"99999999999999999999"),
        ("__connect.errors.offset", b"\xff" * 8),
        ("__connect.errors.offset", b"1e3"),
    ],
)
def test_what_cannot_be_is_no_origin(change: tuple[str, bytes]):
    assert origin_of([*CONNECT, change]) is None


NAMES = st.sampled_from([f"{one}{part}" for one, _ in PREFIXES for part in ("topic", "offset")])


@given(st.lists(st.tuples(NAMES | st.text(max_size=5), st.none() | st.binary(max_size=9))))
def test_any_headers_are_an_origin_or_none(headers):
    origin_of(headers)
