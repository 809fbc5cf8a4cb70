"""Which records are printed, and as which JSON."""

from __future__ import annotations

from fencepost.batch.records import Record
from fencepost.cli.record_printer import json_record
from fencepost.client.metadata import TopicPartition

WHERE = TopicPartition("orders", 3)
RECORD = Record(7, 1_700_000_000_000, 0, b"k", b"v\xff", (("h", b"x"), ("n", None), ("h", b"")))


def test_json_says_whose_clock_the_timestamp_is_of():
    assert json_record(WHERE, RECORD)["timestamp_type"] == "create"
    assert json_record(WHERE, RECORD._replace(timestamp_type=1))["timestamp_type"] == "append"


def test_bytes_that_are_no_text_are_shown_in_hex():
    from fencepost.batch.records import Record

    shown = json_record(TopicPartition("t", 0), Record(0, 1, 1, b"\xff\x00", b"ok", ()))
    assert (shown["key"], shown["value"]) == ({"hex": "ff00"}, "ok")
    assert shown["timestamp_type"] == "append"
