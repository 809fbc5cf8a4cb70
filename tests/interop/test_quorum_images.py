"""Records that both kinds of controllers write, and the cluster that both kinds make of them.

A cluster is upgraded, used and reconfigured, with a leader of one kind and then of the other. Every
snapshot that anybody took on the way must say what the log says.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import pytest

from fencepost.client.admin import Admin, ConfigChange
from fencepost.client.cluster import Cluster as Client
from fencepost.client.connection import Connection
from fencepost.client.errors import ConnectionFailed
from fencepost.wire.api.alter_client_quotas import AlterClientQuotasRequest
from fencepost.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from fencepost.wire.api.init_producer_id import InitProducerIdRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message, Request
from fencepost.wire.records import metadata as records

from ..waiting import DEADLINE_MS, eventually
from . import apache
from .quorum import APACHE, FENCEPOST, Node, Quorum
from .quorum_images import check_snapshots, image_of, records_of
from .quorum_mixed import (
    BROKER,
    SMALL_SNAPSHOTS,
    let_lead,
    mixed,
    wait_for_all,
    wait_for_same_logs,
)
from .user_words import credential, quota

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(400)]

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
DELETE = 1
OURS_TOO = 102
R = TypeVar("R", bound=Message)
QUICK_SESSIONS = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


def test_both_make_the_same_of_what_both_wrote(kafka_jars, tmp_path: Path) -> None:
    config = {**SMALL_SNAPSHOTS, **QUICK_SESSIONS}
    older = ("--release-version", "4.0")
    with mixed(tmp_path, *older, brokers=(APACHE, FENCEPOST), config=config) as quorum:
        ours = quorum.voters[0]
        quorum.start()
        theirs = next(n for n in quorum.voters if n.kind == APACHE)
        let_lead(quorum, theirs)
        work(quorum, "theirs")
        users_come(quorum)
        let_lead(quorum, ours)
        upgrade(quorum, 27)
        work(quorum, "ours", "theirs")
        more_users_come(quorum)
        let_lead(quorum, theirs)
        upgrade(quorum, 33)
        users_go(quorum)
        work(quorum, "theirs-again", "ours")
        let_lead(quorum, ours)
        work(quorum, "ours-again", "theirs-again")
        wait_for_all(quorum)
        wait_for_same_logs(*quorum.voters)
        assert all(check_snapshots(quorum)[node_id] > 3 for node_id in quorum.nodes)
        is_as_it_was_told(ours.metadata_log())


def work(quorum: Quorum, name: str, before: str | None = None) -> None:
    """What a cluster goes through: topics, configs, producers, a broker that stops and dies.

    The topic that goes is that of the work `before`: a node of Kafka 4.3.0 that reads a topic's
    configs and its end in one go keeps the configs for ever, and then nodes differ by chance.
    """
    stays, goes = f"{name}-stays", f"{name}-goes"
    broker, other = quorum.nodes[BROKER], quorum.nodes[OURS_TOO]
    with Client(broker.address) as client:
        admin = Admin(client)
        admin.create_topic(stays, 60)
        admin.create_topic(goes, 3)
        admin.create_partitions(stays, 70)
        change = [ConfigChange("retention.ms", "5000"), ConfigChange("cleanup.policy", "compact")]
        admin.alter_configs(TOPIC_RESOURCE, stays, change)
        admin.alter_configs(TOPIC_RESOURCE, goes, change)
        admin.alter_configs(TOPIC_RESOURCE, stays, [ConfigChange("cleanup.policy", None, DELETE)])
        retention = ConfigChange("log.retention.ms", str(3_600_000 + len(name)))
        admin.alter_configs(BROKER_RESOURCE, "", [retention])
        if before is not None:
            admin.delete_topic(f"{before}-goes")
    for node in (broker, other):
        eventually(lambda node=node: has_producer_ids(node), "it has got producer ids")
    other.stop()
    other.start()
    eventually(lambda: is_active(quorum), "it is back after an orderly stop")
    other.kill()
    eventually(lambda: not is_active(quorum), "it is fenced")
    other.start()
    eventually(lambda: is_active(quorum), "it is back after a crash")
    wait_for_all(quorum)


def is_active(quorum: Quorum) -> bool:
    """Whether our broker is registered and not fenced, as all that is written has it."""
    return image_of(quorum.wait_for_leader().metadata_log()).brokers[OURS_TOO].is_active


def has_producer_ids(broker: Node) -> bool:
    """Whether the broker has an id to give, of a block that it must ask the controller for."""
    answer = ask(broker, InitProducerIdRequest(transactional_id=None))
    assert answer.error_code in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return answer.error_code == ErrorCode.NONE


def ask(node: Node, request: Request[R]) -> R:
    """A broker's answer, when it has one to give."""
    with Connection(apache.HOST, node.port, timeout_ms=DEADLINE_MS) as connection:
        return connection.request(request)


def upgrade(quorum: Quorum, level: int) -> None:
    """Have the cluster use a newer metadata.version."""
    where = ("--bootstrap-controller", quorum.bootstrap_controllers)
    apache.run_tool("features", *where, "upgrade", "--feature", f"metadata.version={level}")


def users_come(quorum: Quorum) -> None:
    """Records that only Kafka's controllers write, and ours keeps."""
    broker = quorum.nodes[BROKER]
    quotas = [
        quota("producer_byte_rate", 1000.0, user="eve"),
        quota("consumer_byte_rate", 2000.0, user=None, client_id="reader"),
    ]
    answer = ask(broker, AlterClientQuotasRequest(entries=quotas))
    assert [entry.error_code for entry in answer.entries] == [0, 0]
    request = AlterUserScramCredentialsRequest(
        upsertions=[credential("eve", 1), credential("a", 2)]
    )
    assert {one.error_code for one in ask(broker, request).results} == {0}


def more_users_come(quorum: Quorum) -> None:
    """Our controller changes what Kafka's has written, and adds to it.

    As long as the broker has not heard who leads, it may disconnect clients that ask.
    """
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="eve", mechanism=1)],
        upsertions=[credential("a", 2, 8192), credential("ours", 1)],
    )

    def are_changed() -> bool:
        try:
            answer = ask(quorum.nodes[BROKER], request)
        except ConnectionFailed:
            return False
        return {one.user: one.error_code for one in answer.results} in (
            {"eve": 0, "a": 0, "ours": 0},
            {"eve": ErrorCode.RESOURCE_NOT_FOUND, "a": 0, "ours": 0},  # asked twice
        )

    eventually(are_changed, "users are changed")


def users_go(quorum: Quorum) -> None:
    """Changes of what our controller has kept meanwhile."""
    broker = quorum.nodes[BROKER]
    for change in (
        quota("producer_byte_rate", 0.0, remove=True, user="eve"),
        quota("request_percentage", 50.0, user="eve"),
    ):
        (answer,) = ask(broker, AlterClientQuotasRequest(entries=[change])).entries
        assert answer.error_code == 0, answer.error_message
    gone = [ScramCredentialDeletion(name="a", mechanism=2)]
    assert ask(broker, AlterUserScramCredentialsRequest(deletions=gone)).results[0].error_code == 0


def is_as_it_was_told(log: bytes) -> None:
    """What was compared says something: the kinds of records, and where all of it has led."""
    kinds = {type(record) for record in records_of(log)}
    assert kinds >= {
        records.BrokerRegistrationChangeRecord,
        records.ClientQuotaRecord,
        records.ConfigRecord,
        records.FeatureLevelRecord,
        records.PartitionChangeRecord,
        records.PartitionRecord,
        records.ProducerIdsRecord,
        records.RegisterBrokerRecord,
        records.RegisterControllerRecord,
        records.RemoveTopicRecord,
        records.RemoveUserScramCredentialRecord,
        records.TopicRecord,
        records.UserScramCredentialRecord,
    }
    image = image_of(log)
    assert image.features["metadata.version"] == 33
    assert set(image.brokers) == {BROKER, OURS_TOO}
    for name in ("theirs", "ours", "theirs-again", "ours-again"):
        assert len(image.topics_by_name[f"{name}-stays"].partitions) == 70
        assert image.configs[TOPIC_RESOURCE, f"{name}-stays"] == {"retention.ms": "5000"}
    assert {name for name in image.topics_by_name if name.endswith("-goes")} == {"ours-again-goes"}
    assert {name for _, name in image.configs if name.endswith("-goes")} == {"ours-again-goes"}
