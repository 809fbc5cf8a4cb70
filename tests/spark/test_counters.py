"""Counters of queries from their reports, and as Prometheus text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fencepost.arrow.loss import Loss
from fencepost.arrow.offsets import Position
from fencepost.client.metadata import TopicPartition
from fencepost.spark.counters import QUERIES_MAX, Counters
from fencepost.spark.lag import PartitionLag
from fencepost.spark.progress import Progress, read_progress
from fencepost.spark.prometheus import prometheus_text


def report(
    batch: int,
    start: dict[str, dict[str, int]] | None,
    end: dict[str, dict[str, int]],
    rows: int = 0,
    written: int = -1,
    **more: Any,
) -> dict[str, Any]:
    """A report as Spark's own connector makes it."""
    return {
        "id": "a1", "runId": "r1", "name": "copy", "batchId": batch,
        "sources": [{"startOffset": start, "endOffset": end, "numInputRows": rows}],
        "sink": {"description": "x", "numOutputRows": written},
        **more,
    }  # fmt: skip


def progress(*arguments: Any, **more: Any) -> Progress:
    return read_progress(json.loads(json.dumps(report(*arguments, **more))))


def samples(counters: Counters) -> dict[str, float]:
    text = prometheus_text((), counters.copies()).decode()
    return {
        f"{one.name.removeprefix('fencepost_spark_')} {' '.join(one.labels.values())}": one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if one.name.endswith("_total")
    }


def test_batches_add_up():
    counters = Counters()
    query = counters.of("copy")
    query.add(progress(0, None, {"t": {"0": 5}}, rows=5))  # where it began is not known
    query.add(progress(1, {"t": {"0": 5}}, {"t": {"0": 15, "1": 7}}, rows=9, written=9))
    query.add(progress(2, {"t": {"0": 15, "1": 7}, "u": {"0": 1}},
                       {"t": {"0": 15, "1": 8}, "u": {"0": 4}}, rows=4, written=3))  # fmt: skip
    assert samples(counters) == {
        "offsets_read_total copy 0 t": 11,
        "offsets_read_total copy 0 u": 3,
        "rows_read_total copy 0": 18,
        "rows_written_total copy": 12,
    }


def test_a_batch_that_is_reported_again_counts_once():
    counters = Counters()
    batch = progress(4, {"t": {"0": 0}}, {"t": {"0": 10}}, rows=10)
    for _ in range(2):
        counters.of("copy").add(batch)
    assert counters.of("copy").rows_read[0] == 10
    assert counters.of("copy").rows_written is None
    # From another checkpoint it begins with batch 0, and the count goes on.
    fresh = progress(0, {"t": {"0": 0}}, {"t": {"0": 10}}, rows=10, id="b2")
    counters.of("copy").add(fresh)
    assert counters.of("copy").rows_read[0] == 20


def test_offsets_that_fall_count_nothing():
    counters = Counters()
    counters.of("copy").add(progress(1, {"t": {"0": 50}}, {"t": {"0": 10}}))
    assert samples(counters)["offsets_read_total copy 0 t"] == 0


def lag(loss: Loss | None) -> PartitionLag:
    return PartitionLag(TopicPartition("t", 0), Position(5), loss=loss)


def test_a_loss_counts_when_it_is_new():
    where = TopicPartition("t", 0)
    first, other = (Loss("deleted", where, 0, end, "x") for end in (5, 9))
    counters = Counters()
    for one in (None, first, first, other, None, other):
        counters.of("copy").look(0, lag(one))
    assert samples(counters) == {"losses_total 0 copy 0 t": 3}


def test_queries_are_bounded_and_read_as_they_were():
    counters = Counters()
    for number in range(QUERIES_MAX + 5):
        counters.of(f"q{number}").add(progress(1, {"t": {"0": 0}}, {"t": {"0": 1}}, rows=1))
    copies = counters.copies()
    assert (len(copies), copies[0].query) == (QUERIES_MAX, "q5")
    counters.of("q5").rows_read[0] += 100
    assert copies[0].rows_read[0] == 1


@pytest.mark.parametrize("sink", [None, {}, {"numOutputRows": None}, {"numOutputRows": -1}])
def test_sinks_that_do_not_say_how_much_they_took(sink: Any):
    assert progress(1, None, {"t": {"0": 1}}, sink=sink).rows_written is None
