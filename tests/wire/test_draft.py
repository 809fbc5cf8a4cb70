"""The draft behind Fetch: its bytes, and every row of its translation into Fetch and back."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.wire import api
from fencepost.wire.api.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ForgottenTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
    SnapshotId,
)
from fencepost.wire.draft.fetch_quorum_records import (
    FetchQuorumRecordsRequest,
    FetchQuorumRecordsResponse,
)
from fencepost.wire.draft.mapping import (
    NOT_FOLLOWER,
    REQUEST_HINTS,
    RESPONSE_HINTS,
    TOPIC,
    UnmappableError,
    request_from_fetch,
    request_to_fetch,
    response_from_fetch,
    response_to_fetch,
)
from fencepost.wire.errors import EncodeError, ErrorCode, UnsupportedVersionError
from fencepost.wire.frame import encode_request
from fencepost.wire.types import Uuid

from .catalogue import objects

FETCH_VERSIONS = range(12, FetchRequest.max_version + 1)
DRAFT_VERSIONS = range(2)
CLUSTER = "4L6g3nShT-eMCtK--X86sw"

each_fetch = pytest.mark.parametrize("fetch_version", FETCH_VERSIONS)
each_draft = pytest.mark.parametrize("draft_version", DRAFT_VERSIONS)


def asked(draft: FetchQuorumRecordsRequest, draft_version: int, fetch_version: int) -> Any:
    """The draft as a Fetch, which must survive its own bytes."""
    request = request_to_fetch(draft, draft_version=draft_version, fetch_version=fetch_version)
    assert FetchRequest.decode(request.encode(fetch_version), fetch_version) == request
    return request


def partition_asked(draft: FetchQuorumRecordsRequest, draft_version: int = 1) -> FetchPartition:
    return asked(draft, draft_version, 17).topics[0].partitions[0]


def fetch(fetch_version: int = 17, **partition: Any) -> FetchRequest:
    """A Fetch of the metadata log that a draft can say."""
    draft = FetchQuorumRecordsRequest(cluster_id=CLUSTER, replica_id=2)
    request = request_to_fetch(draft, draft_version=1, fetch_version=fetch_version)
    for name, value in partition.items():
        setattr(request.topics[0].partitions[0], name, value)
    return request


def answer(fetch_version: int = 17, **partition: Any) -> FetchResponse:
    """An answer to such a Fetch."""
    topic = FetchableTopicResponse(partitions=[PartitionData(**partition)])
    if fetch_version < 13:
        topic.topic = TOPIC
    else:
        topic.topic_id = Uuid.METADATA_TOPIC_ID
    return FetchResponse(responses=[topic])


def answered(draft: FetchQuorumRecordsResponse, draft_version: int = 1) -> PartitionData:
    response = response_to_fetch(draft, draft_version=draft_version, fetch_version=17)
    assert FetchResponse.decode(response.encode(17), 17) == response
    return response.responses[0].partitions[0]


def drafted(draft_version: int = 1, **partition: Any) -> FetchQuorumRecordsResponse:
    return response_from_fetch(answer(**partition), fetch_version=17, draft_version=draft_version)


def refused(field: str) -> Any:
    return pytest.raises(UnmappableError, match=f"^{field}[^:]*: ")


# -- the messages ----------------------------------------------------------------------------

REQUEST = FetchQuorumRecordsRequest(
    replica_id=2, leader_epoch=5, fetch_offset=333, last_fetched_epoch=4
)
REQUEST_V0 = "00000007 00000002 00000005 000000000000014d 00000004 01"
REQUEST_V1 = "03 6162 00000002 00000005 000000000000014d 00000004 000001f4 00"
RESPONSE = FetchQuorumRecordsResponse(
    error_code=1,
    leader_id=3,
    leader_epoch=5,
    next_fetch_offset=0,
    next_fetch_offset_epoch=0,
    records=b"xyz",
    high_watermark=9,
    first_dirty_offset=8,
    last_caught_up_time_ms=7,
)
RESPONSE_V0 = (
    "0001 00000003 00000005 0000000000000000 00000000 00000003 78797a"
    "0000000000000009 0000000000000008 0000000000000007"
)
RESPONSE_V1 = (
    "0001 00000003 00000005 0000000000000000 00000000 04 78797a"
    "0000000000000009 0000000000000008 0000000000000007 00"
)


@pytest.mark.usefixtures("on_backend")
def test_bytes() -> None:
    first, later = copy.copy(REQUEST), copy.copy(REQUEST)
    first.cluster_number, first.is_follower = 7, True
    later.cluster_id, later.max_wait_time_ms = "ab", 500
    for message, version, expected in (
        (first, 0, REQUEST_V0),
        (later, 1, REQUEST_V1),
        (RESPONSE, 0, RESPONSE_V0),
        (RESPONSE, 1, RESPONSE_V1),
    ):
        data = bytes.fromhex(expected)
        assert message.encode(version) == data
        assert type(message).decode(data, version) == message


@pytest.mark.usefixtures("on_backend")
def test_fields_of_the_other_revision_are_not_written() -> None:
    for version, name, value in (
        (0, "cluster_id", "ab"),
        (0, "max_wait_time_ms", 500),
        (1, "cluster_number", 7),
        (1, "is_follower", True),
    ):
        with pytest.raises(EncodeError, match=name):
            FetchQuorumRecordsRequest(**{name: value}).encode(version)


def test_a_draft_is_no_api() -> None:
    for cls in (FetchQuorumRecordsRequest, FetchQuorumRecordsResponse):
        assert cls.api_key is None
        assert (cls.min_version, cls.max_version, cls.flexible_from) == (0, 1, 1)
        assert not hasattr(api, cls.__name__)
    assert "FetchQuorumRecords" not in api.API_NAMES.values()
    assert api.api_name(53) == "BeginQuorumEpoch"
    with pytest.raises(TypeError, match="not a request"):
        encode_request(REQUEST, 0, 1, None)


# -- requests, row by row --------------------------------------------------------------------


@each_fetch
def test_cluster_number(fetch_version: int) -> None:
    for number, text in ((7, "7"), (-1, None), (0, "0"), (-2, "-2"), (-(2**31), "-2147483648")):
        draft = FetchQuorumRecordsRequest(cluster_number=number)
        request = asked(draft, 0, fetch_version)
        assert request.cluster_id == text
        assert request_from_fetch(request, fetch_version=fetch_version, draft_version=0) == draft


@pytest.mark.parametrize(
    "text", [CLUSTER, "", "-1", "07", "+7", "2147483648", "-2147483649", "7 ", "-", "٣", "9" * 5000]
)
def test_cluster_ids_that_are_no_number_of_v0(text: str) -> None:
    request = fetch()
    request.cluster_id = text
    request.max_wait_ms = 0
    with refused("cluster_id"):
        request_from_fetch(request, fetch_version=17, draft_version=0)


@each_fetch
def test_cluster_id(fetch_version: int) -> None:
    for spelling, text in ((CLUSTER, CLUSTER), ("7", "7"), ("", None), (None, None)):
        draft = FetchQuorumRecordsRequest(cluster_id=spelling)
        request = asked(draft, 1, fetch_version)
        assert request.cluster_id == text
        again = request_from_fetch(request, fetch_version=fetch_version, draft_version=1)
        assert again == FetchQuorumRecordsRequest(cluster_id=spelling or "")
    request.cluster_id = ""
    with refused("cluster_id"):
        request_from_fetch(request, fetch_version=fetch_version, draft_version=1)


@each_fetch
def test_replica_id(fetch_version: int) -> None:
    request = asked(FetchQuorumRecordsRequest(replica_id=2), 1, fetch_version)
    state = ReplicaState(replica_id=2) if fetch_version >= 15 else ReplicaState()
    assert request.replica_state == state
    assert request.replica_id == (2 if fetch_version < 15 else -1)
    assert request_from_fetch(request, fetch_version=fetch_version, draft_version=1).replica_id == 2


def test_replica_ids_of_the_wrong_version() -> None:
    with refused("replica_state"):
        request_from_fetch(fetch(15), fetch_version=14, draft_version=1)
    with refused("replica_id"):
        request_from_fetch(fetch(14), fetch_version=15, draft_version=1)
    request = fetch()
    request.replica_state.replica_epoch = 3
    with refused(r"replica_state\.replica_epoch"):
        request_from_fetch(request, fetch_version=17, draft_version=1, dropping=REQUEST_HINTS)


@each_draft
def test_leader_epoch(draft_version: int) -> None:
    draft = FetchQuorumRecordsRequest(leader_epoch=5)
    assert partition_asked(draft, draft_version).current_leader_epoch == 5
    assert (
        request_from_fetch(
            fetch(current_leader_epoch=5), fetch_version=17, draft_version=1
        ).leader_epoch
        == 5
    )


@each_draft
def test_fetch_offset(draft_version: int) -> None:
    draft = FetchQuorumRecordsRequest(fetch_offset=333)
    assert partition_asked(draft, draft_version).fetch_offset == 333
    assert (
        request_from_fetch(fetch(fetch_offset=333), fetch_version=17, draft_version=1).fetch_offset
        == 333
    )


@each_draft
def test_last_fetched_epoch(draft_version: int) -> None:
    for epoch in (4, 0, -1):
        draft = FetchQuorumRecordsRequest(last_fetched_epoch=epoch)
        assert partition_asked(draft, draft_version).last_fetched_epoch == epoch
        assert request_from_fetch(
            fetch(last_fetched_epoch=epoch), fetch_version=17, draft_version=1
        ) == (FetchQuorumRecordsRequest(cluster_id=CLUSTER, replica_id=2, last_fetched_epoch=epoch))


def test_is_follower_is_lost_and_said_again() -> None:
    believer, observer = (FetchQuorumRecordsRequest(is_follower=value) for value in (True, False))
    request = asked(believer, 0, 17)
    assert request == asked(observer, 0, 17)
    assert (
        request_from_fetch(request, fetch_version=17, draft_version=0, is_follower=True) == believer
    )
    assert request_from_fetch(request, fetch_version=17, draft_version=0) == observer
    with refused("is_follower"):
        request_from_fetch(request, fetch_version=17, draft_version=1, is_follower=True)


def test_max_wait_time_ms() -> None:
    request = asked(FetchQuorumRecordsRequest(max_wait_time_ms=500), 1, 17)
    assert (request.max_wait_ms, request.min_bytes) == (500, 1)
    assert request_from_fetch(request, fetch_version=17, draft_version=1).max_wait_time_ms == 500
    with refused("max_wait_ms"):
        request_from_fetch(request, fetch_version=17, draft_version=0)
    draft = request_from_fetch(request, fetch_version=17, draft_version=0, dropping=["max_wait_ms"])
    assert asked(draft, 0, 17).max_wait_ms == 0


@each_fetch
def test_topic_and_partition(fetch_version: int) -> None:
    (topic,) = asked(REQUEST, 1, fetch_version).topics
    assert (topic.topic, topic.topic_id) == (
        ("__cluster_metadata", Uuid.ZERO)
        if fetch_version == 12
        else ("", Uuid.from_string("AAAAAAAAAAAAAAAAAAAAAQ"))
    )
    assert [partition.partition for partition in topic.partitions] == [0]
    both = fetch(fetch_version)
    both.topics[0].topic, both.topics[0].topic_id = TOPIC, Uuid.METADATA_TOPIC_ID
    assert request_from_fetch(both, fetch_version=fetch_version, draft_version=1) == (
        request_from_fetch(fetch(fetch_version), fetch_version=fetch_version, draft_version=1)
    )


REQUEST_EXTRAS = {
    "min_bytes": 0,
    "max_bytes": 1000,
    "isolation_level": 1,
    "session_id": 1,
    "session_epoch": 0,
    "forgotten_topics_data": [ForgottenTopic()],
    "rack_id": "r",
}
PARTITION_EXTRAS = {
    "log_start_offset": 0,
    "partition_max_bytes": 0,
    "replica_directory_id": Uuid(bytes(range(16))),
    "high_watermark": -1,
}


@pytest.mark.parametrize("name", [*REQUEST_EXTRAS, *PARTITION_EXTRAS])
def test_extras_of_requests(name: str) -> None:
    request = fetch(18)
    if name in REQUEST_EXTRAS:
        setattr(request, name, REQUEST_EXTRAS[name])
    else:
        setattr(request.topics[0].partitions[0], name, PARTITION_EXTRAS[name])
    with refused(name):
        request_from_fetch(request, fetch_version=18, draft_version=1)
    if name in REQUEST_HINTS:
        assert request_from_fetch(request, fetch_version=18, draft_version=1, dropping=[name]) == (
            request_from_fetch(fetch(18), fetch_version=18, draft_version=1)
        )
    else:
        with pytest.raises(ValueError, match="cannot be dropped"):
            request_from_fetch(request, fetch_version=18, draft_version=1, dropping=[name])
        with refused(name):
            request_from_fetch(request, fetch_version=18, draft_version=1, dropping=REQUEST_HINTS)


# -- responses, row by row -------------------------------------------------------------------


@each_draft
@pytest.mark.parametrize("code", [0, 1, 3, 6, 42, 74, 75, -1, NOT_FOLLOWER])
def test_error_of_the_partition(draft_version: int, code: int) -> None:
    draft = FetchQuorumRecordsResponse(error_code=code, leader_id=3, leader_epoch=5)
    assert answered(draft, draft_version).error_code == code
    assert drafted(
        draft_version, error_code=code, current_leader=draft_leader(3, 5), high_watermark=-1
    ) == (draft)


def draft_leader(leader_id: int, leader_epoch: int) -> LeaderIdAndEpoch:
    return LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)


@each_draft
def test_error_of_the_whole_answer(draft_version: int) -> None:
    whole = FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    draft = response_from_fetch(
        whole, fetch_version=17, draft_version=draft_version, last_caught_up_time_ms=5
    )
    assert draft == FetchQuorumRecordsResponse(error_code=104, last_caught_up_time_ms=5)
    dropping = ["last_caught_up_time_ms"]
    assert (
        response_to_fetch(draft, draft_version=draft_version, fetch_version=17, dropping=dropping)
        == whole
    )
    both = answer()
    both.error_code = 104
    with refused("responses"):
        response_from_fetch(both, fetch_version=17, draft_version=draft_version)


@each_draft
def test_leader(draft_version: int) -> None:
    for leader_id, leader_epoch in ((3, 5), (-1, 5), (-1, -1), (0, 0)):
        draft = FetchQuorumRecordsResponse(leader_id=leader_id, leader_epoch=leader_epoch)
        leader = answered(draft, draft_version).current_leader
        assert (leader.leader_id, leader.leader_epoch) == (leader_id, leader_epoch)
        again = drafted(draft_version, current_leader=leader, high_watermark=-1)
        assert again == draft


@pytest.mark.parametrize("offset", [0, 1, 2**63 - 1])
@pytest.mark.parametrize(("draft_version", "code"), [(0, 1), (1, 0)])
def test_divergence(draft_version: int, code: int, offset: int) -> None:
    """Offset 0 as well, which the draft's followers took for no order at all."""
    draft = drafted(draft_version, diverging_epoch=EpochEndOffset(epoch=0, end_offset=offset))
    assert (draft.error_code, draft.next_fetch_offset, draft.next_fetch_offset_epoch) == (
        (code, offset, 0)
    )
    for spelling in (0, 1):
        draft.error_code = spelling
        partition = answered(draft, draft_version)
        assert partition.error_code == 0
        assert partition.diverging_epoch == EpochEndOffset(epoch=0, end_offset=offset)


@each_draft
def test_no_divergence(draft_version: int) -> None:
    draft = drafted(draft_version)
    assert (draft.error_code, draft.next_fetch_offset, draft.next_fetch_offset_epoch) == (0, -1, -1)
    assert answered(draft, draft_version).diverging_epoch == EpochEndOffset()
    # Out of range, and nowhere to go: the same error on both sides.
    assert drafted(draft_version, error_code=1).next_fetch_offset == -1
    draft = FetchQuorumRecordsResponse(error_code=1, leader_epoch=5)
    assert answered(draft, draft_version).error_code == 1


@each_draft
@pytest.mark.parametrize(("offset", "epoch"), [(5, -1), (-1, 5), (-2, -2), (0, -5)])
def test_half_a_divergence(draft_version: int, offset: int, epoch: int) -> None:
    with refused("diverging_epoch"):
        drafted(draft_version, diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=offset))
    draft = FetchQuorumRecordsResponse(next_fetch_offset=offset, next_fetch_offset_epoch=epoch)
    with refused("next_fetch_offset"):
        response_to_fetch(draft, draft_version=draft_version, fetch_version=17)


@each_draft
def test_divergence_under_an_error(draft_version: int) -> None:
    place = EpochEndOffset(epoch=1, end_offset=1)
    for code in (1, 74):
        with refused("diverging_epoch"):
            drafted(draft_version, error_code=code, diverging_epoch=place)
    draft = FetchQuorumRecordsResponse(
        error_code=74, next_fetch_offset=1, next_fetch_offset_epoch=1
    )
    with refused("next_fetch_offset"):
        response_to_fetch(draft, draft_version=draft_version, fetch_version=17)


@each_draft
def test_records_are_passed_on(draft_version: int) -> None:
    view = memoryview(b"records")
    assert drafted(draft_version, records=view).records is view
    assert drafted(draft_version, records=None).records == b""
    draft = FetchQuorumRecordsResponse(records=[view, view])
    assert answered_parts(draft, draft_version) is draft.records


def answered_parts(draft: FetchQuorumRecordsResponse, draft_version: int) -> Any:
    return (
        response_to_fetch(draft, draft_version=draft_version, fetch_version=17)
        .responses[0]
        .partitions[0]
        .records
    )


@each_draft
def test_high_watermark(draft_version: int) -> None:
    for offset in (9, 0, -1):
        assert drafted(draft_version, high_watermark=offset).high_watermark == offset
        draft = FetchQuorumRecordsResponse(high_watermark=offset)
        assert answered(draft, draft_version).high_watermark == offset


@each_draft
def test_first_dirty_offset(draft_version: int) -> None:
    for offset in (8, 0, -1):
        assert drafted(draft_version, log_start_offset=offset).first_dirty_offset == offset
        draft = FetchQuorumRecordsResponse(first_dirty_offset=offset)
        assert answered(draft, draft_version).log_start_offset == offset


@each_draft
def test_snapshots_are_out_of_reach(draft_version: int) -> None:
    for snapshot in (SnapshotId(end_offset=8, epoch=1), SnapshotId(end_offset=0, epoch=0)):
        with refused("snapshot_id"):
            response_from_fetch(
                answer(snapshot_id=snapshot),
                fetch_version=17,
                draft_version=draft_version,
                dropping=RESPONSE_HINTS,
            )


@each_draft
def test_last_caught_up_time_ms(draft_version: int) -> None:
    draft = response_from_fetch(
        answer(), fetch_version=17, draft_version=draft_version, last_caught_up_time_ms=7
    )
    assert draft.last_caught_up_time_ms == 7
    with refused("last_caught_up_time_ms"):
        response_to_fetch(draft, draft_version=draft_version, fetch_version=17)
    with pytest.raises(ValueError, match="cannot be dropped"):
        response_to_fetch(
            draft, draft_version=draft_version, fetch_version=17, dropping=["high_watermark"]
        )
    response = response_to_fetch(
        draft, draft_version=draft_version, fetch_version=17, dropping=["last_caught_up_time_ms"]
    )
    assert (
        response_from_fetch(
            response, fetch_version=17, draft_version=draft_version
        ).last_caught_up_time_ms
        == -1
    )


RESPONSE_EXTRAS = {
    "throttle_time_ms": 3,
    "session_id": 3,
    "node_endpoints": [NodeEndpoint(node_id=1, host="h", port=1)],
}
DATA_EXTRAS = {
    "last_stable_offset": 3,
    "preferred_read_replica": 3,
    "aborted_transactions": [AbortedTransaction()],
}


@pytest.mark.parametrize("name", [*RESPONSE_EXTRAS, *DATA_EXTRAS])
def test_extras_of_responses(name: str) -> None:
    response = answer()
    if name in RESPONSE_EXTRAS:
        setattr(response, name, RESPONSE_EXTRAS[name])
    else:
        setattr(response.responses[0].partitions[0], name, DATA_EXTRAS[name])
    with refused(name):
        response_from_fetch(response, fetch_version=17, draft_version=1)
    if name in RESPONSE_HINTS:
        assert (
            response_from_fetch(response, fetch_version=17, draft_version=1, dropping=[name])
            == drafted()
        )
    else:
        with pytest.raises(ValueError, match="cannot be dropped"):
            response_from_fetch(response, fetch_version=17, draft_version=1, dropping=[name])
        with refused(name):
            response_from_fetch(
                response, fetch_version=17, draft_version=1, dropping=RESPONSE_HINTS
            )


# -- messages that mean something else -------------------------------------------------------


@each_fetch
def test_requests_for_something_else(fetch_version: int) -> None:
    def check(field: str, request: FetchRequest) -> None:
        with refused(field):
            request_from_fetch(
                request, fetch_version=fetch_version, draft_version=1, dropping=REQUEST_HINTS
            )

    none = fetch(fetch_version)
    none.topics = []
    check("topics", none)
    two = fetch(fetch_version)
    two.topics *= 2
    check("topics", two)
    for count in (0, 2):
        request = fetch(fetch_version)
        request.topics[0].partitions *= count
        check(r"topics\[0\]\.partitions", request)
    check(r"topics\[0\]\.partitions\[0\]", fetch(fetch_version, partition=1))
    for topic in WRONG_TOPICS:
        wrong = fetch(fetch_version)
        wrong.topics[0].topic, wrong.topics[0].topic_id = topic
        check(r"topics\[0\]", wrong)


WRONG_TOPICS = [
    ("orders", Uuid.ZERO),
    ("", Uuid.ZERO),
    ("orders", Uuid.METADATA_TOPIC_ID),
    (TOPIC, Uuid(bytes(range(16)))),
]


@each_fetch
def test_answers_about_something_else(fetch_version: int) -> None:
    def check(field: str, response: FetchResponse) -> None:
        with refused(field):
            response_from_fetch(
                response, fetch_version=fetch_version, draft_version=1, dropping=RESPONSE_HINTS
            )

    for count in (0, 2):
        response = answer(fetch_version)
        response.responses *= count
        check("responses", response)
        response = answer(fetch_version)
        response.responses[0].partitions *= count
        check(r"responses\[0\]\.partitions", response)
    check(r"responses\[0\]\.partitions\[0\]", answer(fetch_version, partition_index=1))
    for topic in WRONG_TOPICS:
        wrong = answer(fetch_version)
        wrong.responses[0].topic, wrong.responses[0].topic_id = topic
        check(r"responses\[0\]", wrong)


def structs_of(message: Any) -> list[Any]:
    """The message and the structs in it."""
    found = [message]
    for field in type(message).fields:
        if field.struct is not None:
            value = getattr(message, field.name)
            for inner in value if field.is_array else [value]:
                found += structs_of(inner)
    return found


def test_undeclared_tags() -> None:
    def mapped(message: Any) -> Any:
        return {
            FetchQuorumRecordsRequest: lambda: request_to_fetch(
                message, draft_version=1, fetch_version=17
            ),
            FetchQuorumRecordsResponse: lambda: response_to_fetch(
                message, draft_version=1, fetch_version=17
            ),
            FetchRequest: lambda: request_from_fetch(message, fetch_version=17, draft_version=1),
            FetchResponse: lambda: response_from_fetch(message, fetch_version=17, draft_version=1),
        }[type(message)]()

    checked = 0
    for message in (REQUEST_OF_V1, FetchQuorumRecordsResponse(), fetch(), answer()):
        for struct in structs_of(message):
            mapped(message)
            struct.unknown_tags = {9: b"new"}
            with pytest.raises(UnmappableError, match="unknown tags"):
                mapped(message)
            struct.unknown_tags = None
            checked += 1
    assert checked == 12


REQUEST_OF_V1 = FetchQuorumRecordsRequest(cluster_id=CLUSTER, max_wait_time_ms=500)


def test_versions() -> None:
    for draft_version in (-1, 2):
        with pytest.raises(UnsupportedVersionError, match="FetchQuorumRecordsRequest has no"):
            request_to_fetch(REQUEST, draft_version=draft_version, fetch_version=17)
        with pytest.raises(UnsupportedVersionError, match="FetchQuorumRecordsResponse has no"):
            response_from_fetch(answer(), fetch_version=17, draft_version=draft_version)
        with pytest.raises(UnsupportedVersionError, match="FetchQuorumRecordsRequest has no"):
            request_from_fetch(fetch(), fetch_version=17, draft_version=draft_version)
        with pytest.raises(UnsupportedVersionError, match="FetchQuorumRecordsResponse has no"):
            response_to_fetch(RESPONSE, draft_version=draft_version, fetch_version=17)
    for fetch_version in (11, FetchRequest.max_version + 1):
        with refused("version"):
            request_to_fetch(REQUEST, draft_version=1, fetch_version=fetch_version)
        with refused("version"):
            response_to_fetch(RESPONSE, draft_version=1, fetch_version=fetch_version)
        with refused("version"):
            request_from_fetch(fetch(), fetch_version=fetch_version, draft_version=1)
        with refused("version"):
            response_from_fetch(answer(), fetch_version=fetch_version, draft_version=1)
    with refused("max_wait_time_ms|cluster_id"):
        request_to_fetch(REQUEST_OF_V1, draft_version=0, fetch_version=17)
    with refused("is_follower"):
        request_to_fetch(
            FetchQuorumRecordsRequest(is_follower=True), draft_version=1, fetch_version=17
        )
    with refused("node_endpoints"):
        endpoints = FetchResponse(node_endpoints=[NodeEndpoint()])
        response_from_fetch(endpoints, fetch_version=15, draft_version=1, dropping=RESPONSE_HINTS)


def test_errors_say_which_field() -> None:
    with pytest.raises(UnmappableError) as caught:
        request_from_fetch(fetch(partition=1), fetch_version=17, draft_version=1)
    assert caught.value.field == "topics[0].partitions[0]"
    assert str(caught.value) == "topics[0].partitions[0]: is partition 1, not 0"
    assert isinstance(caught.value, ValueError)


# -- there and back --------------------------------------------------------------------------

VERSIONS = st.tuples(st.sampled_from(DRAFT_VERSIONS), st.sampled_from(FETCH_VERSIONS))
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=150, deadline=None, database=None)
@given(versions=VERSIONS, data=st.data())
def test_requests_come_back(versions: tuple[int, int], data: Any) -> None:
    draft_version, fetch_version = versions
    draft = data.draw(objects(FetchQuorumRecordsRequest, draft_version, draft_version == 1))
    draft.unknown_tags = None
    request = FetchRequest.decode(
        request_to_fetch(draft, draft_version=draft_version, fetch_version=fetch_version).encode(
            fetch_version
        ),
        fetch_version,
    )
    again = request_from_fetch(
        request,
        fetch_version=fetch_version,
        draft_version=draft_version,
        is_follower=draft.is_follower,
    )
    draft.cluster_id = draft.cluster_id or ""
    assert again == draft


PLACES = st.just((-1, -1)) | st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1))


@settings(max_examples=150, deadline=None, database=None)
@given(versions=VERSIONS, place=PLACES, data=st.data())
def test_responses_come_back(versions: tuple[int, int], place: Any, data: Any) -> None:
    draft_version, fetch_version = versions
    draft = data.draw(objects(FetchQuorumRecordsResponse, draft_version, draft_version == 1))
    draft.unknown_tags = None
    draft.records = b"".join(draft.records) if type(draft.records) is tuple else draft.records
    draft.next_fetch_offset, draft.next_fetch_offset_epoch = place
    if place != (-1, -1):
        draft.error_code = 1 - draft_version
    time_ms = draft.last_caught_up_time_ms
    response = response_to_fetch(
        draft,
        draft_version=draft_version,
        fetch_version=fetch_version,
        dropping=["last_caught_up_time_ms"],
    )
    response = FetchResponse.decode(response.encode(fetch_version), fetch_version)
    again = response_from_fetch(
        response,
        fetch_version=fetch_version,
        draft_version=draft_version,
        last_caught_up_time_ms=time_ms,
    )
    assert again == draft


@settings(max_examples=100, deadline=None, database=None)
@given(
    fetch_version=st.sampled_from(FETCH_VERSIONS),
    code=st.integers(-1, 136),
    leader=st.tuples(INT32, st.integers(0, 2**31 - 1)),
    place=PLACES,
    offsets=st.tuples(INT64, INT64),
    records=st.binary(max_size=20),
)
@pytest.mark.parametrize("draft_version", DRAFT_VERSIONS)
def test_answers_of_raft_leaders_come_back(
    draft_version: int,
    fetch_version: int,
    code: int,
    leader: Any,
    place: Any,
    offsets: Any,
    records: Any,
) -> None:
    """What a Raft leader says of a partition always has the leader's epoch in it."""
    response = answer(
        fetch_version,
        error_code=code if place == (-1, -1) else 0,
        high_watermark=offsets[0],
        log_start_offset=offsets[1],
        diverging_epoch=EpochEndOffset(end_offset=place[0], epoch=place[1]),
        current_leader=draft_leader(*leader),
        aborted_transactions=None,
        records=records,
    )
    draft = response_from_fetch(response, fetch_version=fetch_version, draft_version=draft_version)
    data = draft.encode(draft_version)
    draft = FetchQuorumRecordsResponse.decode(data, draft_version)
    assert (
        response_to_fetch(draft, draft_version=draft_version, fetch_version=fetch_version)
        == response
    )


def test_messages_that_cannot_be_encoded() -> None:
    """They are refused with the name of the field, whatever is wrong."""
    odd: Any = {1: b"", "2": b"", 10**5000: b""}
    draft = FetchQuorumRecordsRequest(unknown_tags=odd)
    with refused("FetchQuorumRecordsRequest"):
        request_to_fetch(draft, draft_version=1, fetch_version=17)
    nothing: Any = None
    response = answer(current_leader=nothing)
    with pytest.raises(UnmappableError, match=r"current_leader: cannot be None"):
        response_from_fetch(response, fetch_version=17, draft_version=1)
    del response.responses
    with refused("responses"):
        response_from_fetch(response, fetch_version=17, draft_version=1)
    with refused("max_bytes"):
        request_from_fetch(FetchRequest(max_bytes=10**5000), fetch_version=17, draft_version=1)


@pytest.mark.parametrize("version", ["1", None, True, 1.0])
def test_versions_are_numbers(version: Any) -> None:
    with pytest.raises(TypeError, match="a version is a number"):
        request_to_fetch(FetchQuorumRecordsRequest(), draft_version=version, fetch_version=17)
    with pytest.raises(TypeError, match="a version is a number"):
        request_from_fetch(fetch(), fetch_version=version, draft_version=1)
