"""Events of OpenLineage: what is in them, without Spark, and those of a real query."""

from __future__ import annotations

import json
import threading
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("openlineage.client")

import jsonschema
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import RunEvent
from openlineage.client.serde import Serde
from openlineage.client.transport.file import FileConfig, FileTransport

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer
from fencepost.spark import lineage_events
from fencepost.spark.lineage import RUNS_MAX, LineageListener, LineageRun
from fencepost.spark.lineage_events import OFFSETS_SCHEMA, Sender

from ..waiting import eventually
from .test_counters import report

RUN = "6e1c1a3e-52c0-4a3a-a3f5-2f0a5b3d8a01"
SERVERS = "PLAINTEXT://kafka-1:9092,kafka-2:9092"


class Kept:
    """A client that keeps what it is to send, as it would be sent."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.holds = threading.Event()
        self.holds.set()
        self.fails = False

    def emit(self, event: RunEvent) -> None:
        self.holds.wait()
        if self.fails:
            raise OSError("no connection")
        self.events.append(json.loads(Serde.to_json(event)))


def listener(kept: Any, **more: Any) -> LineageListener:
    return LineageListener(SERVERS, client=kept, namespace="jobs", **more)


def started(run_id: str = RUN, name: str | None = "copy") -> Any:
    return SimpleNamespace(id="a1", runId=run_id, name=name)


def progressed(*arguments: Any, **more: Any) -> Any:
    document = report(*arguments, **{"runId": RUN, **more})
    return SimpleNamespace(progress=SimpleNamespace(json=json.dumps(document)))


def ended(exception: str | None = None) -> Any:
    return SimpleNamespace(id="a1", runId=RUN, exception=exception)


def offsets(dataset: dict[str, Any]) -> dict[int, tuple[int | None, int]]:
    facet = dataset["inputFacets"]["fencepost_offsets"]
    jsonschema.validate(facet, dict(OFFSETS_SCHEMA))
    assert facet["_schemaURL"] == OFFSETS_SCHEMA["$id"]
    found = facet["partitions"]
    return {one["partition"]: (one.get("startOffset"), one["endOffset"]) for one in found}


def test_a_run_from_its_start_to_its_end():
    kept = Kept()
    told = listener(kept, outputs={"copy": ["copied"]})
    told.onQueryStarted(started())
    told.onQueryProgress(progressed(0, None, {"t": {"0": 5}}, rows=5, written=5))
    told.onQueryProgress(progressed(1, {"t": {"0": 5}}, {"t": {"0": 9, "1": 2}}, rows=6, written=4))
    told.onQueryProgress(progressed(2, {"t": {"0": 9, "1": 2}}, {"t": {"0": 9, "1": 2}}))
    told.onQueryIdle(None)
    told.onQueryTerminated(ended())
    assert told.close()
    start, first, second, end = kept.events
    assert [one["eventType"] for one in kept.events] == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    assert {one["run"]["runId"] for one in kept.events} == {RUN}
    assert {(one["job"]["namespace"], one["job"]["name"]) for one in kept.events} == {
        ("jobs", "copy")
    }
    assert start["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    assert start["run"]["facets"]["processing_engine"]["name"] == "spark"
    assert start["inputs"] == []
    (output,) = start["outputs"]
    assert (output["namespace"], output["name"]) == ("kafka://kafka-1:9092", "copied")
    (read,) = second["inputs"]
    assert (read["namespace"], read["name"]) == ("kafka://kafka-1:9092", "t")
    assert offsets(first["inputs"][0]) == {0: (None, 5)}
    assert offsets(read) == {0: (5, 9), 1: (None, 2)}
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 6
    assert second["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 4
    assert offsets(end["inputs"][0]) == {0: (None, 9), 1: (None, 2)}
    assert end["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 11
    assert end["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 9


def test_a_run_that_fails_and_one_that_was_there_before():
    kept = Kept()
    told = listener(kept)
    told.onQueryProgress(progressed(7, {"t": {"0": 5}, "u": {"0": 1}},
                                    {"t": {"0": 9}, "u": {"0": 1}}, rows=6))  # fmt: skip
    told.onQueryTerminated(ended("records are gone" + "x" * 50_000))
    told.onQueryTerminated(ended())
    told.close()
    assert [one["eventType"] for one in kept.events] == ["START", "RUNNING", "FAIL"]
    (read,) = kept.events[1]["inputs"]  # of the other topic there was nothing
    assert read["name"] == "t"
    assert "inputStatistics" not in read["inputFacets"]  # rows of which topic?
    failure = kept.events[2]["run"]["facets"]["errorMessage"]
    assert failure["message"].startswith("records are gone")
    assert len(failure["message"]) == 10_000


def test_of_more_runs_than_are_kept_the_oldest_is_forgotten():
    kept = Kept()
    told = listener(kept)
    for number in range(RUNS_MAX + 1):
        told.onQueryStarted(started(str(uuid.UUID(int=number))))
    for number in (0, 1, RUNS_MAX):
        run_id = str(uuid.UUID(int=number))
        told.onQueryTerminated(SimpleNamespace(id="a1", runId=run_id, exception=None))
    told.close()
    ends = [one["run"]["runId"] for one in kept.events if one["eventType"] == "COMPLETE"]
    assert ends == [str(uuid.UUID(int=number)) for number in (1, RUNS_MAX)]


def test_queries_without_a_name_and_reports_that_are_none(caplog: pytest.LogCaptureFixture):
    kept = Kept()
    told = listener(kept)
    told.onQueryStarted(started(name=None))
    for text in ("{", "{}", "[]", "null"):
        told.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=text)))
    told.close()
    assert [one["job"]["name"] for one in kept.events] == ["a1"]
    assert caplog.text.count("cannot be read") == 4


def test_a_receiver_that_does_not_answer_holds_up_no_query(
    monkeypatch: Any, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(lineage_events, "WAITING_MAX", 10)
    kept = Kept()
    kept.holds.clear()
    told = listener(kept)
    told.onQueryStarted(started())
    for batch in range(100):
        told.onQueryProgress(progressed(batch, {"t": {"0": batch}}, {"t": {"0": batch + 1}}))
    told.onQueryTerminated(ended())
    assert not told.close(timeout_s=0.01)
    kept.holds.set()
    assert told.close()
    states = [one["eventType"] for one in kept.events]
    assert (states[0], states[-1]) == ("START", "COMPLETE")
    assert 10 <= len(states) <= 12
    assert told.dropped == 102 - len(states)
    assert caplog.text.count("10 events wait for their receiver: more are dropped") == 1
    assert caplog.text.count(f"{told.dropped} events were dropped") == 1
    assert offsets(kept.events[-1]["inputs"][0]) == {0: (0, 100)}  # the end has it all


def test_starts_and_ends_of_many_runs_do_not_wait_without_bound(
    monkeypatch: Any, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(lineage_events, "WAITING_MAX", 10)
    kept = Kept()
    kept.holds.clear()
    told = listener(kept)
    for number in range(200):
        run_id = str(uuid.UUID(int=number))
        told.onQueryStarted(started(run_id))
        told.onQueryTerminated(SimpleNamespace(id="a1", runId=run_id, exception=None))
        assert len(told._sender._waiting) <= 10
    kept.holds.set()
    assert told.close()
    assert told.dropped == 400 - len(kept.events)
    assert len(kept.events) in (10, 11)
    last = str(uuid.UUID(int=199))
    newest = [(one["run"]["runId"], one["eventType"]) for one in kept.events[-2:]]
    assert newest == [(last, "START"), (last, "COMPLETE")]
    assert caplog.text.count("more are dropped") == 1


def test_a_receiver_in_trouble_is_two_warnings_and_each_time_again(
    caplog: pytest.LogCaptureFixture,
):
    kept = Kept()
    told = listener(kept)

    def fail_five_and_send_one(failed: int, sent: int) -> None:
        kept.fails = True
        for number in range(5):
            told.onQueryStarted(started(str(uuid.UUID(int=number))))
        eventually(lambda: told.failed == failed)
        kept.fails = False
        told.onQueryStarted(started())
        eventually(lambda: len(kept.events) == sent)

    fail_five_and_send_one(5, 1)
    fail_five_and_send_one(10, 2)
    kept.fails = True
    told.onQueryStarted(started())
    assert told.close()
    assert told.failed == 11
    assert caplog.text.count("was not sent: OSError('no connection')") == 3
    assert f"an event of run {RUN} was not sent" in caplog.text
    assert caplog.text.count("5 events were not sent") == 2
    assert caplog.text.count("events were not sent") == 2


def test_batch_jobs():
    kept = Kept()
    with LineageRun("nightly", "k:1", reads=["a"], writes=["b"], client=kept) as run:
        run.read("a", rows=5, offsets={0: (3, 8)})
        run.wrote("b", 4)
    start, end = kept.events
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["job"]["facets"]["jobType"]["processingType"] == "BATCH"
    assert start["run"]["runId"] == end["run"]["runId"] == run.run_id
    assert start["inputs"][0]["namespace"] == "kafka://k:1"
    assert offsets(end["inputs"][0]) == {0: (3, 8)}
    assert end["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 4
    with pytest.raises(ValueError, match="no"), LineageRun("x", "k:1", client=kept):
        raise ValueError("no")
    assert kept.events[-1]["eventType"] == "FAIL"
    assert kept.events[-1]["run"]["facets"]["errorMessage"]["message"] == "ValueError: no"


def test_the_environment_says_where_events_go(monkeypatch: Any, tmp_path: Path):
    config = {"transport": {"type": "file", "log_file_path": str(tmp_path / "e"), "append": True}}
    (tmp_path / "openlineage.yml").write_text(json.dumps(config))
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(tmp_path / "openlineage.yml"))
    sender = Sender()
    with LineageRun("x", "k:1"):
        pass
    assert sender.close()
    lines = (tmp_path / "e").read_text().splitlines()
    assert [json.loads(line)["eventType"] for line in lines] == ["START", "COMPLETE"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_events_of_a_real_query(spark: Any, served: str, topic: str, tmp_path: Path):
    with Cluster(served) as cluster:
        for name in (topic, f"{topic}-to"):
            Admin(cluster).create_topic(name, 2)
            Admin(cluster).wait_for_topic(name)
        with Producer(cluster) as producer:
            for number in range(20):
                producer.send(topic, b"%d" % number, partition=number % 2)
    file = tmp_path / "events"
    transport = FileTransport(FileConfig(log_file_path=str(file), append=True))
    client = OpenLineageClient(transport=transport)
    told = LineageListener(served, outputs={"lineage": [f"{topic}-to"]}, client=client)
    spark.streams.addListener(told)
    options = {"kafka.bootstrap.servers": served}
    query = (
        spark.readStream.format("fencepost")
        .options(**options, subscribe=topic, startingOffsets="earliest")
        .load()
        .select("value")
        .writeStream.format("fencepost")
        .queryName("lineage")
        .options(**options, topic=f"{topic}-to", checkpointLocation=str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    spark.streams.removeListener(told)
    assert told.close()
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert events[0]["eventType"] == "START"
    assert events[-1]["eventType"] == "COMPLETE"
    (read,) = events[-1]["inputs"]
    assert (read["namespace"], read["name"]) == (f"kafka://{served.split(',')[0]}", topic)
    assert offsets(read) == {0: (None, 10), 1: (None, 10)}  # of a first batch Spark says no start
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 20
    assert events[-1]["outputs"][0]["name"] == f"{topic}-to"
