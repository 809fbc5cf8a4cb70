"""The controller's host: what is answered when, and what a write that fails takes with it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from fencepost.batch.records import build_batch, read_records
from fencepost.machines.controller import Controller, ControllerConfig, Decision, elections
from fencepost.machines.controller.config import TOKENS_PER_SWEEP, TokenSettings
from fencepost.machines.image import ClusterImage
from fencepost.machines.image.token_secret import TokenSecret
from fencepost.machines.session import Principal
from fencepost.runtime import controller_host
from fencepost.runtime.controller_host import ControllerHost, Periods
from fencepost.wire.api.create_delegation_token import CreateDelegationTokenRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records import metadata as records
from fencepost.wire.types import Uuid

from .controller_world import SESSION_MS, Asked, ControllerWorld

EXISTS = ErrorCode.TOPIC_ALREADY_EXISTS
NOT_CONTROLLER = ErrorCode.NOT_CONTROLLER


def lone(**options: Any) -> ControllerWorld:
    """The only voter, active."""
    world = ControllerWorld(1, **options)
    world.start()
    return world


def leader(**options: Any) -> ControllerWorld:
    """The leader of three voters, active and with a live broker."""
    world = ControllerWorld(3, **options)
    world.start()
    world.elect()
    world.commit()
    assert world.controller_host.controller is not None
    world.with_broker()
    return world


def a_batch(*messages: Message) -> bytearray:
    return build_batch([(None, records.encode_record(m)) for m in messages], timestamp_ms=1)


def topics_of(world: ControllerWorld) -> set[str]:
    return set(world.host.image.topics_by_name)


def records_of(world: ControllerWorld) -> list[str]:
    """The names of all records in the log, control batches left out."""
    log = world.host.log
    return [
        type(records.decode_record(record.value)).__name__
        for header, batch in log.read_all_batches(0, log.end_offset)
        if not header.is_control
        for record in read_records(batch)
    ]


# -- taking over ---------------------------------------------------------------------------------


def test_a_new_cluster_gets_its_features_in_one_transaction() -> None:
    world = lone()
    assert world.host.image.features == {"metadata.version": 33}
    assert records_of(world) == [
        "BeginTransactionRecord",
        "FeatureLevelRecord",
        "EndTransactionRecord",
    ]


def a_controller() -> Controller:
    return Controller.from_image(ClusterImage(), ControllerConfig("c"), 0)


def test_bootstrap_records_take_the_place_of_the_default_ones() -> None:
    first: list[Message] = [
        records.FeatureLevelRecord(name="metadata.version", feature_level=22),
        records.ConfigRecord(resource_type=4, resource_name="", name="x", value="1"),
    ]
    controller = a_controller()
    decision = controller.decide_take_over(first)
    names = [type(record).__name__ for record in decision.records]
    assert (names[0], names[-1]) == ("BeginTransactionRecord", "EndTransactionRecord")
    controller.apply_all(decision.records)
    assert controller.image.features == {"metadata.version": 22}
    assert controller.image.broker_configs() == {"x": "1"}
    assert controller.decide_take_over(first) == Decision([], False), "once"


def test_bootstrap_records_without_a_metadata_version_get_one() -> None:
    controller = a_controller()
    first = [records.ConfigRecord(resource_type=4, resource_name="", name="x", value="1")]
    controller.apply_all(controller.decide_take_over(first).records)
    assert controller.image.features == {"metadata.version": 33}
    assert controller.image.broker_configs() == {"x": "1"}


def test_without_transactions_the_first_records_stand_alone() -> None:
    decision = a_controller().decide_take_over((), {"metadata.version": 12})
    assert [type(record).__name__ for record in decision.records] == ["FeatureLevelRecord"]


def test_a_transaction_that_nobody_will_end_is_aborted_at_the_take_over() -> None:
    world = lone()
    world.write(
        [
            records.BeginTransactionRecord(name="half"),
            records.TopicRecord(name="half", topic_id=Uuid(b"half-done-topics")),
        ]
    )
    assert world.host.image.pending is not None
    world.restart()
    assert world.host.image.pending is None
    assert topics_of(world) == set()
    assert records_of(world)[-1] == "AbortTransactionRecord"
    world.with_broker()
    assert world.create("after").topic_error == 0


def test_a_bootstrap_that_was_cut_off_is_done_again() -> None:
    controller = a_controller()
    begun = controller.decide_take_over().records[:2]
    controller.apply_all(begun)
    assert controller.image.pending is not None and not controller.image.features
    again = controller.decide_take_over().records
    assert [type(record).__name__ for record in again] == [
        "AbortTransactionRecord",
        "BeginTransactionRecord",
        "FeatureLevelRecord",
        "EndTransactionRecord",
    ]
    controller.apply_all(again)
    assert controller.image.features == {"metadata.version": 33}


def test_a_controller_that_does_not_know_a_feature_hands_the_lead_on() -> None:
    world = leader()
    told: list[str] = []
    world.slip_in(a_batch(records.FeatureLevelRecord(name="future.version", feature_level=3)))
    world.commit()
    world.depose()
    world.controller_host.on_unfit = told.append
    world.elect()
    assert world.machine.role.value == "resigned"
    assert world.controller_host.controller is None
    assert world.create("t").error is NOT_CONTROLLER
    assert told == ["future.version is finalized at level 3, and it runs 0 to 0"]


def test_a_lone_one_says_so_and_decides_nothing() -> None:
    world = lone()
    world.write([records.FeatureLevelRecord(name="metadata.version", feature_level=34)])
    end = world.machine.end_offset
    world.restart()
    assert world.controller_host.controller is None
    assert world.machine.end_offset == end + 1, "the quorum's own first record, no more"


# -- answers wait for the commit -----------------------------------------------------------------


def test_answers_come_with_the_commit_and_in_order() -> None:
    world = leader()
    one, two, again = world.create("one"), world.create("two"), world.create("one")
    assert (one.told, two.told, again.told) == ([], [], []), "also what needs no record waits"
    assert topics_of(world) == set(), "nothing that is not committed is seen"
    world.commit()
    assert (one.topic_error, two.topic_error, again.topic_error) == (0, 0, EXISTS)
    assert topics_of(world) == {"one", "two"}


def test_what_is_decided_during_a_write_follows_in_one_go() -> None:
    world = leader()
    first = world.create("first")
    others = [world.create(f"other-{n}") for n in range(5)]
    log_end = world.machine.end_offset
    world.fetch()
    assert first.topic_error == 0
    assert [one.told for one in others] == [[]] * 5
    assert world.machine.end_offset == log_end + 10, "five topics of two records each"
    world.fetch()
    assert [one.topic_error for one in others] == [0] * 5


def test_too_many_who_wait_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    world = leader()
    monkeypatch.setattr(controller_host, "MAX_WAITING", 2)
    one, two, three = world.create("one"), world.create("two"), world.create("three")
    assert three.error is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.commit()
    assert (one.topic_error, two.topic_error) == (0, 0)
    assert world.create("three").error is None, "there is room again"


def test_a_brokers_epoch_is_the_offset_of_its_registration() -> None:
    world = leader()
    world.slip_in(a_batch(records.NoOpRecord(), records.NoOpRecord(), records.NoOpRecord()))
    registered = world.register(20)
    other = world.register(21)
    world.commit()
    for asked, broker_id in ((registered, 20), (other, 21)):
        epoch = asked.reply.broker_epoch
        assert world.host.image.brokers[broker_id].epoch == epoch
        assert isinstance(record_at(world, epoch), records.RegisterBrokerRecord)


def record_at(world: ControllerWorld, offset: int) -> Message:
    log = world.host.log
    for header, batch in log.read_all_batches(0, log.end_offset):
        for record in read_records(batch) if not header.is_control else ():
            if record.offset == offset:
                return records.decode_record(record.value)
    raise AssertionError(f"nothing at {offset}")


# -- writes that fail ------------------------------------------------------------------------------


def test_with_the_leadership_everything_undecided_is_lost_and_said_so() -> None:
    world = leader()
    kept = world.create("kept")
    world.commit()
    one, two, exists = world.create("one"), world.create("two"), world.create("one")
    world.depose()
    assert [asked.error for asked in (one, two, exists)] == [NOT_CONTROLLER] * 3
    assert kept.topic_error == 0
    assert world.controller_host.controller is None
    assert world.create("three").error is NOT_CONTROLLER
    assert topics_of(world) == {"kept"}


def test_a_leader_again_begins_from_what_is_committed() -> None:
    world = leader()
    lost = world.create("lost")
    world.depose()
    # The new leader never had the topic: it goes from this log, too.
    world.truncate_to_committed()
    world.elect()
    world.commit()
    assert world.machine.role.value == "leader"
    assert lost.error is NOT_CONTROLLER
    again = world.create("lost")
    world.commit()
    assert again.topic_error == 0, "it was thought to exist"
    assert topics_of(world) == {"lost"}
    assert not world.broken


def test_what_the_next_leader_keeps_is_there_when_this_one_leads_again() -> None:
    world = leader()
    unknown = world.create("kept")
    world.depose()
    world.elect()  # no other leader has written: the record stays, below the new epoch
    world.commit()
    assert unknown.error is NOT_CONTROLLER, "may or may not have happened"
    assert topics_of(world) == {"kept"}
    assert world.create("kept").topic_error == EXISTS


class Interloper:
    """In the middle of a step, a batch gets in line before two decisions do."""

    def __init__(self, world: ControllerWorld) -> None:
        self.world = world
        self.asked: list[Asked] = []
        self.is_done = False

    def stepped(self) -> None:
        if not self.is_done:
            self.is_done = True
            self.world.slip_in(a_batch(records.NoOpRecord()))
            self.asked = [self.world.create("one"), self.world.create("two")]


def with_interloper(**options: Any) -> Interloper:
    world = leader(**options)
    interloper = Interloper(world)
    world.host.on_step(interloper.stepped)
    world.fetch()
    return interloper


def test_a_batch_that_comes_to_stand_elsewhere_is_refused_with_all_behind_it() -> None:
    interloper = with_interloper()
    world = interloper.world
    assert [asked.error for asked in interloper.asked] == [NOT_CONTROLLER] * 2
    world.commit()
    assert topics_of(world) == set()
    assert "TopicRecord" not in records_of(world), "nor has the second slipped through"
    again = [world.create("one"), world.create("two")]
    world.commit()
    assert [asked.topic_error for asked in again] == [0, 0]
    assert not world.broken


def test_until_what_is_in_the_log_is_committed_there_is_no_controller() -> None:
    world = leader()
    interloper = Interloper(world)
    interloper.is_done = True
    world.host.on_step(interloper.stepped)
    interloper.is_done = False
    world.slip_in(a_batch(records.NoOpRecord()))  # steps, and so lets the interloper in
    assert [asked.error for asked in interloper.asked] == [NOT_CONTROLLER] * 2
    assert world.controller_host.controller is None
    assert world.create("early").error is NOT_CONTROLLER
    world.commit()
    assert world.controller_host.controller is not None
    assert world.create("early").error is None


class Unreverted(ControllerHost):
    """The old mistake: what could not be written stays in the controller's state."""

    def _revert_state(self) -> None:
        pass


def test_a_controller_that_is_not_reverted_believes_in_what_was_never_written() -> None:
    world = with_interloper(host_class=Unreverted).world
    world.commit()
    lie = world.create("one")
    world.commit()
    assert lie.topic_error == EXISTS
    assert "one" not in topics_of(world), "so the tests above do see whether it is reverted"


def test_a_disk_that_fails_is_told_to_everybody_who_waits() -> None:
    world = leader()
    waiting = world.create("one")
    world.ports.driver.disk_failed("__cluster_metadata-0", "no space")
    assert waiting.error in (ErrorCode.KAFKA_STORAGE_ERROR, NOT_CONTROLLER)
    assert world.controller_host.controller is None
    assert world.create("two").error is NOT_CONTROLLER


def test_a_mistake_in_a_decision_changes_nothing() -> None:
    world = leader()

    def decide(controller: Controller) -> Decision:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        world.ask(decide)
    unfit = records.RemoveTopicRecord(topic_id=Uuid(b"no topic has it!"))
    with pytest.raises(Exception, match="no topic has the id"):
        world.ask(lambda controller: Decision([unfit], None))
    fine = world.create("fine")
    world.commit()
    assert fine.topic_error == 0 and not world.broken


# -- acting without being asked --------------------------------------------------------------------


def test_a_silent_broker_is_fenced_on_a_node_without_a_broker() -> None:
    world = leader()
    assert not world.host.image.brokers[9].fenced
    world.pass_by(SESSION_MS - 1)
    assert not world.host.image.brokers[9].fenced
    world.pass_by(2)
    assert world.host.image.brokers[9].fenced


def test_a_broker_that_is_heard_of_is_not() -> None:
    world = leader()
    epoch = world.host.image.brokers[9].epoch
    for _ in range(10):
        world.pass_by(SESSION_MS - 1)
        world.beat(epoch)
        world.commit()
        assert not world.host.image.brokers[9].fenced


def test_a_broker_unfenced_long_after_the_take_over_is_watched_too() -> None:
    world = ControllerWorld(1)
    world.start()
    world.timers.advance(5 * SESSION_MS + 17)
    world.with_broker()
    assert not world.host.image.brokers[9].fenced
    world.timers.advance(SESSION_MS + 1)
    assert world.host.image.brokers[9].fenced


@pytest.mark.parametrize("jump_ms", [-3_600_000, 3_600_000])
def test_a_wall_clock_that_is_set_makes_no_session_longer_or_shorter(jump_ms: int) -> None:
    world = ControllerWorld(1)
    world.start()
    epoch = world.with_broker()
    world.timers.advance(SESSION_MS // 2)
    world.timers.wall_ahead_ms += jump_ms
    world.timers.advance(SESSION_MS // 2 - 1)
    assert not world.host.image.brokers[9].fenced
    world.beat(epoch)
    world.timers.advance(SESSION_MS - 1)
    assert not world.host.image.brokers[9].fenced
    world.timers.advance(2)
    assert world.host.image.brokers[9].fenced


def test_a_deposed_controller_fences_no_broker() -> None:
    world = leader()
    world.depose()
    end = world.machine.end_offset
    world.timers.advance(3 * SESSION_MS)
    assert world.machine.end_offset == end


def test_an_idle_log_of_several_voters_goes_on() -> None:
    world = leader(periods=Periods(unclean_election_ms=0, preferred_election_ms=0, max_idle_ms=500))
    before = len(records_of(world))
    world.timers.advance(499)
    assert len(records_of(world)) == before
    world.timers.advance(1)
    assert records_of(world)[before:] == ["NoOpRecord"]
    world.commit()
    world.timers.advance(300)
    world.create("busy")
    world.commit()
    world.timers.advance(300)
    assert records_of(world)[-1] == "PartitionRecord", "it is not idle"


def test_a_lone_voters_log_rests() -> None:
    world = lone(periods=Periods(unclean_election_ms=0, preferred_election_ms=0, max_idle_ms=500))
    before = len(records_of(world))
    world.timers.advance(5_000)
    assert len(records_of(world)) == before


def test_partitions_get_unclean_leaders_now_and_then() -> None:
    world = lone(
        periods=Periods(unclean_election_ms=60_000, preferred_election_ms=0, max_idle_ms=0)
    )
    epoch = world.with_broker()
    assert world.create("t").topic_error == 0
    topic = world.host.image.topics_by_name["t"]
    world.write(
        [
            records.ConfigRecord(
                resource_type=2,
                resource_name="t",
                name="unclean.leader.election.enable",
                value="true",
            ),
            records.PartitionChangeRecord(
                partition_id=0, topic_id=topic.topic_id, isr=[77], leader=-1, replicas=[9, 77]
            ),
        ]
    )
    world.controller_host.controller.skip_to(world.machine.end_offset)  # type: ignore[union-attr]
    world.restart()
    for _ in range(7):
        world.beat(epoch)
        world.timers.advance(SESSION_MS - 10)
    assert world.host.image.topics_by_name["t"].partitions[0].leader == 9


def test_leadership_goes_back_to_preferred_replicas_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In rounds, each as soon as the one before is committed."""
    monkeypatch.setattr(controller_host, "ELECTIONS_PER_ROUND", 2)
    monkeypatch.setattr(elections, "ELECTIONS_PER_ROUND", 2)
    world = lone(
        periods=Periods(unclean_election_ms=0, preferred_election_ms=60_000, max_idle_ms=0)
    )
    epoch = world.with_broker()
    names = ["t0", "t1", "t2", "t3", "t4"]
    for name in names:
        assert world.create(name).topic_error == 0
    world.write(
        [
            records.PartitionChangeRecord(
                partition_id=0,
                topic_id=world.host.image.topics_by_name[name].topic_id,
                isr=[77, 9],
                leader=77,
                replicas=[9, 77],
            )
            for name in names
        ]
    )
    world.restart()
    leaders = set()
    for _ in range(7):
        leaders |= leaders_of(world, names)
        world.beat(epoch)
        world.timers.advance(SESSION_MS - 10)
    assert (leaders, leaders_of(world, names)) == ({77}, {9})


def leaders_of(world: ControllerWorld, names: list[str]) -> set[int]:
    topics = world.host.image.topics_by_name
    return {topics[name].partitions[0].leader for name in names}


# -- too much ------------------------------------------------------------------------------------


def configs_of(count: int) -> Decision:
    made: list[Message] = [
        records.ConfigRecord(resource_type=4, resource_name="", name=f"c{n}", value="v" * 100)
        for n in range(count)
    ]
    return Decision(made, "done")


def test_a_decision_that_is_too_large_is_dropped_and_the_next_is_not() -> None:
    world = leader()
    end = world.machine.end_offset
    answers: list[Asked] = []
    for count in (11, 3):
        answers.append(Asked())
        world.controller_host.submit(
            lambda c, count=count: configs_of(count), answers[-1], max_batch_bytes=1_000
        )
    assert answers[0].told == [(ErrorCode.POLICY_VIOLATION, None)]
    assert world.controller_host.controller is not None, "and it goes on"
    world.commit()
    assert answers[1].told == [(ErrorCode.NONE, "done")]
    assert world.machine.end_offset == end + 3
    assert sorted(world.host.image.broker_configs()) == ["c0", "c1", "c2"]


def test_what_the_controller_decides_for_itself_has_no_bound() -> None:
    world = leader()
    asked = world.ask(lambda c: configs_of(20))
    world.commit()
    assert asked.told == [(ErrorCode.NONE, "done")]
    assert len(world.host.image.broker_configs()) == 20


def test_expired_tokens_are_removed_by_the_active_controller_now_and_then() -> None:
    world = leader(
        periods=Periods(
            unclean_election_ms=0, preferred_election_ms=0, max_idle_ms=0, token_sweep_ms=60_000
        ),
        tokens=TokenSettings(TokenSecret("hush"), 10_000, 10_000),
    )
    now_ms = world.timers.wall_ms
    requester = Principal("User", "ada")
    request = CreateDelegationTokenRequest(max_lifetime_ms=-1)

    def create_token(token_id: str, controller: Controller) -> Decision:
        return controller.security.decide_create_token(request, requester, token_id, now_ms)

    for number in range(TOKENS_PER_SWEEP + 1):
        world.controller_host.submit(
            partial(create_token, f"t{number}"),
            lambda error, reply: None,
        )
    world.commit()
    assert len(world.host.image.tokens) == TOKENS_PER_SWEEP + 1
    world.pass_by(59_000)
    assert len(world.host.image.tokens) == TOKENS_PER_SWEEP + 1
    world.pass_by(2_000)
    assert not world.host.image.tokens, "the second round follows the first at once"
