"""Consumers' sessions take the shorter way, and nobody can tell by answers, counts or sessions.

Three nodes live through the same history of requests, usual, unusual and hostile ones, and of what
happens to partitions meanwhile. One takes from bytes what is usual and the rest as the handler
does; the others have the handler alone, which answers at once, or in pieces.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.apis.fetch_bytes import PARTITIONS_MAX
from fencepost.machines.fetch.sessions import PARTITION_BYTES
from fencepost.machines.partition import AdvanceLogStart, StopReplica
from fencepost.wire.api.fetch import FetchPartition, ForgottenTopic
from fencepost.wire.errors import ErrorCode

from .harness import register, topic_id
from .partitions import NOW_MS
from .test_fetch_from_bytes import Request, Served, framed, mutated, reading

register("fetch")

INT32_MAX = (1 << 31) - 1
WAYS = ("short", "at once", "in pieces")
ALL = [("t", 0), ("t", 1), ("t", 2), ("u", 0), ("zstd", 0), ("t", 3), ("txn", 0), ("txn", 1)]
SESSIONS_BYTES = 11 * PARTITION_BYTES
"""Of all sessions: few, so that some are refused."""


class World(Served):
    """A node whose requests take one way, if that takes them."""

    def __init__(self, directory: Path, way: str) -> None:
        directory.mkdir()
        super().__init__(directory)
        self.way = way
        numbers = count(1)
        self.node.fetches.sessions._draw_session_id = lambda: next(numbers)
        self.taken = 0
        self.sequences = dict.fromkeys(ALL, 100)

    def close(self) -> None:
        for one in self.node.ports.logs.values():
            one.close()

    def ask(self, frame: bytes) -> Request | None:
        """A request on this world's way; None if it is not one at all."""
        before = self.state()
        request = self.begin(frame, self.way)
        if request is not None or self.way != "short":
            self.taken += request is not None
            return request
        assert self.state() == before, "what is left has not begun"
        return self.begin(frame, "at once")

    def state(self) -> Any:
        """Sessions with all that is in them, who waits, and what is counted."""
        fetches = self.node.fetches
        sessions = [
            (
                session.session_id,
                session.epoch,
                session.last_used_ms,
                session.evictable,
                session.waiting is None,
                list(map(repr, session.entries.values())),
                list(session.stirring),
                list(fetches._quiet._of_session.get(session, ())),
            )
            for session in fetches.sessions._sessions.values()
        ]
        return sessions, fetches.sessions.used_bytes, len(fetches), self.traffic()

    def happen(self, step: str, name: str, index: int) -> None:
        """Something happens to a partition, if it is here."""
        hosted = self.node.replicas.hosted.get((name, index))
        if step == "brokers":
            self.node.fetches.look_again()
        elif hosted is None:
            return
        elif step == "produce":
            self.node.produce(hosted, [NOW_MS] * 2)
        elif step == "transaction":
            self.node.produce_transactional(hosted, 2, self.sequences[name, index])
            self.sequences[name, index] += 2
        elif step in ("commit", "abort"):
            self.node.end_transaction(hosted, step == "commit")
        elif step == "followed":
            self.node.follower_fetched(hosted, 2, hosted.machine.log_end_offset)
        elif step == "deleted records":
            self.node.driver.feed(hosted.key, AdvanceLogStart(hosted.machine.high_watermark))
        elif step == "epoch":
            replicas = (1, 2) if name == "u" else (1,)
            self.node.lead(hosted, hosted.machine.leader_epoch + 1, replicas)
        else:
            assert step == "gone"
            del self.node.replicas.hosted[name, index]
            self.node.driver.feed(hosted.key, StopReplica(is_deleted=True))
            self.node.fetches.gone(hosted)


STEPS = ["produce"] * 6 + ["followed", "deleted records", "epoch", "brokers", "later"]
STEPS += ["transaction", "transaction", "commit", "commit", "abort"]


class Client:
    """Draws requests that mostly fit the session that its broker has."""

    def __init__(self, seed: int, world: World) -> None:
        self.draw = random.Random(seed)
        self.world = world
        self.version = self.draw.choice([12, 13, 15, 17, 18])
        self.isolation = seed % 2

    def partition(self, name: str, index: int) -> FetchPartition:
        hosted = self.world.node.replicas.hosted.get((name, index))
        offset = 0
        if hosted is not None:
            machine = hosted.machine
            start, end = machine.log_start_offset, machine.high_watermark
            if self.isolation:
                end = machine.last_stable_offset
            at = self.draw.choices(range(5), [40, 3, 3, 1, 1])[0]
            offset = (end, start, max(start, end - 1), end + 1, start - 1)[at]
        return reading(
            index,
            max(offset, 0),
            current_leader_epoch=self.draw.choice([-1] * 30 + [0, 1]),
            last_fetched_epoch=self.draw.choice([-1] * 30 + [0]),
            partition_max_bytes=self.draw.choice([1 << 20] * 6 + [300, 0]),
        )

    def topics(self, some: list[tuple[str, int]]) -> list[tuple[str, list[FetchPartition]]]:
        topics: dict[str, list[FetchPartition]] = {}
        for name, index in some:
            topics.setdefault(name, []).append(self.partition(name, index))
        return list(topics.items())

    def some(self, most: int) -> list[tuple[str, int]]:
        return self.draw.sample(ALL, self.draw.randint(0, most))

    def forgotten(self, known: list[tuple[str, int]]) -> list[ForgottenTopic]:
        """What has been read and not yet handed out is forgotten for a while, as a rule."""
        count = self.draw.choice([1, 1, 1, 2, len(known)])
        some = [*self.draw.sample(known, min(count, len(known))), self.draw.choice([*ALL, *known])]
        return [
            ForgottenTopic(
                partitions=[index],
                **({"topic_id": topic_id(name)} if self.version >= 13 else {"topic": name}),
            )
            for name, index in some
        ]

    def frame(self) -> bytes:
        """The next request."""
        draw = self.draw
        sessions = list(self.world.node.fetches.sessions._sessions.values())
        fields: dict[str, Any] = {
            "max_wait_ms": draw.choice([500] * 12 + [0, -1]),
            "min_bytes": draw.choice([1] * 20 + [0, 200]),
            "max_bytes": draw.choice([1 << 20] * 12 + [400, 0]),
            "isolation_level": draw.choice([self.isolation] * 20 + [1 - self.isolation]),
        }
        if not sessions or draw.random() < 0.05:
            named, fields["session_epoch"] = draw.sample(ALL, draw.randint(1, 5)), 0
        else:
            session = draw.choice(sessions[-2:])
            fields["session_id"] = session.session_id + (draw.random() < 0.02)
            fields["session_epoch"] = draw.choice([session.epoch] * 20 + [session.epoch + 1, -1])
            known = [key for key in ALL if self.key(*key) in session.entries]
            named = draw.sample(known, draw.randint(0, len(known)))
            if draw.random() < 0.2:
                named = self.some(4)
            if draw.random() < 0.2:
                fields["forgotten_topics_data"] = self.forgotten(known)
        frame = framed(self.version, self.topics(named), **fields)
        if draw.random() < 0.1:
            how = draw.choice(["set", "insert", "delete"])
            frame = mutated(frame, [(how, draw.random(), draw.randrange(256))], 1.0)
        return frame

    def key(self, name: str, index: int) -> Any:
        return (topic_id(name) if self.version >= 13 else name), index


def live(worlds: list[World], client: Client, rounds: int) -> Counter[str]:
    """So many requests, with something happening before and while they wait."""
    kinds: Counter[str] = Counter()
    draw = client.draw
    for _ in range(rounds):
        for _ in range(draw.randint(0, 1)):
            happen(worlds, draw)
        frame = client.frame()
        requests = [request for world in worlds if (request := world.ask(frame))]
        assert len(requests) in (0, len(worlds))
        if requests and not is_answered(requests):
            assert len({one.buffered_bytes for one in requests}) == 1
            kinds[wait(worlds, requests, draw)] += 1
        elif requests:
            kinds["answered"] += 1
        told = [one.told() for one in requests]
        assert told == told[:1] * len(told)
        states = [world.state() for world in worlds]
        assert states[0] == states[1] == states[2]
    return kinds


def is_answered(requests: list[Request]) -> bool:
    answered = {one.context.answered for one in requests}
    assert len(answered) == 1
    return answered.pop()


def wait(worlds: list[World], requests: list[Request], draw: random.Random) -> str:
    """Let something happen until the requests are answered, or their time is up."""
    for _ in range(draw.randint(0, 2)):
        happen(worlds, draw)
        if is_answered(requests):
            return "woken"
    for wait_ms in (500, INT32_MAX):  # as long as a usual request waits, or a hostile one
        if not is_answered(requests):
            for world in worlds:
                world.node.timers.advance(wait_ms)
    assert is_answered(requests)
    return "expired"


def happen(worlds: list[World], draw: random.Random) -> None:
    step, at = draw.choice([*STEPS, "gone"] if draw.random() < 0.05 else STEPS), draw.choice(ALL)
    for world in worlds:
        if step == "later":
            world.node.timers.advance(400)
        else:
            world.happen(step, *at)


@pytest.fixture
def worlds(tmp_path: Path) -> Any:
    made = [World(tmp_path / way, way) for way in WAYS]
    for world in made:
        world.node.fetches.sessions._max_bytes = SESSIONS_BYTES
    yield made
    for world in made:
        world.close()


@pytest.mark.parametrize("seed", range(4))
def test_all_ways_leave_the_same_behind(worlds: list[World], seed: int) -> None:
    kinds = live(worlds, Client(seed, worlds[0]), 300)
    assert worlds[0].taken > 30, "the shorter way is taken"
    assert min(kinds[one] for one in ("woken", "expired", "answered")) > 0, kinds


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 130))
def test_longer(worlds: list[World], seed: int) -> None:
    live(worlds, Client(seed, worlds[0]), 300)


# -- what is usual ---------------------------------------------------------------------------------


def begun(world: World, version: int, some: list[tuple[str, int]]) -> int:
    """A session over these, which has heard of all of them."""
    topics: dict[str, list[FetchPartition]] = {}
    for name, index in some:
        end = world.node.replicas.hosted[name, index].machine.high_watermark
        topics.setdefault(name, []).append(reading(index, end))
    request = world.begin(
        framed(version, list(topics.items()), session_epoch=0, max_wait_ms=0), "at once"
    )
    assert request is not None
    request.told()
    (session,) = world.node.fetches.sessions._sessions.values()
    return session.session_id


@pytest.fixture
def world(tmp_path: Path) -> Any:
    made = World(tmp_path / "node", "short")
    yield made
    made.close()


def test_a_session_may_lose_partitions_and_have_them_again(worlds: list[World]) -> None:
    """As of a client that has records of some left, and asks for the others."""
    session_id = {begun(world, 12, [("t", 0), ("t", 1), ("u", 0)]) for world in worlds}.pop()
    again = [("t", [reading(1)]), ("txn", [reading(0, 210)])]
    one = [ForgottenTopic(topic="t", partitions=[1])]
    rest = [ForgottenTopic(topic=name, partitions=[0, 1]) for name in ("t", "u", "txn")]
    changes: list[tuple[list[Any], list[Any]]] = [([], one), (again, []), (again, one), ([], rest)]
    for epoch, (named, forgotten) in enumerate(changes, start=1):
        fields = {"session_id": session_id, "session_epoch": epoch}
        frame = framed(12, named, forgotten_topics_data=forgotten, **fields)
        requests = [request for world in worlds if (request := world.ask(frame))]
        assert worlds[0].taken == epoch
        for world in worlds:
            world.node.timers.advance(500)
        told = [request.told() for request in requests]
        assert told[0] == told[1] == told[2]
        assert worlds[0].state() == worlds[1].state() == worlds[2].state()
    assert not worlds[0].node.fetches.sessions, "nothing is left of it"


def test_a_session_that_may_not_grow_ends(worlds: list[World]) -> None:
    session_id = {begun(world, 12, [("t", 0), ("t", 1)]) for world in worlds}.pop()
    for world in worlds:
        world.node.fetches.sessions._max_bytes = world.node.fetches.sessions.used_bytes
    frame = framed(12, [("u", [reading()])], session_id=session_id, session_epoch=1)
    told = [request.told() for world in worlds if (request := world.ask(frame))]
    assert told[0] == told[1] == told[2] and worlds[0].taken == 1
    assert told[0][1] == {ErrorCode.FETCH_SESSION_ID_NOT_FOUND: 1}
    assert worlds[0].state() == worlds[1].state() == worlds[2].state()


@pytest.mark.parametrize("version", range(12, 19))
def test_the_next_request_of_a_session_is_taken(world: World, version: int) -> None:
    session_id = begun(world, version, [("t", 0), ("t", 1), ("u", 0)])
    named: list[tuple[str, list[FetchPartition]]]
    for epoch, named in enumerate([[], [("t", [reading()])], [("u", [reading()])]], start=1):
        frame = framed(version, named, session_id=session_id, session_epoch=epoch)
        request = world.begin(frame, "short")
        assert request is not None
        world.node.timers.advance(500)
        request.told()


def test_it_is_taken_however_many_partitions_are_quiet(world: World) -> None:
    for index in range(4, 4 + 2 * PARTITIONS_MAX):
        world.node.host("t", index)
    some = [("t", index) for index in range(4, 4 + 2 * PARTITIONS_MAX)]
    session_id = begun(world, 12, some)
    (session,) = world.node.fetches.sessions._sessions.values()
    for epoch, is_taken in enumerate([False, True], start=1):
        frame = framed(12, [], session_id=session_id, session_epoch=epoch)
        request = world.begin(frame, "short")
        assert (request is not None) is is_taken
        if request is None:
            request = world.begin(frame, "at once")
        world.node.timers.advance(500)
        assert request is not None
        request.told()
        assert not session.stirring
    for named, is_taken in [(PARTITIONS_MAX, False), (PARTITIONS_MAX - 1, True)]:
        topics = [("t", [reading(index) for _, index in some[:named]])]
        frame = framed(12, topics, session_id=session_id, session_epoch=3)
        assert (world.begin(frame, "short") is not None) is is_taken, "one is looked at besides"


UNUSUAL: dict[str, tuple[list[tuple[str, list[FetchPartition]]], dict[str, Any]]] = {
    "another session": ([], {"session_id": 99}),
    "a request that was lost": ([], {"session_epoch": 2}),
    "a session that ends": ([("t", [reading()])], {"session_epoch": -1}),
    "a session that begins": ([("t", [reading()])], {"session_epoch": 0}),
    "a partition twice": ([("t", [reading(), reading(0, 1)])], {}),
    "a partition forgotten that it cannot have": (
        [],
        {"forgotten_topics_data": [ForgottenTopic(topic="", partitions=[1])]},
    ),
    "more forgotten than are looked at": (
        [],
        {"forgotten_topics_data": [ForgottenTopic(topic="t", partitions=[*range(17)])]},
    ),
    "an isolation that there is not": ([], {"isolation_level": 2}),
    "more bytes wanted": ([], {"min_bytes": 2}),
    "a rack": ([], {"rack_id": "a"}),
    "a replica": ([], {"replica_id": 2}),
}


@pytest.mark.parametrize("why", UNUSUAL)
def test_the_unusual_is_left_as_it_was(world: World, why: str) -> None:
    named, fields = UNUSUAL[why]
    session = {"session_id": begun(world, 12, [("t", 0), ("t", 1)]), "session_epoch": 1}
    before = world.state()
    assert world.begin(framed(12, named, **{**session, **fields}), "short") is None
    assert world.state() == before
