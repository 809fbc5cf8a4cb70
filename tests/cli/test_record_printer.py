"""Records as JSON."""

from __future__ import annotations

from fencepost.cli.record_printer import json_record
from fencepost.client.metadata import TopicPartition


def test_bytes_that_are_no_text_are_shown_in_hex():
    from fencepost.batch.records import Record

    shown = json_record(TopicPartition("t", 0), Record(0, 1, 1, b"\xff\x00", b"ok", ()))
    assert (shown["key"], shown["value"]) == ({"hex": "ff00"}, "ok")
    assert shown["timestamp_type"] == "append"
