"""The rules of loading and unloading: in pieces, whatever the log holds, by leader epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.records import build_batch
from fencepost.log.page_cache import NotCachedError
from fencepost.runtime.coordinator import CoordinatorState, loader
from fencepost.runtime.coordinator.coordinator import RETRY_MS
from fencepost.wire.errors import ErrorCode

from ...log.cleaning import clean
from .coordinator_world import INDEX, WALL_MS, CoordinatorWorld
from .toy import Toy

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR


def batch(*records: tuple[str, str | None], producer_id: int = -1) -> bytearray:
    """A batch of these; transactional with a producer id."""
    rows = [(name.encode(), None if text is None else text.encode()) for name, text in records]
    if producer_id < 0:
        return build_batch(rows, timestamp_ms=1)
    return build_batch(
        rows,
        timestamp_ms=1,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def marker(producer_id: int, *, committed: bool) -> bytearray:
    return build_end_txn_marker(
        committed=committed,
        coordinator_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=1,
    )


@pytest.fixture
def world() -> CoordinatorWorld:
    return CoordinatorWorld()


# What may be in the log


def test_a_log_is_loaded_whatever_it_holds(world: CoordinatorWorld) -> None:
    for one in (
        batch(("a", "1"), ("?of tomorrow", "x"), ("b", "1")),
        batch(("gone", "1")),
        batch(("gone", None), ("never there", None)),
        batch(("done", "5"), ("b", "0"), producer_id=1),
        batch(("b", "2")),
        marker(1, committed=True),
        batch(("undone", "5"), producer_id=2),
        marker(2, committed=False),
        marker(99, committed=True),
        batch(("open", "5"), producer_id=3),
    ):
        world.write(one)
    toy = world.start()
    texts, pending, _ = toy.view()
    assert {name: text for name, (text, _) in texts.items()} == {"a": "1", "b": "2", "done": "5"}
    assert {name: text for name, (text, _) in pending[3].items()} == {"open": "5"}


def test_offsets_are_those_of_the_log(world: CoordinatorWorld) -> None:
    world.write(batch(("a", "1"), ("b", "1")))
    world.write(batch(("c", "1")))
    toy = world.start()
    assert [offset for offset, _ in toy.applied] == [0, 1, 2]
    world.set("d", "1")
    assert toy.texts["d"] == ("1", 3)


@pytest.mark.parametrize("data", [batch(("!", "1")), batch(("a", "1"))[:-2] + b"2\0"])
def test_a_log_that_makes_no_sense_is_not_coordinated(
    world: CoordinatorWorld, data: bytearray
) -> None:
    world.write(data)
    world.start()
    assert world.coordinator.state is CoordinatorState.FAILED
    assert world.replies[world.get("a")] == (ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
    assert world.toy.is_discarded


def test_a_log_that_could_not_be_read_is_tried_again_in_the_next_epoch(
    world: CoordinatorWorld,
) -> None:
    world.write(batch(("!", "1")))
    world.start(1)
    world.log.truncate_fully_and_start_at(0)
    world.lead(2)
    world.run()
    assert world.coordinator.state is CoordinatorState.ACTIVE


# In pieces


def test_clients_wait_until_all_is_read_and_committed(world: CoordinatorWorld) -> None:
    world.write(batch(("a", "1")))
    world.lead(1)
    assert world.replies[world.get("a")] == (LOADING, None)
    world.run()
    assert world.toy.texts == {"a": ("1", 0)}
    assert world.replies[world.get("a")] == (LOADING, None), "read, and not yet committed"
    world.commit()
    assert world.replies[world.get("a")] == (ErrorCode.NONE, "1")


def test_a_large_log_is_loaded_over_many_turns(world: CoordinatorWorld) -> None:
    for number in range(loader.BATCHES_PER_READ + 3):
        world.write(batch((f"n{number}", "1")))
    many = loader.RECORDS_PER_PIECE * 3
    world.write(batch(*((f"m{number % 10}", "1") for number in range(many))))
    world.lead(1)
    world.commit()
    most = turns = before = 0
    while world.turns:
        world.run(1)
        turns += 1
        most, before = max(most, len(world.toy.applied) - before), len(world.toy.applied)
    assert most <= loader.RECORDS_PER_PIECE and turns > loader.BATCHES_PER_READ
    assert len(world.toy.texts) == loader.BATCHES_PER_READ + 3 + 10


def test_compaction_while_it_loads_costs_nothing_that_is_kept(
    world: CoordinatorWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is compacted away behind and before the loader is superseded by what is to come."""
    monkeypatch.setattr(loader, "BATCHES_PER_READ", 4)
    for number in range(40):
        world.write(batch((f"n{number % 4}", f"{number}"), (f"once{number}", "1")))
    world.write(batch(("n0", None), ("once3", None)))
    world.lead(1)
    world.commit()
    world.run(9)
    assert 0 < len(world.toy.applied) < 40
    world.log.roll(WALL_MS)
    world.write(batch(("n1", "last")))
    world.commit()
    before = len(world.records())
    clean(world.log, wall_ms=WALL_MS)
    assert len(world.records()) < before
    world.run()
    texts, _, _ = world.toy.view()
    assert texts == world.reloaded().texts
    assert "once3" not in texts and "n0" not in texts
    assert texts["n1"][0] == "last" and texts["n2"] == ("38", 76)
    assert len(world.toy.applied) < before, "what was compacted away is not missed"


def test_a_log_whose_start_moves_while_it_loads_is_read_from_there(
    world: CoordinatorWorld,
) -> None:
    for number in range(600):
        world.write(batch((f"a{number}", "1"), (f"b{number}", "1")))
    world.lead(1)
    world.commit()
    world.run(5)
    world.log.advance_start_offset(1_001)
    world.run()
    assert world.coordinator.state is CoordinatorState.ACTIVE
    assert "b599" in world.toy.texts and "a400" not in world.toy.texts
    assert "b500" in world.toy.texts and "a500" not in world.toy.texts, "half of a batch is left"


def test_loading_waits_for_a_thread_and_does_nothing_when_it_is_unloaded_meanwhile() -> None:
    futures: list[Future[Any]] = []

    def decompress(work: Callable[[int], Any]) -> Any:
        future: Future[Any] = Future()
        futures.append(future)
        yield future
        return work(1 << 20)

    world = CoordinatorWorld(decompress=decompress)
    world.write(batch(("a", "1")))
    world.lead(1)
    world.commit()
    world.run()
    assert world.toy.applied == [] and not futures[0].done()
    first = world.toy
    world.follow(2)
    futures[0].set_result(None)
    world.run()
    assert first.applied == [] and first.is_discarded
    world.lead(3)
    world.run()
    futures[1].set_result(None)
    world.run()
    assert world.toy.texts == {"a": ("1", 0)}


def test_what_was_read_before_something_that_is_not_cached_is_applied_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(work: Callable[[], Any]) -> Any:
        yield from ()
        asked.append(len(world.toy.applied))
        return work()

    asked: list[int] = []
    world = CoordinatorWorld(read=read)
    for number in range(9):
        world.write(batch((f"n{number}", "1")))
    end_offset = world.log.end_offset
    read_all = world.log.read_all_batches

    def read_a_few(start: int, end: int) -> Iterator[Any]:
        for count, found in enumerate(read_all(start, end)):
            if count == 4:
                raise NotCachedError("a/t-0/0.log", 0, 1)
            yield found

    monkeypatch.setattr(world.log, "read_all_batches", read_a_few)
    world.lead(1)
    world.commit()
    world.run()
    assert world.coordinator.state is CoordinatorState.ACTIVE
    assert (len(world.toy.applied), asked) == (end_offset, [0, 4, 8, 9])


# By leader epoch


def test_losing_the_lead_answers_everybody_who_waits(world: CoordinatorWorld) -> None:
    toy = world.start()
    world.set("brief", "1", expires_ms=1_000)
    held, parked = world.set("a", "1"), world.wait("b")
    world.follow(2)
    assert world.replies[held] == world.replies[parked] == (NOT_COORDINATOR, None)
    assert world.order == [1, held, parked], "in the order they came"
    assert toy.is_discarded and world.runtime.get(INDEX) is None
    assert world.replies[world.get("a")] == (NOT_COORDINATOR, None)
    world.advance(60_000)
    assert toy.fired == [] and len(world.replies) == 4


def test_timers_are_dropped_with_what_they_were_for(world: CoordinatorWorld) -> None:
    toy = world.start()
    world.set("a", "1", expires_ms=1_000)
    world.commit()
    world.runtime.unload(INDEX, None)
    assert world.ports.timers.next_due(1 << 60) is None
    world.advance(10 * RETRY_MS)
    assert toy.fired == []


def test_after_a_load_timers_run_that_the_state_needs(world: CoordinatorWorld) -> None:
    world.write(batch(("brief", "1")))
    world.start()
    world.advance(59_999)
    assert world.toy.fired == []
    world.advance(1)
    assert world.records()[-1] == ("brief", None)


def test_an_unload_for_an_old_epoch_leaves_a_newer_load_alone(world: CoordinatorWorld) -> None:
    """KAFKA-18137: the unload of epoch 2 arrives behind the load of epoch 3."""
    world.start(1)
    world.follow(2, unload=False)
    world.lead(3)
    world.runtime.unload(INDEX, 2)
    world.commit()
    world.run()
    assert world.coordinator.state is CoordinatorState.ACTIVE
    world.runtime.unload(INDEX, 3)
    assert world.coordinator.state is CoordinatorState.ACTIVE, "that is the epoch we lead in"
    assert world.replies[world.get("a")] == (ErrorCode.NONE, None)


def test_a_load_for_an_old_epoch_changes_nothing(world: CoordinatorWorld) -> None:
    world.start(1)
    world.follow(2)
    world.load(1)
    assert world.runtime.get(INDEX) is None
    world.lead(3)
    world.commit()
    world.run()
    toy = world.toy
    world.load(3)
    world.load(1)
    assert world.toy is toy and world.coordinator.leader_epoch == 3


def test_a_late_unload_does_not_make_a_load_for_an_old_epoch_count() -> None:
    world = CoordinatorWorld()
    world.start(1)
    world.follow(4)
    world.runtime.unload(INDEX, 2)
    world.load(3)
    assert world.runtime.get(INDEX) is None
    world.lead(5)
    assert world.runtime.get(INDEX) is not None


def test_a_leader_that_leads_on_in_the_next_epoch_keeps_what_is_loaded(
    world: CoordinatorWorld,
) -> None:
    toy = world.start(1)
    waiting, held = world.wait("a"), world.set("b", "1")
    world.lead(2)
    assert world.toy is toy and world.replies == {}
    world.set("a", "1")
    world.commit()
    assert world.replies[held] == (ErrorCode.NONE, "set")
    assert world.replies[waiting] == (ErrorCode.NONE, "1")
    assert [epoch for _, epoch in world.sent] == [2, 2]


def test_a_coordinator_that_may_have_missed_another_leader_loads_again(
    world: CoordinatorWorld,
) -> None:
    toy = world.start(1)
    held = world.set("a", "1")
    world.follow(2, unload=False)
    world.log.truncate_to(0)
    world.lead(3)
    assert world.replies[held] == (NOT_COORDINATOR, None)
    world.commit()
    world.run()
    assert world.toy is not toy and world.toy.texts == {}


def test_a_deleted_partition_may_come_back_with_epoch_0(world: CoordinatorWorld) -> None:
    world.start(5)
    world.follow(6)
    world.runtime.unload(INDEX, None)
    assert world.runtime.get(INDEX) is None
    again = CoordinatorWorld()
    again.runtime = world.runtime
    world.runtime.load(INDEX, again.partition, 0)
    assert again.coordinator.leader_epoch == 0


def test_another_leaders_high_watermark_commits_nothing(world: CoordinatorWorld) -> None:
    """KAFKA-20634, S79: the log is cut and filled by another leader, and the unload is late."""
    world.start(1)
    lost = world.set("a", "1")
    world.follow(2, unload=False)
    world.log.truncate_to(0)
    world.write(batch(("a", "of another")))
    world.machine.high_watermark = 1
    world.runtime.high_watermark_moved(INDEX)
    assert world.replies == {} and world.sent == []
    refused = world.set("b", "1")
    assert world.replies[refused] == (NOT_COORDINATOR, None), "nor is anything written for it"
    world.lead(3, load=False)
    world.commit()
    assert lost not in world.replies and world.sent == [], "nor when it leads again"
    world.runtime.unload(INDEX, 2)
    assert world.replies[lost] == (NOT_COORDINATOR, None) and world.sent == []


def test_closing_the_runtime_answers_everybody(world: CoordinatorWorld) -> None:
    world.start()
    held = world.set("a", "1")
    world.runtime.close()
    assert world.replies[held] == (NOT_COORDINATOR, None) and list(world.runtime.all()) == []


def test_whoever_asks_while_another_is_told_that_it_is_over_hears_so_too(
    world: CoordinatorWorld,
) -> None:
    world.start()
    heard: list[ErrorCode] = []

    def ask_again(error: ErrorCode, reply: Any) -> None:
        heard.append(error)
        coordinator.submit(lambda toy, token: toy.decide_get(token, "a"), ask_last)

    def ask_last(error: ErrorCode, reply: Any) -> None:
        heard.append(error)

    coordinator = world.coordinator
    coordinator.submit(lambda toy, token: toy.decide_wait(token, "a"), ask_again)
    world.follow(2)
    assert heard == [NOT_COORDINATOR] * 2


def test_a_loaded_coordinator_is_reported() -> None:
    told: list[Toy] = []
    world = CoordinatorWorld(on_loaded=lambda coordinator: told.append(coordinator.machine))
    assert told == [] and world.start() is told[0]
