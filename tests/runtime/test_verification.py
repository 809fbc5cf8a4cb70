"""Leaders' questions to coordinators of transactions: batched, in order, answered once each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.broker.config.keys import BROKER_CONFIGS
from fencepost.machines.group.partitioner import partition_for
from fencepost.runtime.verification import (
    BEHIND_MAX,
    CLAIMS_MAX,
    CLAIMS_PER_REQUEST,
    MAX_IN_FLIGHT,
    PARTITIONS_PER_REQUEST,
    Claim,
    Verifier,
)
from fencepost.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from fencepost.wire.errors import ErrorCode

from ..broker.apis.harness import StillTimers

NONE, NETWORK = ErrorCode.NONE, ErrorCode.NETWORK_EXCEPTION
CONCURRENT, FENCED = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_PRODUCER_EPOCH
T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


class Asked:
    """A request under way, and how it is answered."""

    def __init__(self, node_id: int, request: Any, on_response: Any, on_failure: Any) -> None:
        self.node_id, self.fail = node_id, on_failure
        self.on_response = on_response
        self.transactions = {one.transactional_id: one for one in request.transactions}
        assert len(self.transactions) == len(request.transactions), "an id is named twice"

    def answer(self, errors: dict[Any, int] | None = None, error: int = 0) -> None:
        """Agree to everything but where `errors` by partition or id says otherwise."""
        response = AddPartitionsToTxnResponse(error_code=error)
        for name, one in self.transactions.items():
            result = AddPartitionsToTxnResult(transactional_id=name)
            response.results_by_transaction.append(result)
            for topic in one.topics:
                told = AddPartitionsToTxnTopicResult(name=topic.name)
                result.topic_results.append(told)
                for index in topic.partitions:
                    code = (errors or {}).get((topic.name, index), (errors or {}).get(name, 0))
                    told.results_by_partition.append(
                        AddPartitionsToTxnPartitionResult(
                            partition_index=index, partition_error_code=int(code)
                        )
                    )
        self.on_response(response)


class Questions:
    """A verifier on node 1; 1, 2 and 3 coordinate a partition each, and the fourth has none."""

    def __init__(self, retry_max_ms: int = 100) -> None:
        self.asked: list[Asked] = []
        self.timers = StillTimers()
        self.leaders = [1, 2, 3, -1]
        ports = SimpleNamespace(timers=self.timers, now_ms=lambda: self.timers.now_ms)
        self.verifier = Verifier(1, ports, self.image, self, 20, retry_max_ms)
        self.outcomes: list[dict[Any, ErrorCode]] = []

    def image(self) -> Any:
        partitions = [SimpleNamespace(leader=leader) for leader in self.leaders]
        topic = SimpleNamespace(partitions=partitions)
        return SimpleNamespace(topics_by_name={"__transaction_state": topic})

    def ask_here(self, request: Any, on_response: Any) -> None:
        self.asked.append(Asked(1, request, on_response, None))

    def ask(self, node_id: int, request: Any, on_response: Any, on_failure: Any) -> None:
        assert node_id != 1
        self.asked.append(Asked(node_id, request, on_response, on_failure))

    def fill(self, node: int) -> list[str]:
        """Have as many requests under way to a node as may be; the ids that they ask about."""
        names = names_at(node, 100)[-MAX_IN_FLIGHT:]
        for name in names:
            self.claim(name)
        return names

    def claim(
        self, name: str, *partitions: Any, pid: int = 7, epoch: int = 0, adds: bool = False
    ) -> dict[Any, ErrorCode]:
        """What becomes of it, when that is known."""
        outcome: dict[Any, ErrorCode] = {}

        def take(told: Any) -> None:
            assert not outcome, "answered twice"
            outcome.update(told)

        self.verifier.ask(Claim(name, pid, epoch, adds, partitions or (T0,)), take)
        return outcome


def names_at(node: int, count: int = 1) -> list[str]:
    """Transactional ids whose partition the node leads."""
    found = (f"id-{n}" for n in range(10_000) if partition_for(f"id-{n}", 4) == node - 1)
    return [next(found) for _ in range(count)]


@pytest.fixture
def world() -> Questions:
    return Questions()


@pytest.mark.parametrize("node", [1, 2])
@pytest.mark.parametrize("adds", [True, False])
def test_the_node_of_the_id_is_asked_about_every_partition(
    world: Questions, node: int, adds: bool
) -> None:
    [name] = names_at(node)
    outcome = world.claim(name, T0, U0, T1, adds=adds, epoch=3)
    [asked] = world.asked
    one = asked.transactions[name]
    assert (asked.node_id, one.producer_id, one.producer_epoch, one.verify_only) == (
        node,
        7,
        3,
        not adds,
    )
    assert [(t.name, t.partitions) for t in one.topics] == [("t", [0, 1]), ("u", [0])]
    asked.answer({U0: ErrorCode.TRANSACTION_ABORTABLE})
    assert outcome == {T0: NONE, U0: ErrorCode.TRANSACTION_ABORTABLE, T1: NONE}


def test_what_comes_while_a_request_is_under_way_goes_with_the_next(world: Questions) -> None:
    others = names_at(2, 3)
    world.fill(2)
    outcomes = [world.claim(name) for name in others]
    world.claim(names_at(3)[0])
    asked_nodes = [asked.node_id for asked in world.asked]
    assert asked_nodes == [2] * MAX_IN_FLIGHT + [3], "nodes do not wait for each other"
    world.asked[0].answer()
    assert set(world.asked[-1].transactions) == set(others)
    world.asked[-1].answer()
    assert outcomes == [{T0: NONE}] * 3 and len(world.asked) == MAX_IN_FLIGHT + 2


def test_a_claim_that_waits_for_a_transaction_to_be_complete_holds_up_no_other(
    world: Questions,
) -> None:
    """The coordinator answers it when the transaction before is complete, or some time is over."""
    first, *others = names_at(2, 3)
    waiting = world.claim(first, adds=True)
    outcomes = [world.claim(name, adds=True) for name in others]
    world.asked[1].answer()
    world.asked[2].answer()
    assert not waiting and outcomes == [{T0: NONE}] * 2
    world.asked[0].answer()
    assert waiting == {T0: NONE}


@pytest.mark.parametrize("adds", [True, False])
def test_what_a_producer_has_behind_a_claim_is_asked_together(world: Questions, adds: bool) -> None:
    [name] = names_at(2)
    first, one, other = (
        world.claim(name, *partitions, adds=adds) for partitions in ([T0], [T0, T1], [T1, U0])
    )
    assert len(world.asked) == 1
    world.asked[0].answer()
    assert (first, one, other) == ({T0: NONE}, {}, {})
    [_, asked] = world.asked
    assert [(t.name, t.partitions) for t in asked.transactions[name].topics] == [
        ("t", [0, 1]),
        ("u", [0]),
    ]
    asked.answer({T1: ErrorCode.TRANSACTION_ABORTABLE})
    assert one == {T0: NONE, T1: ErrorCode.TRANSACTION_ABORTABLE}
    assert other == {T1: ErrorCode.TRANSACTION_ABORTABLE, U0: NONE}


@pytest.mark.parametrize("adds", [True, False])
def test_who_need_not_ask_does_not_overtake_who_must(world: Questions, adds: bool) -> None:
    """The first request began the transaction; the second of them is still asked about."""
    [name] = names_at(2)
    order: list[int] = []
    producer = Claim(name, 7, 0, adds)

    def ask(number: int, *partitions: Any) -> None:
        claim = replace(producer, partitions=partitions)
        world.verifier.ask(claim, lambda told: order.append(number))

    assert not world.verifier.is_asking(replace(producer, partitions=(T0,)))
    ask(0)
    assert order == [0] and not world.asked, "no claim is before it"
    ask(1, T0)
    ask(2, T0)
    world.asked[0].answer()
    ask(3)
    ask(4)
    assert order == [0, 1] and world.verifier.is_asking(producer)
    assert not world.verifier.is_asking(replace(producer, producer_epoch=1))
    world.asked[1].answer()
    assert order == [0, 1, 2, 3, 4] and len(world.asked) == 2
    assert not world.verifier.is_asking(producer)


@pytest.mark.parametrize(
    ("later", "older_hears", "later_hears"),
    [
        ({"epoch": 6}, FENCED, None),
        ({"epoch": 4}, None, FENCED),
        ({"pid": 8}, NETWORK, None),
        ({"adds": True}, NETWORK, None),
    ],
)
def test_another_claim_of_the_id_takes_the_place_of_what_waits(
    world: Questions, later: Any, older_hears: Any, later_hears: Any
) -> None:
    [name] = names_at(2)
    world.fill(2)
    older = world.claim(name, T0, epoch=5)
    newer = world.claim(name, T1, **{"epoch": 5, **later})
    assert older == ({} if older_hears is None else {T0: older_hears})
    assert newer == ({} if later_hears is None else {T1: later_hears})
    world.asked[0].answer()
    world.asked[-1].answer()
    assert {**older, **newer} == {T0: older_hears or NONE, T1: later_hears or NONE}


def test_a_request_that_fails_is_nobodys_agreement(world: Questions) -> None:
    [name] = names_at(2)
    outcome = world.claim(name, T0, T1)
    world.asked[0].fail("it is gone")
    assert outcome == {T0: NETWORK, T1: NETWORK}
    again = world.claim(name)
    world.asked[1].answer()
    assert again == {T0: NONE}


def test_every_answer_is_counted_with_its_errors_and_its_time(world: Questions) -> None:
    told: list[tuple[int, int]] = []
    world.verifier.on_told = lambda waited_ms, failures: told.append((waited_ms, failures))
    first, second = names_at(2, 2)
    world.claim(first, T0, T1)
    world.claim(second, T0)
    world.timers.now_ms += 30
    world.asked[0].answer({T1: ErrorCode.PRODUCER_FENCED})
    assert told == [(30, 1)]
    world.timers.now_ms += 5
    world.asked[1].fail("it is gone")
    assert told == [(30, 1), (35, 1)]
    world.claim(names_at(4)[0], T0, T1)
    assert told[2:] == [(0, 2)], "it has no coordinator"


@pytest.mark.parametrize("node", [1, 2])
def test_a_callback_that_raises_does_not_hold_up_others(world: Questions, node: int) -> None:
    """Otherwise nothing of that node would ever be answered again."""
    stumbles, beside, later = names_at(node, 3)
    world.fill(node)

    def stumble(told: Any) -> None:
        raise RuntimeError(told)

    world.verifier.ask(Claim(stumbles, 7, 0, False, (T0,)), stumble)
    behind, told = world.claim(stumbles), world.claim(beside)
    world.asked.pop(0).answer()
    after = world.claim(later)
    while world.asked:
        world.asked.pop(0).answer()
    assert [behind, told, after] == [{T0: NONE}] * 3


@pytest.mark.parametrize(
    ("error", "told"),
    [(31, ErrorCode.INVALID_TXN_STATE), (35, ErrorCode.UNSUPPORTED_VERSION), (999, -1)],
)
def test_an_error_of_the_whole_answer_is_everybodys(
    world: Questions, error: int, told: int
) -> None:
    outcome = world.claim(names_at(1)[0])
    world.asked[0].answer(error=error)
    assert outcome == {T0: told}


def test_what_an_answer_leaves_out_is_not_agreed_to(world: Questions) -> None:
    name, other = names_at(2, 2)
    outcome = world.claim(name, T0, T1)
    asked = world.asked[0]
    del asked.transactions[name].topics[0].partitions[1]
    asked.transactions["a stranger"] = asked.transactions[name]
    asked.answer()
    assert outcome == {T0: NONE, T1: NETWORK}
    outcome = world.claim(other)
    world.asked[1].transactions.clear()
    world.asked[1].answer()
    assert outcome == {T0: NETWORK}


def test_without_a_coordinator_no_request_is_sent(world: Questions) -> None:
    assert world.claim(names_at(4)[0]) == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    world.verifier._image = lambda: SimpleNamespace(topics_by_name={})
    assert world.claim(names_at(1)[0]) == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert not world.asked


def test_who_adds_asks_again_while_the_last_transaction_ends(world: Questions) -> None:
    """KAFKA-18654: producers would wait longer than that."""
    [name] = names_at(1)
    outcome = world.claim(name, T0, T1, adds=True)
    for _ in range(5):
        world.asked[-1].answer({T1: CONCURRENT})
        assert not outcome
        world.timers.advance(20)
    assert len(world.asked) == 6
    world.asked[-1].answer({T1: CONCURRENT})
    assert outcome == {T0: NONE, T1: CONCURRENT}, "the time is up"
    outcome = world.claim(name, adds=True)
    world.asked[-1].answer({T0: CONCURRENT})
    world.timers.advance(20)
    world.asked[-1].answer()
    assert outcome == {T0: NONE}
    outcome = world.claim(name)
    world.asked[-1].answer({T0: CONCURRENT})
    assert outcome == {T0: CONCURRENT}, "who only verifies is told"


def test_who_adds_is_never_overtaken_by_its_own_next_request(world: Questions) -> None:
    """Two requests of one connection: the second must not be appended before the first, whose
    claim pauses while the transaction before completes."""
    [name] = names_at(2)
    first, second = world.claim(name, adds=True), world.claim(name, T0, T1, adds=True)
    world.asked[-1].answer({T0: CONCURRENT})
    assert len(world.asked) == 1, "it is complete now, and the first asks before the second"
    world.timers.advance(20)
    assert list(world.asked[-1].transactions) == [name] and len(world.asked) == 2
    assert not second
    world.asked[-1].answer()
    assert (first, second) == ({T0: NONE}, {})
    world.asked[-1].answer()
    assert second == {T0: NONE, T1: NONE}
    world.claim(name, adds=True)
    refused = [world.claim(name, adds=True) for _ in range(BEHIND_MAX + 1)][-1]
    assert refused == {T0: NETWORK}, "what waits is bounded"
    assert world.claim(name, epoch=1, adds=True) == {}, "another epoch waits for no claim"


def test_a_slow_disk_has_time_to_complete_the_last_transaction() -> None:
    """Two rounds of records, each fsynced by a leader and then by followers, at 120 ms each."""
    config = BROKER_CONFIGS["add.partitions.to.txn.retry.backoff.max.ms"]
    world = Questions(retry_max_ms=config.default)
    outcome = world.claim(*names_at(2), adds=True)
    while world.timers.now_ms < 4 * 120:
        world.asked[-1].answer({T0: CONCURRENT})
        assert not outcome, "the claim is not answered yet"
        world.timers.advance(20)
    world.asked[-1].answer()
    assert outcome == {T0: NONE}


def test_what_waits_is_bounded(world: Questions) -> None:
    world.fill(2)
    world.leaders = [2, 2, 2, 2]
    for n in range(CLAIMS_MAX):
        world.verifier.ask(Claim(f"many-{n}", n, 0, False, (T0,)), world.outcomes.append)
    assert not world.outcomes
    assert world.claim("one more") == {T0: NETWORK}
    for asked in iter(lambda: world.asked.pop() if world.asked else None, None):
        asked.answer()
    assert len(world.outcomes) == CLAIMS_MAX


def test_a_request_has_only_so_many_claims(world: Questions) -> None:
    world.fill(2)
    world.leaders = [2, 2, 2, 2]
    for n in range(CLAIMS_PER_REQUEST + 1):
        world.verifier.ask(Claim(f"many-{n}", n, 0, False, (T0,)), world.outcomes.append)
    sent = []
    while world.asked:
        asked = world.asked.pop(0)
        sent.append(len(asked.transactions))
        asked.answer()
    assert sent == [*[1] * MAX_IN_FLIGHT, CLAIMS_PER_REQUEST, 1]
    assert len(world.outcomes) == CLAIMS_PER_REQUEST + 1


def test_a_request_has_only_as_many_partitions_as_a_node_takes(world: Questions) -> None:
    wide, wider, narrow = names_at(2, 3)
    half = tuple(("t", index) for index in range(PARTITIONS_PER_REQUEST // 2))
    before = world.fill(2)
    wide_outcome = world.claim(wide, *half)
    world.claim(wider, *half, ("u", 0))
    world.claim(narrow, T0)
    sent = []
    while world.asked:
        asked = world.asked.pop(0)
        sent.append(list(asked.transactions))
        asked.answer()
    assert sent == [*([name] for name in before), [wide], [wider, narrow]]
    assert wide_outcome == dict.fromkeys(half, NONE)


def test_a_claim_wider_than_a_request_should_be_is_asked_alone(world: Questions) -> None:
    wide, other = names_at(2, 2)
    before = world.fill(2)
    outcome = world.claim(wide, *(("t", index) for index in range(PARTITIONS_PER_REQUEST + 1)))
    world.claim(other)
    world.asked[0].answer()
    sent = [list(asked.transactions) for asked in world.asked]
    assert sent == [*([name] for name in before), [wide]]
    world.asked[-1].answer()
    assert set(outcome.values()) == {NONE} and list(world.asked[-1].transactions) == [other]


def test_what_a_producer_has_behind_a_claim_is_no_wider_than_a_request(world: Questions) -> None:
    [name] = names_at(2)
    world.claim(name)
    most = tuple(("t", index) for index in range(PARTITIONS_PER_REQUEST))
    before = world.claim(name, *most)
    assert world.claim(name, U0) == {U0: NETWORK}, "it comes again"
    world.asked.pop().answer()
    world.asked.pop().answer()
    assert before == dict.fromkeys(most, NONE)
