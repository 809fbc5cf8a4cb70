"""What the authorizer of a node tells of its decisions, and how often."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.machines.authorizer import AclAuthorizer, Policy
from fencepost.machines.image import ClusterImage, apply_records
from fencepost.machines.image.acls import Acl, ResourceType
from fencepost.machines.session import Principal
from fencepost.runtime.authorizer import (
    REFUSAL_INTERVAL_MS,
    REFUSALS_REMEMBERED,
    NodeAuthorizer,
)
from fencepost.runtime.requests.access import (
    CLIENTS_REMEMBERED,
    TOPICS_REMEMBERED,
    Access,
    PartitionAccess,
)
from fencepost.runtime.requests.audit import AuditEvent, Tally
from fencepost.runtime.requests.permissions import (
    DESCRIBE_TOPIC,
    READ_TOPIC,
    WRITE_TOPIC,
    Permission,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import RemoveAccessControlEntryRecord
from fencepost.wire.types import Uuid

ACL_ID = Uuid(b"a" * 16)
ACL = Acl(2, "t", 3, 3, "User:alice", "*", 3)
ALLOWED = (
    "Principal = User:alice is Allowed operation = READ from host = 10.0.0.1 on resource ="
    " Topic:LITERAL:t for request = Fetch with resourceRefCount = 1 based on rule"
    f" MatchingAcl(acl={ACL})"
)
DENIED = (
    "Principal = User:alice is Denied operation = WRITE from host = 10.0.0.1 on resource ="
    " Topic:LITERAL:t for request = Fetch with resourceRefCount = 1 based on rule DefaultDeny"
)


ALICE = Principal("User", "alice")


@dataclass(eq=False)
class Asker:
    principal: Principal = ALICE
    client_host: str = "10.0.0.1"
    listener_name: str = "SASL_SSL"
    api_name: str = "Fetch"


@dataclass
class Clocks:
    now: int = 1_000

    def now_ms(self) -> int:
        return self.now

    def wall_ms(self) -> int:
        return 1_700_000_000_000


@dataclass
class Sink:
    events: list[AuditEvent] = field(default_factory=list)
    tally: Tally | None = None

    def record(self, event: AuditEvent) -> Tally | None:
        self.events.append(event)
        return self.tally


@dataclass
class Node:
    clocks: Clocks
    sink: Sink
    authorizer: NodeAuthorizer
    access: Access
    image: ClusterImage

    def learn(self, *records: Message) -> None:
        self.image = apply_records(self.image, records)
        self.authorizer.learn(self.image)


@pytest.fixture
def node(caplog: pytest.LogCaptureFixture) -> Node:
    caplog.set_level(logging.DEBUG, "fencepost.runtime.authorizer")
    clocks, sink = Clocks(), Sink()
    authorizer = NodeAuthorizer(AclAuthorizer(Policy()), clocks)
    authorizer.sink = sink
    authorizer.machine.loaded()
    made = Node(clocks, sink, authorizer, Access(authorizer), ClusterImage())
    made.learn(ACL.to_record(ACL_ID))
    return made


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    found = [(one.levelno, one.getMessage()) for one in caplog.records]
    caplog.clear()
    return found


def test_a_decision_is_told_to_the_log_and_to_the_sink(
    node: Node, caplog: pytest.LogCaptureFixture
):
    assert node.access.allows(Asker(), READ_TOPIC, "t")
    assert not node.access.allows(Asker(), WRITE_TOPIC, "t")
    assert lines(caplog) == [(logging.DEBUG, ALLOWED), (logging.INFO, DENIED)]
    assert node.sink.events == [
        (
            1_700_000_000_000, "User:alice", "10.0.0.1", "SASL_SSL", "Fetch", operation, "TOPIC",
            "t", allowed, rule,
        )
        for operation, allowed, rule in (
            ("READ", True, f"MatchingAcl(acl={ACL})"),
            ("WRITE", False, "DefaultDeny"),
        )
    ]  # fmt: skip
    assert (node.authorizer.allowed, node.authorizer.denied) == (1, 1)


def test_what_only_chooses_an_answers_contents_is_not_told(
    node: Node, caplog: pytest.LogCaptureFixture
):
    client = Asker()
    assert node.access.visible(client, DESCRIBE_TOPIC, ["t", "other"]) == ["t"]
    assert node.access.operations(client, ResourceType.TOPIC, "t") == (1 << 3) + (1 << 8)
    assert lines(caplog) == [] and node.sink.events == []
    assert node.authorizer.denied > 0, "they are counted"


def test_a_refusal_is_written_now_and_then_and_says_what_was_left_out(
    node: Node, caplog: pytest.LogCaptureFixture
):
    for _ in range(5):
        node.access.allows(Asker(), WRITE_TOPIC, "t")
    node.access.allows(Asker(), WRITE_TOPIC, "other")
    node.access.allows(Asker(Principal("User", "bob")), WRITE_TOPIC, "t")
    assert len(lines(caplog)) == 3, "one for each principal and resource"
    assert len(node.sink.events) == 7
    node.clocks.now += REFUSAL_INTERVAL_MS
    node.access.allows(Asker(), WRITE_TOPIC, "t")
    assert lines(caplog) == [(logging.INFO, f"{DENIED} (4 more refusals were left out)")]


def test_one_request_that_asks_again_is_told_once(node: Node, caplog: pytest.LogCaptureFixture):
    client = Asker()
    for _ in range(2):
        node.access.allows(client, WRITE_TOPIC, "t")
    assert len(node.sink.events) == 1 and len(lines(caplog)) == 1


def test_what_strangers_name_stays_on_one_line_and_takes_bounded_memory(
    node: Node, caplog: pytest.LogCaptureFixture
):
    node.access.allows(Asker(Principal("User", "x\ny")), WRITE_TOPIC, "a\nb" + "c" * 30_000)
    ((_, line),) = lines(caplog)
    assert "\n" not in line and len(line) < 1_000
    for number in range(REFUSALS_REMEMBERED + 10):
        node.access.allows(Asker(), WRITE_TOPIC, f"t{number}")
    assert len(node.authorizer._refusals) <= REFUSALS_REMEMBERED


def test_lines_of_all_clients_together_are_limited(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "fencepost.runtime.authorizer")
    admitted: list[int | None] = [0, None, None, 2]
    authorizer = NodeAuthorizer(AclAuthorizer(Policy()), Clocks(), lambda: admitted.pop(0))
    authorizer.machine.loaded()
    for number in range(4):
        authorizer.allows(Asker(), WRITE_TOPIC, f"t{number}", quiet=False)
    told = [line for _, line in lines(caplog)]
    assert len(told) == 2 and told[1].endswith("(2 more refusals were left out)")


def test_a_change_of_the_acls_is_told_and_acts_at_once(node: Node):
    changes: list[bool] = []
    node.authorizer.on_changed = lambda: changes.append(True)
    version = node.access.version
    node.learn()
    assert not changes and node.access.version is version
    node.learn(RemoveAccessControlEntryRecord(id=ACL_ID))
    assert changes and node.access.version is not version
    assert not node.access.allows(Asker(), READ_TOPIC, "t")


class Replicas:
    """Every topic has every partition: the topic's name, and the index."""

    def get(self, topic: str, index: int) -> Any:
        return topic, index

    def by_id(self, topic_id: Uuid, index: int) -> Any:
        return self.topic_name(topic_id), index

    def topic_name(self, topic_id: Uuid) -> str | None:
        return "t" if topic_id == ACL_ID else None


def test_what_is_remembered_of_a_client_is_that_clients_alone(
    node: Node, caplog: pytest.LogCaptureFixture
):
    """Another address, another user, another operation, and other ACLs are asked about again."""
    caplog.set_level(logging.INFO, "fencepost.runtime.authorizer")
    node.authorizer.sink = None
    assert not node.authorizer._tells_all, "or nothing is remembered"
    record = Acl(2, "t", 3, 3, "User:alice", "10.0.0.1", 3).to_record(ACL_ID)
    node.learn(RemoveAccessControlEntryRecord(id=ACL_ID), record)
    partitions = PartitionAccess(node.access, Replicas())  # type: ignore[arg-type]

    def found(client: Asker, permission: Permission = READ_TOPIC, by_id: bool = False) -> Any:
        finder = partitions.finder(client, permission, by_id=by_id)
        return finder(ACL_ID if by_id else "t", 0)

    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for by_id in (False, True):
        for _ in range(2):
            assert found(Asker(), by_id=by_id) == ("t", 0)
            assert found(Asker(client_host="10.0.0.2"), by_id=by_id) is refused
            assert found(Asker(Principal("User", "bob")), by_id=by_id) is refused
            assert found(Asker(Principal("Group", "alice")), by_id=by_id) is refused
            assert found(Asker(), WRITE_TOPIC, by_id=by_id) is refused
    node.learn(RemoveAccessControlEntryRecord(id=ACL_ID))
    assert found(Asker()) is found(Asker(), by_id=True) is refused


def test_what_is_remembered_of_clients_is_bounded(node: Node, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "fencepost.runtime.authorizer")
    node.authorizer.sink = None
    node.learn(Acl(2, "*", 3, 3, "User:*", "*", 3).to_record(Uuid(b"b" * 16)))
    partitions = PartitionAccess(node.access, Replicas())  # type: ignore[arg-type]
    for number in range(CLIENTS_REMEMBERED + 10):
        client = Asker(Principal("User", f"u{number}"))
        assert partitions.finder(client, READ_TOPIC, by_id=False)("t", 0) == ("t", 0)
    find = partitions.finder(Asker(), READ_TOPIC, by_id=False)
    for number in range(TOPICS_REMEMBERED + 10):
        assert find(f"t{number}", 0) == (f"t{number}", 0)
    assert len(partitions._granted) <= CLIENTS_REMEMBERED + 1
    assert max(map(len, partitions._granted.values())) == TOPICS_REMEMBERED


class Hosted:
    topic = "t"


class OnePartition:
    """A broker with one partition, of "t"."""

    hosted = Hosted()

    def get(self, topic: str, index: int) -> Hosted:
        return self.hosted

    def by_id(self, topic_id: Uuid, index: int) -> Hosted:
        return self.hosted

    def topic_name(self, topic_id: Uuid) -> str | None:
        return "t"


def read(partitions: PartitionAccess, topic: str | Uuid = "t") -> bool:
    """Whether alice may read two partitions of the topic."""
    find = partitions.finder(Asker(), READ_TOPIC, by_id=isinstance(topic, Uuid))
    return {find(topic, index) is OnePartition.hosted for index in range(2)} == {True}


@pytest.mark.parametrize("topic", ["t", Uuid(b"t" * 16)])
def test_what_is_more_of_the_same_is_counted_and_not_asked(node: Node, topic: str | Uuid):
    logging.getLogger("fencepost.runtime.authorizer").setLevel(logging.INFO)
    partitions = PartitionAccess(node.access, OnePartition())  # type: ignore[arg-type]
    for _ in range(3):
        assert read(partitions, topic)
    assert len(node.sink.events) == 3, "the sink wants them all"
    node.sink.tally = tally = Tally()
    for _ in range(5):
        assert read(partitions, topic)
    assert (len(node.sink.events), tally.count) == (4, 4), "each request counts once"
    tally.is_over = True
    node.sink.tally = None
    assert read(partitions, topic) and len(node.sink.events) == 5
    node.sink.tally = Tally()
    assert read(partitions, topic)
    node.learn(RemoveAccessControlEntryRecord(id=ACL_ID))
    assert not read(partitions, topic), "what was granted ends with its ACL"
    assert not node.sink.events[-1].allowed


def test_what_may_be_written_is_remembered_and_a_refusal_is_left_to_others(node: Node):
    logging.getLogger("fencepost.runtime.authorizer").setLevel(logging.INFO)
    node.learn(replace(ACL, operation=4).to_record(Uuid(b"b" * 16)))
    node.sink.tally = tally = Tally()
    partitions = PartitionAccess(node.access, OnePartition())  # type: ignore[arg-type]
    for _ in range(3):
        assert partitions.find_to_write(Asker(), "t", 0) is OnePartition.hosted
    assert (len(node.sink.events), tally.count) == (1, 2)
    tally.is_over, node.sink.tally = True, Tally()
    for _ in range(3):
        assert partitions.find_to_write(Asker(), "t", 0) is OnePartition.hosted
    assert (len(node.sink.events), tally.count) == (2, 2), "its minute is over, so one is told"
    eve = Asker(Principal("User", "eve"))
    refused = partitions.find_to_write(eve, "t", 0)
    assert refused is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert len(node.sink.events) == 2
    node.learn(RemoveAccessControlEntryRecord(id=Uuid(b"b" * 16)))
    revoked = partitions.find_to_write(Asker(), "t", 0)
    assert revoked is ErrorCode.TOPIC_AUTHORIZATION_FAILED
