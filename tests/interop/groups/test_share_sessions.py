"""ShareFetch and ShareAcknowledge: checks of a request, and the sessions in which they are sent."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from fencepost.wire.errors import ErrorCode as E

from .conftest import Performance
from .share_words import (
    ACCEPT,
    SESSION_VERSION,
    UNKNOWN_TOPIC,
    acknowledge,
    acquired,
    fetch,
    fetch_request,
    fetch_some,
    produce,
    ready_group,
)
from .stage import Scenes, Stage

pytestmark = [pytest.mark.interop, pytest.mark.slow]

scene = Scenes()
QUICK = {"max_wait_ms": 0}
RENEWING = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
INVALID = E.INVALID_REQUEST


FETCHES: list[tuple[str, dict[str, Any], int]] = [
    ("group-null", {"group": None}, INVALID),
    ("member-null", {"member": None}, INVALID),
    ("member-empty", {"member": ""}, INVALID),
    ("member-of-36-characters", {"member": "m" * 36}, 0),
    ("member-of-37-characters", {"member": "m" * 37}, INVALID),
    ("renew-with-max-bytes", {"is_renew_ack": True, **RENEWING, "max_bytes": 1}, INVALID),
    ("renew-with-min-bytes", {"is_renew_ack": True, **RENEWING, "min_bytes": 1}, INVALID),
    ("renew-with-max-records", {"is_renew_ack": True, **RENEWING, "max_records": 1}, INVALID),
    ("renew-with-max-wait", {"is_renew_ack": True, **RENEWING, "max_wait_ms": 1}, INVALID),
    ("epoch-1-without-session", {"epoch": 1}, E.SHARE_SESSION_NOT_FOUND),
    ("epoch-minus-1-without-session", {"epoch": -1}, E.SHARE_SESSION_NOT_FOUND),
    ("epoch-minus-2", {"epoch": -2}, E.SHARE_SESSION_NOT_FOUND),
    ("without-topics", {"topics": {}}, 0),
]


def first_fetch(stage: Stage, said: dict[str, Any], error: int) -> None:
    topic, group = ready_group(stage, "m")
    said = {**QUICK, "group": group, "member": "m", "epoch": 0, "topics": {topic: {0: []}}, **said}
    named = [said.pop(name) for name in ("group", "member", "epoch", "topics")]
    if error or not named[-1]:
        fetch(stage, *named, error=error, **said)
        return
    # A partition has no row until its state has been read, so the session is begun again.
    request = fetch_request(stage, *named, **said)
    answer = stage.until(request, lambda seen: seen.responses, "a row", SESSION_VERSION)
    stage.require("error", answer.error_code, error)


@pytest.mark.parametrize(("name", "said", "error"), FETCHES, ids=[name for name, *_ in FETCHES])
def test_a_first_share_fetch(
    perform: Performance, name: str, said: dict[str, Any], error: int
) -> None:
    perform(f"share-fetch-{name}", partial(first_fetch, said=said, error=error))


ACKNOWLEDGEMENTS: list[tuple[str, dict[str, Any], int]] = [
    ("group-null", {"group": None}, INVALID),
    ("member-null", {"member": None}, INVALID),
    ("member-empty", {"member": ""}, INVALID),
    ("member-of-37-characters", {"member": "m" * 37}, INVALID),
    ("epoch-0", {"epoch": 0}, E.INVALID_SHARE_SESSION_EPOCH),
    ("epoch-1-without-session", {"epoch": 1}, E.SHARE_SESSION_NOT_FOUND),
    ("epoch-minus-1-without-session", {"epoch": -1}, E.SHARE_SESSION_NOT_FOUND),
]


def first_acknowledgement(stage: Stage, said: dict[str, Any], error: int) -> None:
    topic, group = ready_group(stage, "m")
    acks = {topic: {0: [(0, 0, [ACCEPT])]}}
    said = {"group": group, "member": "m", "epoch": 1, "topics": acks, **said}
    named = [said.pop(name) for name in ("group", "member", "epoch", "topics")]
    for version in (1, 2):
        acknowledge(stage, *named, error=error, version=version, **said)


@pytest.mark.parametrize(
    ("name", "said", "error"), ACKNOWLEDGEMENTS, ids=[name for name, *_ in ACKNOWLEDGEMENTS]
)
def test_a_first_share_acknowledgement(
    perform: Performance, name: str, said: dict[str, Any], error: int
) -> None:
    perform(f"share-ack-{name}", partial(first_acknowledgement, said=said, error=error))


@scene
def epochs_of_a_session(stage: Stage) -> None:
    topic, group = ready_group(stage, "m")
    everything: dict[str, dict[int, Any]] = {topic: {0: []}}
    fetch(stage, group, "m", 0, everything, only=errors_of, **QUICK)
    fetch(stage, group, "m", 2, error=E.INVALID_SHARE_SESSION_EPOCH, **QUICK)
    fetch(stage, group, "m", 1, only=errors_of, **QUICK)
    fetch(stage, group, "m", 1, error=E.INVALID_SHARE_SESSION_EPOCH, **QUICK)
    fetch(stage, group, "m", 2**31 - 1, error=E.INVALID_SHARE_SESSION_EPOCH, **QUICK)
    fetch(stage, group, "m", -2, error=None, **QUICK)
    acknowledge(stage, group, "m", 2)
    acknowledge(stage, group, "m", 2, error=E.INVALID_SHARE_SESSION_EPOCH)
    acknowledge(stage, group, "m", 0, error=E.INVALID_SHARE_SESSION_EPOCH)
    acknowledge(stage, group, "x", 3, error=E.SHARE_SESSION_NOT_FOUND)
    fetch(stage, group, "m", 3, only=errors_of, **QUICK)
    fetch(stage, group, "m", 0, everything, only=errors_of, **QUICK)
    fetch(stage, group, "m", 4, error=E.INVALID_SHARE_SESSION_EPOCH, **QUICK)
    fetch(stage, group, "m", 1, only=errors_of, **QUICK)
    fetch(stage, group, "m", -1, **QUICK)
    fetch(stage, group, "m", -1, error=E.SHARE_SESSION_NOT_FOUND, **QUICK)
    fetch(stage, group, "m", 2, error=E.SHARE_SESSION_NOT_FOUND, **QUICK)


def errors_of(seen: Any) -> Any:
    """What a fetch is answered, without the rows that depend on when a partition is ready."""
    rows = [
        row["error_code"]
        for topic in seen["responses"]
        for row in topic["partitions"]
        if row["error_code"]
    ]
    return seen["error_code"], rows


@scene
def first_fetch_with_acknowledgements(stage: Stage) -> None:
    topic, group = ready_group(stage, "m")
    fetch(stage, group, "m", 0, {topic: {0: [(0, 0, [ACCEPT])]}}, error=INVALID, **QUICK)
    fetch(stage, group, "m", 1, error=E.SHARE_SESSION_NOT_FOUND, **QUICK)


@scene
def sessions_belong_to_connections(stage: Stage) -> None:
    """A session that another connection uses; one whose connection is closed."""
    topic, group = ready_group(stage, "m", "n")
    produce(stage, topic, b"1", b"2")
    epoch = fetch_some(stage, group, "m", 0, topic, by="one")
    fetch(stage, group, "m", epoch, by="two", error=None, **QUICK)
    stage.close_connection("one")
    fetch_some(stage, group, "n", 0, topic, by="three")


@scene
def a_session_that_ends(stage: Stage) -> None:
    """Its records are released, and what it acknowledges with the last request is done first."""
    topic, group = ready_group(stage, "m", "n")
    produce(stage, topic, b"1", b"2", b"3")
    epoch = fetch_some(stage, group, "m", 0, topic)
    acknowledge(stage, group, "m", -1, {topic: {0: [(0, 0, [ACCEPT])]}})
    fetch_some(stage, group, "n", 0, topic, by="two")
    stage.note("epoch", epoch)


@scene
def a_fetch_that_ends_a_session(stage: Stage) -> None:
    topic, group = ready_group(stage, "m", "n")
    produce(stage, topic, b"1", b"2", b"3")
    fetch_some(stage, group, "m", 0, topic)
    fetch(stage, group, "m", -1, {topic: {0: [(0, 1, [ACCEPT])]}}, **QUICK)
    fetch_some(stage, group, "n", 0, topic, by="two")


@scene
def topics_and_partitions_that_are_unknown(stage: Stage) -> None:
    topic, group = ready_group(stage, "m")
    fetch(stage, group, "m", 0, {UNKNOWN_TOPIC: {0: []}, topic: {7: []}}, error=None, **QUICK)
    acks = {UNKNOWN_TOPIC: {0: [(0, 0, [ACCEPT])]}, topic: {7: [(0, 0, [ACCEPT])]}}
    acknowledge(stage, group, "m", 1, acks, error=None)


@scene
def partitions_are_forgotten(stage: Stage) -> None:
    topic, group = ready_group(stage, "m", partitions=2)
    produce(stage, topic, b"1")
    produce(stage, topic, b"2", partition=1)
    epoch = fetch_some(stage, group, "m", 0, topic)
    fetch(
        stage,
        group,
        "m",
        epoch,
        {topic: {1: []}},
        forgotten={topic: [0]},
        only=errors_of,
        **QUICK,
    )
    produce(stage, topic, b"3")
    produce(stage, topic, b"4", partition=1)
    fetch_some(stage, group, "m", epoch + 1, topic)
    (of_topic,) = stage.entries.pop().observed["responses"]
    stage.note("fetched", [row["partition_index"] for row in of_topic["partitions"]])


@scene
def group_that_does_not_exist(stage: Stage) -> None:
    """A share partition of a group that was never there is not initialised."""
    topic = stage.topic("t", 1)
    produce(stage, topic, b"1")
    fetch(stage, stage.name("none"), "m", 0, {topic: {0: []}}, error=None)


@scene
def member_that_is_not_in_the_group(stage: Stage) -> None:
    """Membership is the coordinator's: the leader serves any member id."""
    topic, group = ready_group(stage, "m")
    produce(stage, topic, b"1", b"2")
    fetch_some(stage, group, "stranger", 0, topic)


@scene
def versions(stage: Stage) -> None:
    topic, group = ready_group(stage, "m")
    produce(stage, topic, b"1", b"2")
    fetch_some(stage, group, "m", 0, topic)
    acknowledge(stage, group, "m", -1, {topic: {0: [(0, 1, [ACCEPT])]}}, version=1)
    produce(stage, topic, b"3")
    fetch(stage, group, "m", 0, {topic: {0: []}}, version=1, only=errors_of)


@scene
def acquired_in_pieces(stage: Stage) -> None:
    """MaxRecords is soft in mode 0 and hard in mode 1; batches are cut to BatchSize."""
    topic, group = ready_group(stage, "m", "n")
    produce(stage, topic, *(b"%d" % number for number in range(10)))
    produce(stage, topic, *(b"%d" % number for number in range(10)))
    epoch = fetch_some(stage, group, "m", 0, topic, max_records=3, batch_size=4)
    epoch = fetch_some(stage, group, "m", epoch, topic, max_records=3, share_acquire_mode=1)
    epoch = fetch_some(stage, group, "m", epoch, topic, max_records=100, batch_size=2)
    answer = fetch(stage, group, "m", epoch, **QUICK)
    stage.require("no more", acquired(answer), [])


@scene
def fetch_that_waits(stage: Stage) -> None:
    """A record that is produced ends the wait."""
    topic, group = ready_group(stage, "m")
    produce(stage, topic, b"0")
    epoch = fetch_some(stage, group, "m", 0, topic)
    request = fetch_request(stage, group, "m", epoch, None, max_wait_ms=20_000)
    token = stage.send(request, 2)
    produce(stage, topic, b"1", by="producer")
    answer = stage.receive(token, error=0)
    stage.require("acquired", acquired(answer), [(1, 1, 1)])


@pytest.mark.parametrize("name", scene)
def test_scene(perform: Performance, name: str) -> None:
    perform(f"session-{name}", scene[name])
