"""The cluster image: persistent maps, what each record means, and differences between images."""

from __future__ import annotations

import subprocess
import sys
import zlib
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fencepost.machines.image import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    PersistentMap,
    ReplayError,
    apply_records,
    diff,
    persistent as tree,
)
from fencepost.machines.image.acls import Acl
from fencepost.wire.message import Message
from fencepost.wire.records import metadata as records
from fencepost.wire.records.metadata import decode_record, encode_record
from fencepost.wire.types import Uuid


def uuid(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


# -- persistent maps ---------------------------------------------------------------------------

KEYS = st.one_of(
    st.integers(-(2**63), 2**63),
    st.text(max_size=4),
    st.binary(max_size=4),
    st.tuples(st.integers(0, 4), st.text(max_size=2)),
)


@given(st.lists(st.tuples(KEYS, st.one_of(st.none(), st.integers())), max_size=200))
def test_a_map_is_what_a_dict_is(changes: list[tuple[Any, int | None]]) -> None:
    plain: dict[Any, int] = {}
    mapped: PersistentMap[Any, int] = PersistentMap()
    before: list[tuple[PersistentMap[Any, int], dict[Any, int]]] = []
    for key, value in changes:
        before.append((mapped, dict(plain)))
        mapped = mapped.update({key: value})
        if value is None:
            plain.pop(key, None)
        else:
            plain[key] = value
    assert mapped == plain and len(mapped) == len(plain)
    assert sorted(map(repr, mapped)) == sorted(map(repr, plain))
    for old, was in before[:: max(1, len(before) // 8)]:
        assert old == was, "an old map stays as it was"
        found = {key: (a, b) for key, a, b in mapped.changes_since(old)}
        keys = was.keys() | plain.keys()
        assert found == {k: (was.get(k), plain.get(k)) for k in keys if was.get(k) != plain.get(k)}


@given(
    st.dictionaries(st.integers(0, 300), st.integers(), max_size=100),
    st.dictionaries(st.integers(0, 300), st.integers(), min_size=tree.MANY_KEYS, max_size=200),
    st.sampled_from([1, 3, 1 << 31]),
)
def test_many_values_at_once_are_the_same_as_one_after_the_other(
    first: dict[int, int], many: dict[int, int], hashes: int
) -> None:
    """The same tree, so that iterating it gives the same order; hashes may clash, too."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tree, "_hash_of", lambda key: zlib.crc32(bytes([key % 256])) % hashes)
        begun: PersistentMap[int, int] = PersistentMap(first)
        slowly = begun
        for key, value in many.items():
            slowly = slowly.set(key, value)
        at_once = begun.update(many)
        assert at_once._root == slowly._root and list(at_once) == list(slowly)
        assert len(at_once) == len(slowly) == len(first | many)
        assert begun == first, "an old map stays as it was"


def test_maps_grow_deep_and_survive_equal_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    big = PersistentMap((f"topic-{n}", n) for n in range(5_000))
    assert list(big.items()) == [(key, big[key]) for key in big] and len(big.items()) == 5_000
    assert list(big.values()) == [big[key] for key in big] and ("topic-7", 7) in big.items()
    assert len(big) == 5_000 and big["topic-4711"] == 4711
    with pytest.raises(KeyError):
        big["topic-5000"]
    monkeypatch.setattr(tree, "_hash_of", lambda key: 7)
    clash = PersistentMap((n, n) for n in range(100))
    assert len(clash) == 100 and clash[99] == 99 and 100 not in clash
    assert len(clash.remove(50)) == 99


def test_changes_cost_what_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    old = PersistentMap((f"topic-{n}", n) for n in range(5_000))
    new = old.set("topic-1", -1)
    seen = 0
    entries = tree._entries

    def counting(node: Any) -> Any:
        nonlocal seen
        for entry in entries(node):
            seen += 1
            yield entry

    monkeypatch.setattr(tree, "_entries", counting)
    assert list(new.changes_since(old)) == [("topic-1", 1, -1)]
    assert seen <= 4 * tree.LEAF_KEYS


def test_maps_refuse_what_they_cannot_hold() -> None:
    empty: PersistentMap[Any, Any] = PersistentMap()
    with pytest.raises(TypeError, match="float"):
        empty.set(1.5, 1)
    with pytest.raises(KeyError):
        empty.remove("gone")
    assert empty.update({}) is empty and empty.get(None) is None
    assert PersistentMap({None: 1})[None] == 1


def test_iteration_does_not_depend_on_the_process() -> None:
    code = (
        "from fencepost.machines.image import PersistentMap\n"
        "print(list(PersistentMap((f't{n}', n) for n in range(300))))"
    )
    orders = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(orders) == 1


# -- records -----------------------------------------------------------------------------------

TOPIC = uuid(1000)


def partition_record(index: int, **changes: Any) -> records.PartitionRecord:
    values: dict[str, Any] = {
        "partition_id": index,
        "topic_id": TOPIC,
        "replicas": [1, 2, 3],
        "isr": [1, 2],
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": [uuid(101), uuid(102), uuid(103)],
        **changes,
    }
    return records.PartitionRecord(**values)


def change(index: int = 0, **changes: Any) -> records.PartitionChangeRecord:
    return records.PartitionChangeRecord(partition_id=index, topic_id=TOPIC, **changes)


def broker_record(broker_id: int = 1, epoch: int = 10, **changes: Any) -> Message:
    return records.RegisterBrokerRecord(
        broker_id=broker_id,
        broker_epoch=epoch,
        incarnation_id=uuid(broker_id),
        end_points=[records.BrokerEndpoint(name="PLAINTEXT", host="h", port=9092)],
        features=[
            records.BrokerFeature(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            )
        ],
        log_dirs=[uuid(100 + broker_id)],
        **changes,
    )


def image_of(*messages: Message, base: ClusterImage | None = None) -> ClusterImage:
    """The image of records that have been written to a log and read back."""
    read = [decode_record(encode_record(message)) for message in messages]
    return apply_records(base or ClusterImage(), read)


def with_topic() -> ClusterImage:
    topic = records.TopicRecord(name="t", topic_id=TOPIC)
    return image_of(broker_record(), topic, partition_record(0), partition_record(1))


def test_a_broker_registers_changes_and_goes() -> None:
    image = image_of(broker_record(rack="r1"))
    broker = image.brokers[1]
    assert (broker.epoch, broker.rack, broker.fenced, broker.is_active) == (10, "r1", True, False)
    assert broker.listeners[0].port == 9092 and broker.features[0].max_level == 30

    def changed(**changes: Any) -> BrokerImage:
        record = records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, **changes)
        return image_of(record, base=image).brokers[1]

    assert not changed(fenced=-1).fenced and changed(fenced=1).fenced and changed().fenced
    assert changed(in_controlled_shutdown=1).in_controlled_shutdown
    assert changed(log_dirs=[uuid(5)]).log_dirs == (uuid(5),)
    assert changed().log_dirs == (uuid(101),)
    cordoned = records.BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=10, cordoned_log_dirs=[uuid(101)]
    )
    assert apply_records(image, [cordoned]).brokers[1].cordoned_log_dirs == (uuid(101),)
    unfenced = image_of(records.UnfenceBrokerRecord(id=1, epoch=10), base=image)
    assert unfenced.brokers[1].is_active
    assert image_of(records.FenceBrokerRecord(id=1, epoch=10), base=unfenced).brokers[1].fenced
    gone = image_of(records.UnregisterBrokerRecord(broker_id=1, broker_epoch=10), base=image)
    assert 1 not in gone.brokers and 1 in image.brokers


def test_directories_of_a_broker() -> None:
    broker = image_of(broker_record()).brokers[1]
    assert broker.default_directory == uuid(101)
    assert broker.has_online_directory(uuid(101)) and not broker.has_online_directory(uuid(9_999))
    assert broker.has_online_directory(DIRECTORY_UNASSIGNED)
    assert broker.has_online_directory(DIRECTORY_MIGRATING)
    assert not broker.has_online_directory(DIRECTORY_LOST)
    image = apply_records(ClusterImage(), [broker_record()])
    bare = apply_records(
        image, [records.RegisterBrokerRecord(broker_id=1, incarnation_id=uuid(1), broker_epoch=11)]
    ).brokers[1]
    assert bare.default_directory == DIRECTORY_MIGRATING and bare.has_online_directory(uuid(9_999))


def test_a_partition_moves() -> None:
    image = with_topic()
    topic = image.topics_by_name["t"]
    assert topic is image.topics_by_id[TOPIC] and len(topic.partitions) == 2
    born = topic.partitions[0]
    assert born.directory_of(2) == uuid(102)

    def moved(**changes: Any) -> PartitionImage:
        found = image_of(change(**changes), base=image).partition(TOPIC, 0)
        assert found is not None
        return found

    assert (moved().partition_epoch, moved().leader_epoch, moved().leader) == (1, 0, 1)
    same = moved(leader=1)
    assert (same.leader, same.leader_epoch) == (1, 1), "naming the leader raises its epoch"
    leaderless = moved(leader=-1, isr=[2])
    assert (leaderless.leader, leaderless.leader_epoch, leaderless.isr) == (-1, 1, (2,))
    assert moved(leader_recovery_state=1).leader_recovery_state == 1
    fewer = moved(replicas=[3, 4])
    assert fewer.directories == (uuid(103), DIRECTORY_UNASSIGNED)
    placed = moved(replicas=[4], directories=[uuid(104)])
    assert (placed.replicas, placed.directories) == ((4,), (uuid(104),))
    adding = moved(adding_replicas=[3], removing_replicas=[1])
    assert adding.is_reassigning and (adding.adding_replicas, adding.removing_replicas) == (
        (3,),
        (1,),
    )
    eligible = moved(eligible_leader_replicas=[2], last_known_elr=[3])
    assert (eligible.eligible_leader_replicas, eligible.last_known_elr) == ((2,), (3,))
    assert image.topics_by_id[TOPIC].partitions[1] is topic.partitions[1]


def test_partitions_of_old_records_have_no_directories_yet() -> None:
    old = partition_record(0, directories=[])
    image = image_of(records.TopicRecord(name="t", topic_id=TOPIC), old)
    assert image.topics_by_name["t"].partitions[0].directories == (DIRECTORY_MIGRATING,) * 3


def test_eligible_leaders_are_forgotten_when_told() -> None:
    image = image_of(change(eligible_leader_replicas=[2]), base=with_topic())
    for name in ("t", ""):
        cleared = image_of(records.ClearElrRecord(topic_name=name), base=image)
        partition = cleared.topics_by_name["t"].partitions[0]
        assert partition.eligible_leader_replicas == () and partition.partition_epoch == 2
        assert cleared.topics_by_name["t"].partitions[1].partition_epoch == 0


def config(kind: int, name: str, key: str, value: str | None) -> records.ConfigRecord:
    return records.ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)


def test_configs_come_and_go_and_leave_with_their_topic() -> None:
    image = image_of(
        config(RESOURCE_TOPIC, "t", "retention.ms", "1"),
        config(RESOURCE_TOPIC, "t", "segment.ms", "2"),
        config(RESOURCE_BROKER, "", "log.retention.ms", "3"),
        config(RESOURCE_BROKER, "1", "log.retention.ms", "4"),
        base=with_topic(),
    )
    assert image.topic_configs("t") == {"retention.ms": "1", "segment.ms": "2"}
    assert image.broker_configs() == {"log.retention.ms": "3"}
    assert image.broker_configs(1) == {"log.retention.ms": "4"}
    assert image.topic_configs("other") == {}
    fewer = image_of(config(RESOURCE_TOPIC, "t", "segment.ms", None), base=image)
    assert fewer.topic_configs("t") == {"retention.ms": "1"}
    gone = image_of(records.RemoveTopicRecord(topic_id=TOPIC), base=image)
    assert gone.topic_configs("t") == {} and "t" not in gone.topics_by_name
    assert TOPIC not in gone.topics_by_id and gone.broker_configs(1)
    with pytest.raises(TypeError):
        image.topic_configs("t")["retention.ms"] = "9"  # type: ignore[index]


def test_a_topic_can_be_deleted_and_made_again_in_one_go() -> None:
    other = uuid(2000)
    image = image_of(
        records.RemoveTopicRecord(topic_id=TOPIC),
        records.TopicRecord(name="t", topic_id=other),
        partition_record(0, topic_id=other),
        base=with_topic(),
    )
    assert image.topics_by_name["t"].topic_id == other
    assert TOPIC not in image.topics_by_id and len(image.topics_by_id) == 1


def test_features_producer_ids_and_nothing() -> None:
    image = image_of(
        records.FeatureLevelRecord(name="metadata.version", feature_level=30),
        records.FeatureLevelRecord(name="group.version", feature_level=1),
        records.ProducerIdsRecord(broker_id=1, next_producer_id=1000),
        records.NoOpRecord(),
    )
    assert image.features == {"metadata.version": 30, "group.version": 1}
    assert image.next_producer_id == 1000 and not image.is_empty
    off = image_of(records.FeatureLevelRecord(name="group.version", feature_level=0), base=image)
    assert off.features == {"metadata.version": 30}
    assert ClusterImage().is_empty


def test_offsets_and_epochs_are_those_of_the_last_record() -> None:
    image = apply_records(ClusterImage(), [records.NoOpRecord()], offset=7, epoch=3)
    assert (image.offset, image.epoch) == (7, 3)
    later = apply_records(image, [records.NoOpRecord()], offset=8)
    assert (later.offset, later.epoch) == (8, 3)
    assert apply_records(image, []).offset == 7


def test_a_transaction_takes_effect_at_its_end() -> None:
    begun = image_of(
        records.BeginTransactionRecord(name="bootstrap"),
        records.FeatureLevelRecord(name="metadata.version", feature_level=30),
    )
    assert begun.features == {} and begun.pending is not None and len(begun.pending) == 1
    more = image_of(records.FeatureLevelRecord(name="x", feature_level=1), base=begun)
    assert more.features == {}
    ended = image_of(records.EndTransactionRecord(), base=more)
    assert ended.features == {"metadata.version": 30, "x": 1} and ended.pending is None
    aborted = image_of(records.AbortTransactionRecord(reason="no"), base=more)
    assert aborted.features == {} and aborted.pending is None


@pytest.mark.parametrize(
    ("messages", "match"),
    [
        ([records.EndTransactionRecord()], "not begun"),
        ([records.AbortTransactionRecord()], "not begun"),
        ([records.BeginTransactionRecord(), records.BeginTransactionRecord()], "inside another"),
        ([records.UnregisterBrokerRecord(broker_id=9, broker_epoch=1)], "not registered"),
        ([records.UnregisterBrokerRecord(broker_id=1, broker_epoch=9)], "epoch 10, not 9"),
        ([records.FenceBrokerRecord(id=1, epoch=9)], "epoch 10, not 9"),
        ([records.UnfenceBrokerRecord(id=2, epoch=9)], "not registered"),
        ([records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=9)], "epoch 10, not 9"),
        ([records.TopicRecord(name="t", topic_id=uuid(9))], "exists already"),
        ([records.TopicRecord(name="new", topic_id=TOPIC)], "exists already"),
        ([records.RemoveTopicRecord(topic_id=uuid(9))], "no topic"),
        ([partition_record(5)], "after 2 others"),
        ([partition_record(0, topic_id=uuid(9))], "no topic"),
        ([change(2)], "no partition 2"),
        ([change(-1)], "no partition -1"),
        ([records.RemoveTopicRecord(topic_id=TOPIC), change(0)], "no topic"),
        ([records.ProducerIdsRecord(broker_id=1, next_producer_id=0)], "go back"),
    ],
)
def test_records_that_do_not_fit_stop_the_replay(messages: list[Message], match: str) -> None:
    image = with_topic()
    with pytest.raises(ReplayError, match=match):
        apply_records(image, messages)
    assert image == with_topic(), "the old image is untouched"


def entity(kind: str, name: str | None) -> records.EntityData:
    return records.EntityData(entity_type=kind, entity_name=name)


def test_what_is_not_interpreted_is_kept_until_it_is_replaced() -> None:
    first = records.ZkMigrationStateRecord(zk_migration_state=0)
    image = image_of(first)
    assert list(image.others.values()) == [first]
    again = records.ZkMigrationStateRecord(zk_migration_state=1)
    assert list(image_of(again, base=image).others.values()) == [again]


def quota(key: str, value: float | None, *parts: records.EntityData) -> records.ClientQuotaRecord:
    return records.ClientQuotaRecord(
        entity=list(parts), key=key, value=value or 0.0, remove=value is None
    )


def test_quotas_are_set_replaced_and_removed_by_entity_and_key() -> None:
    user, client_id = entity("user", None), entity("client-id", "c")
    image = image_of(
        quota("k", 1.0, user),
        quota("k", 2.0, user, client_id),
        quota("other", 3.0, client_id, user),
        quota("k", 4.0, entity("user", "")),
    )
    both = (("client-id", "c"), ("user", None))
    assert dict(image.quotas) == {
        (("user", None),): {"k": 1.0},
        both: {"k": 2.0, "other": 3.0},
        (("user", ""),): {"k": 4.0},
    }
    assert not image.others
    after = image_of(
        quota("k", 5.0, client_id, user), quota("k", None, user), quota("no", None), base=image
    )
    assert dict(after.quotas) == {both: {"k": 5.0, "other": 3.0}, (("user", ""),): {"k": 4.0}}
    assert image.quotas[both]["k"] == 2.0, "the old image is untouched"


def test_an_acl_is_added_and_removed_by_its_id() -> None:
    record = records.AccessControlEntryRecord(
        id=uuid(7), resource_type=2, resource_name="t", principal="User:a", operation=3
    )
    image = image_of(record)
    assert image.acls[uuid(7)] == Acl.from_record(record)
    assert image.acls[uuid(7)].to_record(uuid(7)) == record
    removal = records.RemoveAccessControlEntryRecord(id=uuid(7))
    empty = image_of(removal, base=image)
    assert not empty.acls and not image_of(record, removal).acls
    for base, removals in ((empty, [removal]), (image, [removal, removal])):
        with pytest.raises(ReplayError, match="no ACL has the id"):
            apply_records(base, removals)


def test_a_controller_is_registered_replaced_and_removed() -> None:
    record = records.RegisterControllerRecord(
        controller_id=3,
        incarnation_id=uuid(1),
        end_points=[records.ControllerEndpoint(name="C", host="h", port=9093)],
        features=[
            records.ControllerFeature(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            )
        ],
    )
    image = image_of(record)
    controller = image.controllers[3]
    assert controller.incarnation_id == uuid(1)
    assert [(e.name, e.host, e.port) for e in controller.listeners] == [("C", "h", 9093)]
    assert [(f.name, f.min_level, f.max_level) for f in controller.features] == [
        ("metadata.version", 7, 30)
    ]
    again = records.RegisterControllerRecord(controller_id=3, incarnation_id=uuid(2))
    assert image_of(again, base=image).controllers[3].incarnation_id == uuid(2)
    gone = records.UnregisterControllerRecord(controller_id=3)
    assert 3 not in image_of(gone, base=image).controllers
    assert image.controllers[3] is controller, "the old image is untouched"


def test_every_kind_of_record_is_understood_or_kept() -> None:
    from fencepost.machines.image import apply

    transactions = {
        records.BeginTransactionRecord,
        records.EndTransactionRecord,
        records.AbortTransactionRecord,
    }
    known = {*apply._HANDLERS, *apply._KEPT_KEYS, *transactions}
    assert known == set(records.RECORD_CLASSES.values())


# -- differences -------------------------------------------------------------------------------


def test_nothing_changed() -> None:
    image = with_topic()
    same = apply_records(image, [records.NoOpRecord()], offset=9)
    assert diff(image, same).is_empty and diff(image, same).for_broker(1).is_empty
    assert not diff(ClusterImage(), image).is_empty
    assert same.topics_by_id is image.topics_by_id


def test_a_broker_learns_what_to_lead_follow_and_give_up() -> None:
    old = with_topic()
    born = diff(ClusterImage(), old)
    assert [t.name for t in born.created_topics] == ["t"]
    assert [(p.index, p.is_new_leader_epoch) for p in born.for_broker(1).to_lead] == [
        (0, True),
        (1, True),
    ]
    assert [p.index for p in born.for_broker(3).to_follow] == [0, 1]
    assert born.for_broker(4).is_empty
    new = image_of(change(0, leader=2, isr=[2]), change(1, isr=[1, 2, 3]), base=old)
    delta = diff(old, new)
    assert not delta.created_topics and not delta.resized_topics
    one, two = delta.for_broker(1), delta.for_broker(2)
    assert [(p.index, p.is_new_leader_epoch) for p in one.to_lead] == [(1, False)]
    assert [(p.index, p.is_new_leader_epoch) for p in one.to_follow] == [(0, True)]
    assert [p.index for p in two.to_lead] == [0] and [p.index for p in two.to_follow] == [1]
    moved = image_of(change(0, replicas=[2, 3]), base=old)
    given_up = diff(old, moved).for_broker(1)
    assert [p.index for p in given_up.to_delete] == [0] and not given_up.deleted_topics
    headless = image_of(change(0, leader=-1), base=old)
    assert [p.index for p in diff(old, headless).for_broker(1).to_follow] == [0]


def test_topics_are_deleted_resized_and_made_again() -> None:
    old = with_topic()
    bigger = image_of(partition_record(2), base=old)
    delta = diff(old, bigger)
    assert [t.name for t in delta.resized_topics] == ["t"]
    assert [(p.index, p.old) for p in delta.partitions] == [(2, None)]
    gone = diff(old, image_of(records.RemoveTopicRecord(topic_id=TOPIC), base=old))
    assert [t.name for t in gone.deleted_topics] == ["t"]
    local = gone.for_broker(1)
    assert [p.index for p in local.to_delete] == [0, 1] and local.deleted_topics == {TOPIC}
    other = uuid(2000)
    again = diff(
        old,
        image_of(
            records.RemoveTopicRecord(topic_id=TOPIC),
            records.TopicRecord(name="t", topic_id=other),
            partition_record(0, topic_id=other),
            base=old,
        ),
    )
    assert [t.topic_id for t in again.deleted_topics] == [TOPIC]
    assert [t.topic_id for t in again.created_topics] == [other]
    local = again.for_broker(1)
    assert [p.topic_id for p in local.to_delete] == [TOPIC, TOPIC]
    assert [p.topic_id for p in local.to_lead] == [other]


def test_configs_brokers_and_features_that_changed_are_named() -> None:
    old = with_topic()
    new = image_of(
        config(RESOURCE_TOPIC, "t", "retention.ms", "1"),
        config(RESOURCE_BROKER, "", "log.retention.ms", "3"),
        config(32, "group", "x", "1"),
        broker_record(2),
        records.FeatureLevelRecord(name="group.version", feature_level=1),
        base=old,
    )
    delta = diff(old, new)
    assert delta.changed_topic_configs == ("t",)
    assert delta.changed_broker_configs == ("",)
    assert delta.changed_other_configs == ((32, "group"),)
    assert [(id_, a, b is not None) for id_, a, b in delta.brokers] == [(2, None, True)]
    assert delta.features_changed
