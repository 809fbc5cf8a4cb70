"""A whole node from inside: metadata and controller, storage, housekeeping, failures."""

import asyncio
import gc
import time

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.node.housekeeping import REMOVAL_INTERVAL_MS
from fencepost.broker.node.node import Node, StartError
from fencepost.log.errors import LogError
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.controller import Decision
from fencepost.machines.effects import CONTROLLER
from fencepost.machines.partition import AlterPartition, RecoveryState
from fencepost.runtime.metadata.host import METADATA_KEY
from fencepost.runtime.registrations import LIFECYCLE_KEY
from fencepost.wire.api import DeleteTopicsRequest, InitProducerIdRequest
from fencepost.wire.api.delete_topics import DeleteTopicState
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.metadata import PartitionChangeRecord, RemoveTopicRecord
from fencepost.wire.types import Uuid

from ...waiting import eventually
from ..conftest import QUICK, RunningNode
from ..listener_fixtures import LoopThread
from ..topic_requests import batch, fetch, make_topic, produce, values

# -- metadata and controller ---------------------------------------------------------------------


def test_the_cluster_is_the_same_after_a_restart(node_factory):
    running = node_factory()
    with running.connect() as client:
        topic = make_topic(client, partitions=3, name="kept", retention_ms=1234567)
        produce(client, topic, batch(b"a"), index=2)
        before = client.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id
    cluster_id, image = running.node.cluster_id, running.node.image
    running.restart()
    again = running.node.image
    assert running.node.cluster_id == cluster_id
    assert again.topics_by_name["kept"].topic_id == image.topics_by_name["kept"].topic_id
    assert again.topic_configs("kept") == {"retention.ms": "1234567"}
    with running.connect() as client:
        assert produce(client, topic, batch(b"b"), index=2).base_offset == 1
        after = client.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id
    assert after > before


def test_leader_epochs_grow_with_every_life(node_factory):
    running = node_factory()
    with running.connect() as client:
        make_topic(client, name="t")
    epochs = []
    for _ in range(3):
        hosted = running.call(running.node.broker.replicas.get, "t", 0)
        epochs.append(hosted.machine.leader_epoch)
        running.restart()
    assert epochs == sorted(set(epochs))


def submit(running, *decides):
    """Submit decisions in one turn of the loop; (error, reply) of each, in the order of answers."""
    answers = []

    def all_of_them():
        for decide in decides:
            running.node.controller.host.submit(decide, lambda *answer: answers.append(answer))

    running.call(all_of_them)
    eventually(lambda: len(answers) == len(decides))
    return answers


def test_a_decision_without_records_is_answered_behind_those_before_it(node_factory):
    running = node_factory()
    seen = []

    def bootstrap_again(controller):
        seen.append(controller.image.offset)
        return Decision([], "second")

    request_producer_ids = running.node.broker.producer_ids.fetch_block

    def both():
        request_producer_ids(lambda *_: seen.append("first"))
        running.node.controller.host.submit(bootstrap_again, lambda *answer: seen.append(answer))

    before = running.node.image.offset
    running.call(both)
    eventually(lambda: len(seen) == 3)
    # It was decided on what was not committed yet, and answered when that was.
    assert seen == [before + 1, "first", (ErrorCode.NONE, "second")]
    assert running.node.image.offset == before + 1


def test_a_write_that_fails_is_undone_and_ends_the_node(node_factory):
    running = node_factory()
    running.call(running.node.metadata.log.fail, "somebody pulled the disk")
    offset = running.node.image.offset

    def allocate(controller):
        request = type("R", (), {})
        request.broker_id = 1
        request.broker_epoch = running.node.broker.lifecycle.broker_epoch
        return controller.decide_allocate_producer_ids(request)

    ((error, reply),) = submit(running, allocate)
    assert error is not ErrorCode.NONE
    assert reply is None
    assert running.node.image.offset == offset
    assert running.call(lambda: running.node.controller.host.controller) is None or (
        running.call(lambda: running.node.controller.host.controller.image.offset) == offset
    )
    eventually(lambda: running.node.failure is not None)
    reason, code = running.call(running.node.stop_requested)
    assert code == 1
    assert "disk" in reason


def test_a_metadata_log_that_makes_no_sense_ends_the_node(node_factory):
    running = node_factory()
    nonsense = RemoveTopicRecord(topic_id=Uuid.random())
    metadata = running.node.metadata

    def write():
        # What no controller decides: past it, straight into the log.
        from fencepost.batch.records import build_batch
        from fencepost.machines.quorum import AppendRecords
        from fencepost.runtime.metadata.host import METADATA_KEY
        from fencepost.wire.records.metadata import encode_record

        appended = AppendRecords(
            [build_batch([(None, encode_record(nonsense))])], lambda _: None, metadata.machine.epoch
        )
        running.node.driver.feed(METADATA_KEY, appended)

    running.call(write)
    eventually(lambda: running.node.failure is not None)
    assert "metadata" in running.node.failure


def test_an_unclean_leader_serves_and_asks_for_nothing(node_factory):
    """KIP-704: its next change of the in-sync set ends the recovery; alone, it has none."""
    running = node_factory()
    with running.connect() as client:
        topic = make_topic(client, name="recovering")

    def recovering(controller):
        partition = controller.image.topics_by_name["recovering"].partitions[0]
        assert partition.leader_recovery_state == RecoveryState.RECOVERED
        record = PartitionChangeRecord(
            topic_id=topic.topic_id,
            partition_id=0,
            leader=1,
            leader_recovery_state=int(RecoveryState.RECOVERING),
        )
        return Decision([record], None)

    assert submit(running, recovering) == [(ErrorCode.NONE, None)]

    def state():
        return running.node.image.topics_by_name["recovering"].partitions[0]

    eventually(lambda: state().leader_recovery_state == RecoveryState.RECOVERING)
    with running.connect() as client:
        assert produce(client, topic, batch(b"a")).error_code == 0
    assert (state().leader_epoch, state().partition_epoch) == (1, 1)


def test_a_request_of_a_partition_that_is_gone_is_dropped(node_factory):
    running = node_factory()
    asked = AlterPartition(0, 0, (), RecoveryState.RECOVERED)
    running.call(running.node.ports.send, "gone-0", CONTROLLER, asked)
    assert running.node.failure is None


# -- storage -------------------------------------------------------------------------------------


def test_directories_of_unknown_partitions_are_set_aside(node_factory):
    running = node_factory()
    with running.connect() as client:
        make_topic(client, name="known")
    directory = running.data_dir
    running.call(running.node.stop)
    (directory / "unknown-3").mkdir()
    (directory / "unknown-3" / "00000000000000000000.log").write_bytes(b"")
    running.node = running.start()
    names = sorted(path.name for path in directory.iterdir() if "known" in path.name)
    assert names[0] == "known-0"
    assert len(names) == 2
    assert names[1].startswith("unknown-3.")
    assert names[1].endswith("-stray")


def test_a_deleted_topic_can_be_made_again_under_its_name(node, node_factory):
    from fencepost.wire.api import DeleteTopicsRequest
    from fencepost.wire.api.delete_topics import DeleteTopicState

    running = node_factory()
    with running.connect() as client:
        for round_ in range(3):
            topic = make_topic(client, name="again", partitions=1 + round_)
            assert produce(client, topic, batch(b"%d" % round_)).base_offset == 0
            (part,) = fetch(client, topic, 0)
            assert values(part) == [b"%d" % round_]
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name="again")], timeout_ms=60_000
            )
            assert client.ask(request, 6).responses[0].error_code == 0
            assert produce(client, topic, batch(b"late")).error_code == 3
    assert not (running.data_dir / "again-0").exists()


@pytest.mark.parametrize("damage", ["node.id=1", "cluster.id="])
def test_a_damaged_meta_properties_is_refused(node_factory, damage):
    running = node_factory()
    running.call(running.node.stop)
    path = running.data_dir / "meta.properties"
    path.write_text(path.read_text().replace(damage, damage + "7"))
    with pytest.raises(LogError):
        running.start()
    path.write_text(path.read_text().replace(damage + "7", damage))
    running.node = running.start()


def test_a_port_that_is_taken(node, tmp_path):
    config = BrokerConfig.load(
        None,
        {
            **QUICK,
            "log.dirs": str(tmp_path / "d"),
            "listeners": f"PLAINTEXT://{node.bootstrap_servers}",
        },
    )
    thread = LoopThread()
    try:
        other = thread.call(Node, config, thread.loop)
        with pytest.raises((OSError, StartError), match=node.bootstrap_servers):
            thread.call(other.start)
        thread.call(other.stop)
    finally:
        thread.close()
    assert not (tmp_path / "d").exists()


# -- housekeeping --------------------------------------------------------------------------------


def test_retention_deletes_and_tells_readers(node_factory):
    running = node_factory(log_retention_check_interval_ms=20, log_initial_task_delay_ms=1)
    with running.connect() as client:
        topic = make_topic(client, internal_segment_bytes=2000, retention_bytes=1)
        for _ in range(20):
            assert produce(client, topic, batch(b"v" * 1000)).error_code == 0
        hosted = running.call(running.node.broker.replicas.get, topic.name, 0)
        eventually(lambda: hosted.log.start_offset > 0)
        (part,) = fetch(client, topic, 0)
        assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

        def readable_from_its_start() -> bool:
            """Unless more was deleted between the two."""
            start = hosted.log.start_offset
            (part,) = fetch(client, topic, start)
            if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                assert hosted.log.start_offset > start
                return False
            assert part.error_code == 0
            assert part.log_start_offset >= start
            return True

        eventually(readable_from_its_start)


def checkpointed(running: RunningNode, name: str) -> dict[str, int]:
    path = running.data_dir / name
    lines = path.read_text().split("\n")[2:-1] if path.exists() else []
    return {f"{topic}-{index}": int(at) for topic, index, at in (line.split() for line in lines)}


def test_checkpoints_are_written_now_and_then(node_factory):
    running = node_factory(
        log_flush_offset_checkpoint_interval_ms=20,
        replica_high_watermark_checkpoint_interval_ms=20,
    )
    with running.connect() as client:
        topic = make_topic(client, name="c")
        for _ in range(5):
            produce(client, topic, batch(b"a"))
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        eventually(lambda name=name: checkpointed(running, name).get("c-0") == 5)


def test_in_page_cache_mode_the_checkpoint_flushes(node_factory):
    running = node_factory(log_flush_before_ack="false", log_flush_offset_checkpoint_interval_ms=20)
    with running.connect() as client:
        topic = make_topic(client, name="c")
        hosted = running.call(running.node.broker.replicas.get, "c", 0)
        assert produce(client, topic, batch(b"a", b"b")).error_code == 0
        (part,) = fetch(client, topic, 0)
        assert values(part) == [b"a", b"b"]
    eventually(lambda: hosted.log.recovery_point == 2)
    eventually(lambda: checkpointed(running, "recovery-point-offset-checkpoint").get("c-0") == 2)


def test_forgotten_producers_may_begin_anew(node_factory):
    running = node_factory(producer_id_expiration_ms=1, producer_id_expiration_check_interval_ms=20)
    with running.connect() as client:
        topic = make_topic(client)
        producer_id = client.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id
        kinds = {"producer_id": producer_id, "producer_epoch": 0}
        records = batch(b"a", timestamp_ms=int(time.time() * 1000) - 1000, base_sequence=0, **kinds)
        assert produce(client, topic, records).error_code == 0
        hosted = running.call(running.node.broker.replicas.get, topic.name, 0)
        eventually(lambda: len(hosted.log.producers) == 0)


def test_a_disk_that_fails_in_the_background_ends_the_node(node_factory):
    running = node_factory(log_flush_offset_checkpoint_interval_ms=20)
    with running.connect() as client:
        topic = make_topic(client, name="t")
        assert produce(client, topic, batch(b"a")).error_code == 0
        eventually(
            lambda: checkpointed(running, "recovery-point-offset-checkpoint").get("t-0") == 1
        )
        # From here on the node may fail before, while or after it answers.
        (running.data_dir / "recovery-point-offset-checkpoint.tmp").mkdir()
        assert produce(client, topic, batch(b"b")).error_code in (0, ErrorCode.KAFKA_STORAGE_ERROR)
        eventually(lambda: running.node.failure is not None)
        assert produce(client, topic, batch(b"c")).error_code == ErrorCode.KAFKA_STORAGE_ERROR


# -- flush policy ----------------------------------------------------------------------------------


def test_flush_messages_makes_an_append_durable_before_it_counts(node_factory):
    running = node_factory(log_flush_before_ack="false")
    with running.connect() as client:
        often = make_topic(client, name="often", flush_messages=2)
        never = make_topic(client, name="never")
        for topic in (often, never):
            for _ in range(4):
                assert produce(client, topic, batch(b"a")).error_code == 0
    durable = {
        name: running.call(running.node.broker.replicas.get, name, 0).log.recovery_point
        for name in ("often", "never")
    }
    assert durable == {"often": 4, "never": 0}


def test_flush_ms_is_looked_at_by_the_scheduler(node_factory):
    running = node_factory(
        log_flush_before_ack="false", log_flush_scheduler_interval_ms=1, log_flush_interval_ms=1
    )
    with running.connect() as client:
        soon = make_topic(client, name="soon")
        later = make_topic(client, name="later", flush_ms=1_000_000)
        for topic in (later, soon):
            assert produce(client, topic, batch(b"a")).error_code == 0
    eventually(lambda: running.node.broker.replicas.get("soon", 0).log.recovery_point == 1)
    assert running.node.broker.replicas.get("later", 0).log.recovery_point == 0


def test_what_is_written_down_is_written_when_its_own_interval_says(node_factory):
    running = node_factory(
        replica_high_watermark_checkpoint_interval_ms=1,
        log_flush_start_offset_checkpoint_interval_ms=1,
        log_flush_offset_checkpoint_interval_ms=1_000_000,
    )
    with running.connect() as client:
        topic = make_topic(client, name="t")
        assert produce(client, topic, batch(b"a")).error_code == 0
    running.call(running.node.broker.replicas.get("t", 0).log.advance_start_offset, 1)

    def written(name):
        path = running.data_dir / f"{name}-offset-checkpoint"
        return path.read_text() if path.exists() else ""

    eventually(lambda: "t 0 1" in written("replication"))
    eventually(lambda: "t 0 1" in written("log-start"))
    assert "t 0 1" not in written("recovery-point")


def test_a_deleted_partition_is_emptied_after_the_delay(node_factory, monkeypatch):
    monkeypatch.setattr("fencepost.broker.node.housekeeping.DELETED_FILES_INTERVAL_MS", 1)
    for delay_ms, is_kept in ((1_000_000, True), (0, False)):
        running = node_factory(log_segment_delete_delay_ms=delay_ms)
        with running.connect() as client:
            make_topic(client, name="gone", partitions=30)
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")], timeout_ms=60_000)
            assert client.ask(request, 6).responses[0].error_code == 0

        def left(data_dir=running.data_dir):
            return len([path for path in data_dir.iterdir() if path.name.endswith("-delete")])

        if is_kept:
            housekeeping = running.node.housekeeping
            running.call(list, housekeeping._remove_deleted(0))
            assert left() == 30
            looks_again_ms = housekeeping._removal.deadline_ms
            assert looks_again_ms <= housekeeping._core.now_ms() + REMOVAL_INTERVAL_MS
        else:
            eventually(lambda: left() == 0)


def test_the_delay_of_a_deleted_partition_counts_from_its_deletion(node_factory):
    """And nothing else has to come by first: it is over when a timer of its own is."""
    delay_ms = REMOVAL_INTERVAL_MS - 1_000
    running = node_factory(log_segment_delete_delay_ms=delay_ms)
    storage, housekeeping = running.node.storage, running.node.housekeeping
    eventually(lambda: housekeeping._removal is None, "what an earlier process left is looked for")
    with running.connect() as client:
        make_topic(client, name="gone", partitions=2)
        before_ms = housekeeping._core.now_ms()
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")], timeout_ms=60_000)
        assert client.ask(request, 6).responses[0].error_code == 0
    removal = eventually(lambda: housekeeping._removal)
    after_ms = housekeeping._core.now_ms()

    def remove(after_deletion_ms: int) -> int:
        first_ms = storage.first_deleted_ms
        assert before_ms <= first_ms <= after_ms
        assert removal.deadline_ms - delay_ms <= after_ms
        return storage.remove_deleted(first_ms + after_deletion_ms, delay_ms, 1)

    def look_too_early() -> tuple[int, int]:
        """For how long the next look is waited for, and how long that may be."""
        now_ms, first_ms = housekeeping._core.now_ms, storage.first_deleted_ms
        began_ms = now_ms()
        assert list(housekeeping._remove_deleted(first_ms)) == []
        left_ms = first_ms + delay_ms - began_ms
        return housekeeping._removal.deadline_ms - now_ms(), left_ms

    assert running.call(remove, delay_ms - 1) == 0
    waits_ms, left_ms = running.call(look_too_early)
    assert waits_ms <= left_ms
    assert running.call(remove, delay_ms) == 1


def test_a_producer_that_wrote_nothing_for_too_long_is_forgotten_at_the_start(node_factory):
    running = node_factory(producer_id_expiration_ms=1)
    with running.connect() as client:
        topic = make_topic(client, name="t")
        sent = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        assert produce(client, topic, sent).error_code == 0
    assert running.node.broker.replicas.get("t", 0).log.producers.get(7) is not None
    time.sleep(0.005)
    running.restart()
    assert running.node.broker.replicas.get("t", 0).log.producers.get(7) is None


def test_the_metadata_log_is_closed_in_segments_of_its_own_age(node_factory):
    running = node_factory(metadata_log_segment_ms=1)
    with running.connect() as client:
        for number in range(5):
            make_topic(client, name=f"t{number}")
            time.sleep(0.002)
    bases = running.call(lambda: running.node.metadata.log.segment_base_offsets)
    assert len(bases) > 3
    running.restart()
    assert len(running.node.image.topics_by_name) == 5


def test_a_quorum_machine_that_stops_is_no_fault_of_the_disk(node_factory):
    node = (running := node_factory()).node
    running.call(node.ports.failed, METADATA_KEY, "epoch 2 is led by 8 and by 9")
    assert node.failure == "the quorum machine stopped: epoch 2 is led by 8 and by 9"
    assert node.storage.metadata_dir.is_online


def test_a_disk_that_refuses_the_metadata_log_is_named(node_factory):
    node = (running := node_factory()).node
    running.call(node.driver.disk_failed, METADATA_KEY, "no space")
    assert node.failure.startswith("the log directory failed: __cluster_metadata-0: ")
    assert not node.storage.metadata_dir.is_online


def test_what_fails_because_the_node_ends_is_not_told_beside_the_reason(node_factory):
    """A start whose registration fails in the same moment as the metadata."""
    node = (running := node_factory()).node

    async def fails() -> None:
        node.fail("the metadata cannot be applied")
        raise ValueError("no registration without metadata")

    async def start() -> list[object]:
        told: list[object] = []
        node.loop.set_exception_handler(lambda _, context: told.append(context))
        try:
            with pytest.raises(StartError, match="the metadata cannot be applied"):
                await node._unless_stopped(fails())
            gc.collect()
        finally:
            node.loop.set_exception_handler(None)
        return told

    assert running.call(start) == []


def test_who_is_waited_for_has_ended_when_the_node_is_to_stop(node_factory):
    node = (running := node_factory()).node
    ended: list[str] = []

    async def waits() -> None:
        try:
            node.loop.call_soon(node.request_stop, "asked to")
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("orderly")

    async def start() -> None:
        with pytest.raises(StartError, match="asked to"):
            await node._unless_stopped(waits())
        assert ended == ["orderly"]

    running.call(start)


def test_a_failed_directory_that_no_controller_hears_of_ends_the_node(node_factory):
    running = node_factory()
    node = running.node
    running.call(node.ports.failed, LIFECYCLE_KEY, "no controller could be told")
    assert node.failure is not None and "no controller could be told" in node.failure


def test_a_restart_registers_with_the_epoch_of_the_clean_shutdown(node_factory):
    running = node_factory()
    epoch = running.node.broker.lifecycle.broker_epoch
    running.restart()
    assert running.node.storage.previous_broker_epoch() == epoch
    assert running.node.broker.lifecycle.broker_epoch > epoch


def test_high_watermarks_are_written_when_one_has_moved_and_not_before(node_factory, monkeypatch):
    monkeypatch.setattr("fencepost.broker.node.housekeeping.DELETED_FILES_INTERVAL_MS", 1_000_000)
    running = node_factory(replica_high_watermark_checkpoint_interval_ms=1_000_000)
    storage, housekeeping = running.node.storage, running.node.housekeeping
    written, refuses = [], []
    write = storage.checkpoint_high_watermarks

    def watched(high_watermarks):
        written.append(dict(high_watermarks))
        return write(high_watermarks) and not refuses

    monkeypatch.setattr(storage, "checkpoint_high_watermarks", watched)

    def writes() -> list[dict]:
        written.clear()
        running.call(housekeeping._checkpoint_high_watermarks)
        running.call(housekeeping._checkpoint_high_watermarks)
        return list(written)

    with running.connect() as client:
        topic = make_topic(client, name="t", partitions=2)
        assert len(writes()) == 1
        assert writes() == [], "nothing has happened since"
        assert produce(client, topic, batch(b"a")).error_code == 0
        refuses.append("too many open files")
        assert writes() == 2 * [{("t", 0): 1, ("t", 1): 0}], "what was not written is due still"
        refuses.clear()
        assert len(writes()) == 1
        moves = running.node.broker.replicas.high_watermark_moves
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=60_000)
        assert client.ask(request, 6).responses[0].error_code == 0
        eventually(lambda: running.node.broker.replicas.high_watermark_moves == moves + 2)
        assert writes() == [{}]
    assert "t 0" not in (running.data_dir / "replication-offset-checkpoint").read_text()


def test_only_logs_with_deleted_files_are_looked_at_for_them(node_factory, monkeypatch):
    monkeypatch.setattr("fencepost.broker.node.housekeeping.DELETED_FILES_INTERVAL_MS", 1_000_000)
    running = node_factory(log_segment_delete_delay_ms=0)
    with running.connect() as client:
        topic = make_topic(client, name="t", partitions=2, internal_segment_bytes=2000)
        for _ in range(5):
            assert produce(client, topic, batch(b"v" * 1000)).error_code == 0
    first, second = (running.node.broker.replicas.get("t", index).log for index in range(2))
    delete, looked_at = PartitionLog.delete_old_files, []

    def watched(partition_log, now_ms):
        looked_at.append(partition_log)
        return delete(partition_log, now_ms)

    monkeypatch.setattr(PartitionLog, "delete_old_files", watched)
    running.call(first.advance_start_offset, 4)
    assert (first.has_deleted_files, second.has_deleted_files) == (True, False)
    running.call(running.node.housekeeping._delete_files)
    eventually(lambda: not first.has_deleted_files)
    running.call(running.node.housekeeping._delete_files)
    assert looked_at == [first]
