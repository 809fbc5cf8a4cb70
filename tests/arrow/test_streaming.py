"""Streams: every record once, positions behind every batch, and what a stream does at losses."""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from typing import Any

import pyarrow as pa
import pytest

import fencepost.arrow
from fencepost.arrow import DataLossError, OffsetError, Stream
from fencepost.arrow.survey import Survey
from fencepost.client.errors import ClientError

from ..client.fake_cluster import FakeCluster
from ..waiting import DEADLINE_S, eventually
from .conftest import Properties
from .test_scanning import (
    LOSSES,
    age_out,
    cut,
    cut_and_grow,
    delete,
    fill,
    open_connections,
    recreate,
    where,
)

WAIT_MS = DEADLINE_S * 1000


def drained(stream: Stream, timeout_ms: float = 0) -> list[tuple[int, int]]:
    """What is there now."""
    found: list[tuple[int, int]] = []
    # The first questions of a new stream say where it starts, and are answered with nothing.
    nothing = 0
    while nothing < 2:
        batch = stream.poll(timeout_ms)
        if batch is None:
            nothing += 1
        else:
            found += where(pa.Table.from_batches([batch]))
    return found


def offsets_in(position: str) -> dict[str, int]:
    told: dict[str, int] = json.loads(position)["t"]
    return told


@pytest.mark.parametrize("seed", range(6))
def test_streams_that_go_on_from_any_position_read_every_record_once(
    fake: FakeCluster, servers: Properties, seed: int
):
    """Logs grow, leaders change and partitions are added while streams come and go."""
    dice = random.Random(seed)
    seen: dict[int, list[int]] = {}
    position = None
    small = {**servers, "max.partition.fetch.bytes": dice.choice([1, 300, 10_000])}
    for _ in range(12):
        for partition in range(len(fake.topics["t"].partitions)):
            fill(fake, dice.randrange(12), partition)
            if dice.random() < 0.3:
                fake.partition("t", partition).elect(dice.choice([1, 2]))
        if dice.random() < 0.2:
            partitions = fake.topics["t"].partitions
            partitions.append(type(partitions[0])(leader=1))
        with fencepost.arrow.stream(
            small,
            topics="t",
            start="earliest",
            position=position,
            max_offsets=dice.choice([1, 5, 500_000]),
        ) as stream:
            for _ in range(dice.randrange(30)):
                batch = stream.poll(0)
                if batch is None:
                    continue
                for partition, offset in where(pa.Table.from_batches([batch])):
                    seen.setdefault(partition, []).append(offset)
                told = offsets_in(stream.position)
                assert {int(p): at for p, at in told.items() if int(p) in seen} == {
                    p: offsets[-1] + 1 for p, offsets in seen.items()
                }
            position = stream.position
    with fencepost.arrow.stream(small, topics="t", position=position) as stream:
        for partition, offset in drained(stream):
            seen.setdefault(partition, []).append(offset)
    logs = fake.topics["t"].partitions
    assert {p: offsets for p, offsets in seen.items() if offsets} == {
        number: list(range(log.end_offset)) for number, log in enumerate(logs) if log.end_offset
    }


def test_a_stream_gives_what_is_new(fake: FakeCluster, servers: Properties):
    fill(fake, 3)
    with fencepost.arrow.stream(servers, topics="t", text=True, columns=["value"]) as stream:
        assert stream.schema == pa.schema([("value", pa.string())])
        assert stream.poll(0) is None
        fill(fake, 1)
        first = stream.poll(WAIT_MS)
        assert first is not None and first.to_pylist() == [{"value": "t-0-3"}]
        threading.Timer(0.1, fill, (fake, 1, 1)).start()
        second = stream.poll(WAIT_MS)
        assert second is not None and second.to_pylist() == [{"value": "t-1-0"}]
        assert stream.poll(0) is None


def test_a_poll_gives_up_in_time(fake: FakeCluster, servers: Properties):
    fill(fake, 3)
    with fencepost.arrow.stream(servers, topics="t") as stream:
        stream.poll(0)
        for timeout_ms in (0, 30, 700):
            begun = time.monotonic()
            assert stream.poll(timeout_ms) is None
            assert time.monotonic() - begun >= timeout_ms / 1000


def test_stop_ends_an_iteration_that_waits(fake: FakeCluster, servers: Properties):
    fill(fake, 3)
    with fencepost.arrow.stream(servers, topics="t", start="earliest") as stream:
        given = []
        for batch in stream:
            given.append(batch.num_rows)
            threading.Timer(0.2, stream.stop).start()
        assert given == [3]
        assert stream.poll(WAIT_MS) is None
        assert offsets_in(stream.position) == {"0": 3, "1": 0}
    with pytest.raises(ValueError, match="the stream is closed"):
        stream.poll(0)
    assert offsets_in(stream.position) == {"0": 3, "1": 0}
    eventually(lambda: open_connections(fake) == 0)


def test_stop_ends_the_planners_pause(
    fake: FakeCluster, servers: Properties, monkeypatch: pytest.MonkeyPatch
):
    """It does not look at the ends again."""
    fill(fake, 3)
    with fencepost.arrow.stream(servers, topics="t") as stream:
        for _ in range(2):
            assert stream.poll(0) is None
        looks = []
        peek = Survey.peek

        def stop_and_peek(survey: Survey) -> Any:
            looks.append(1)
            stream.stop()
            return peek(survey)

        monkeypatch.setattr(Survey, "peek", stop_and_peek)
        assert stream.poll(WAIT_MS) is None
        assert len(looks) == 1


def test_stop_in_the_middle_leaves_the_position_behind_what_was_given(
    fake: FakeCluster, servers: Properties
):
    fill(fake, 9)
    fill(fake, 9, 1)
    slow = {**servers, "max.partition.fetch.bytes": 1}
    with fencepost.arrow.stream(slow, topics="t", start="earliest") as stream:
        for batch in stream:
            if where(pa.Table.from_batches([batch]))[-1] == (0, 4):
                stream.stop()
        position = stream.position
    assert offsets_in(position) == {"0": 5, "1": 0}
    assert json.loads(position)["#fencepost"]["t"] == {
        "epochs": {"0": 0, "1": 0},
        "id": str(fake.topics["t"].topic_id),
    }
    with fencepost.arrow.stream(servers, topics="t", position=position) as stream:
        assert drained(stream) == [(0, n) for n in range(5, 9)] + [(1, n) for n in range(9)]


def test_what_filters_drop_is_behind_the_position_too(fake: FakeCluster, servers: Properties):
    fill(fake, 9)
    filters = [("offset", "<", 2)]
    with fencepost.arrow.stream(servers, topics="t", start="earliest", filters=filters) as stream:
        assert drained(stream) == [(0, 0), (0, 1)]
        assert offsets_in(stream.position) == {"0": 9, "1": 0}
    filters = [("partition", "=", 1)]
    with fencepost.arrow.stream(servers, topics="t", start="earliest", filters=filters) as stream:
        assert drained(stream) == []
        assert offsets_in(stream.position) == {"0": 9, "1": 0}


def test_no_partition_waits_for_all_of_another(fake: FakeCluster, servers: Properties):
    fill(fake, 30)
    fill(fake, 3, 1)
    with fencepost.arrow.stream(servers, topics="t", start="earliest", max_offsets=11) as stream:
        first = drained(stream)
    assert first.index((1, 0)) == 10
    assert sorted(first) == [(0, n) for n in range(30)] + [(1, n) for n in range(3)]


AT_10 = {
    "cut and grown": (cut_and_grow, "rewritten, offsets 6 to 10"),
    "cut": (cut, "truncated, offsets 6 to 10"),
    "recreated": (recreate, "recreated, offsets 10 to the end"),
    "deleted": (delete, "deleted, offsets 10 to the end"),
}


@pytest.mark.parametrize("case", AT_10)
@pytest.mark.parametrize("was_closed", [True, False])
def test_a_position_is_compared_with_the_log(
    fake: FakeCluster, servers: Properties, case: str, was_closed: bool
):
    happen, text = AT_10[case]
    fill(fake, 10)
    with fencepost.arrow.stream(servers, topics="t", start="earliest") as stream:
        assert len(drained(stream)) == 10
        position = stream.position
        if not was_closed:
            happen(fake)
            with pytest.raises(DataLossError, match=f"t-0: {text}"):
                stream.poll(WAIT_MS)
            with pytest.raises(ValueError, match="the stream is closed"):
                stream.poll(0)
            assert stream.position == position
            return
    happen(fake)
    with (
        fencepost.arrow.stream(servers, topics="t", position=position) as stream,
        pytest.raises(DataLossError, match=f"t-0: {text}") as raised,
    ):
        stream.poll(WAIT_MS)
    assert raised.value.condition in LOSSES


def test_with_a_warning_a_stream_goes_on_with_what_is_there(
    fake: FakeCluster, servers: Properties, caplog: pytest.LogCaptureFixture
):
    fill(fake, 10)
    with fencepost.arrow.stream(servers, topics="t", start="earliest") as stream:
        drained(stream)
        position = stream.position
    cut_and_grow(fake)
    with (
        caplog.at_level(logging.WARNING, "fencepost.arrow"),
        fencepost.arrow.stream(
            servers, topics="t", position=position, on_data_loss="warn"
        ) as stream,
    ):
        assert drained(stream) == [(0, n) for n in range(6, 16)]
        assert offsets_in(stream.position) == {"0": 16, "1": 0}
    assert "t-0: rewritten, offsets 6 to 10" in caplog.text


def test_records_that_age_out_in_the_middle_are_lost(fake: FakeCluster, servers: Properties):
    fill(fake, 10)
    slow = {**servers, "max.partition.fetch.bytes": 1}
    with fencepost.arrow.stream(slow, topics="t", start="earliest") as stream:
        assert stream.poll(WAIT_MS) is not None
        age_out(fake)
        with pytest.raises(DataLossError, match=r"t-0: aged out, offsets \d to 5"):
            [stream.poll(WAIT_MS) for _ in range(9)]
        assert offsets_in(stream.position)["0"] < 5


def test_a_position_of_sparks_own_connector_will_do(fake: FakeCluster, servers: Properties):
    """It has no ids and epochs."""
    fill(fake, 10)
    with fencepost.arrow.stream(servers, topics="t", position='{"t":{"0":7,"1":0}}') as stream:
        assert offsets_in(stream.position) == {"0": 7, "1": 0}
        assert drained(stream) == [(0, 7), (0, 8), (0, 9)]


@pytest.mark.parametrize(
    "position",
    [
        "",
        "x",
        "[]",
        "5",
        '{"t":5}',
        '{"t":{"0":-1}}',
        '{"t":{"0":1.5}}',
        '{"t":{"x":1}}',
        '{"t":{"0":99999999999999999999}}',
        '{"#fencepost":5,"t":{"0":1}}',
        '{"#fencepost":{"t":{"epochs":{"0":-5}}},"t":{"0":1}}',
        "[" * 100_000,
        '{"t":{"0":1}',
        b'{"t":{"0":1}}',
        {"t": {"0": 1}},
    ],
    ids=lambda position: str(position)[:40],
)
def test_wrong_positions_are_refused_at_once(servers: Properties, position: Any):
    with pytest.raises(OffsetError) as raised:
        fencepost.arrow.stream(servers, topics="t", position=position)
    assert raised.value.condition == "FENCEPOST_INVALID_OFFSET"
    assert len(str(raised.value)) < 1000


def test_a_broker_that_is_away_too_long_closes_the_stream(fake: FakeCluster, servers: Properties):
    fill(fake, 3)
    impatient = {**servers, "default.api.timeout.ms": 300}
    with fencepost.arrow.stream(impatient, topics="t", start="earliest") as stream:
        drained(stream)
        for broker in fake.brokers.values():
            broker.close()
        with pytest.raises(ClientError):
            stream.poll(WAIT_MS)
        assert offsets_in(stream.position) == {"0": 3, "1": 0}
