"""What ShareFetch and ShareAcknowledge have in common: checks of members, and acknowledgements.

Checks of a request, in this order: share groups are not offered (`share.version` 0): 35; no group:
42; no right to read the group: 30; a member id that is empty or has more than 36 letters: 42.

Acknowledgements of one partition, in this order: batches that are not valid (see `batches_of`): 42;
an id that no topic has: 100; no right to read the topic: 29; no such partition: 3; led elsewhere: 6
or 74, with the leader; nothing was acquired of the partition here: 3; what the share partition says
(`machines.share.acknowledging`). A partition without batches, and without error, is not answered.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from fencepost.machines.share.inputs import AcknowledgedBatch, AcknowledgeResult
from fencepost.machines.share.records import AcknowledgeType
from fencepost.machines.share.sessions import TopicPartition
from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.requests.access import Access, PartitionAccess
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.leader_hints import LeaderHints
from fencepost.runtime.requests.parts import ClusterMetadata
from fencepost.runtime.requests.permissions import READ_GROUP, READ_TOPIC
from fencepost.runtime.share_sessions import ShareSessionHost
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

MEMBER_ID_LETTERS_MAX: Final = 36
RENEWAL_FROM: Final = 2
"""The version from which locks can be renewed (KIP-1222)."""
NAMES_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class ShareParts(NamedTuple):
    """What share consumers are answered from."""

    access: Access
    metadata: ClusterMetadata
    partitions: PartitionAccess
    sessions: ShareSessionHost


class MemberRequest(Protocol):
    """A request of a member."""

    group_id: str | None
    member_id: str | None


class RangeOfRequest(Protocol):
    """A batch of acknowledgements, as requests have it."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def refusal(parts: ShareParts, context: RequestContext, request: MemberRequest) -> ErrorCode:
    """Why the request cannot be taken; NONE if it can."""
    if not parts.metadata.image.features.get("share.version", 0):
        return ErrorCode.UNSUPPORTED_VERSION
    if request.group_id is None:
        return ErrorCode.INVALID_REQUEST
    if error := parts.access.refusal(context, READ_GROUP, request.group_id):
        return error
    if not request.member_id or len(request.member_id) > MEMBER_ID_LETTERS_MAX:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def batches_of(
    ranges: Iterable[RangeOfRequest], version: int, *, is_renewal: bool
) -> list[AcknowledgedBatch] | None:
    """The batches, in order; None if they are not valid.

    A range ends before it begins or begins before the one before it ends; it has no type, or
    several and not one for each offset; a type does not exist in the version, or renews in a
    request that does not say so.
    """
    highest = AcknowledgeType.RENEW if version >= RENEWAL_FROM else AcknowledgeType.REJECT
    batches: list[AcknowledgedBatch] = []
    end = -1
    for one in ranges:
        first, last, types = one.first_offset, one.last_offset, one.acknowledge_types
        if first > last or first < end or not types:
            return None
        if len(types) > 1 and len(types) != last - first + 1:
            return None
        if min(types) < AcknowledgeType.GAP or max(types) > highest:
            return None
        if AcknowledgeType.RENEW in types and not is_renewal:
            return None
        batches.append(AcknowledgedBatch(first, last, types))
        end = last
    return batches


def leader_finder(
    parts: ShareParts, context: RequestContext
) -> Callable[[Uuid, int], HostedPartition | ErrorCode]:
    """What finds partitions that this node leads, for the time the request is handled or waits."""
    find = parts.partitions.finder(context, READ_TOPIC, by_id=True)

    def find_led(topic_id: Uuid, index: int) -> HostedPartition | ErrorCode:
        hosted = find(topic_id, index)
        if isinstance(hosted, ErrorCode):
            return hosted
        return hosted.machine.check_asker(-1, True) or hosted

    return find_led


class Acknowledgements:
    """Those of one request, until all partitions have answered."""

    def __init__(self, parts: ShareParts, context: RequestContext, request: Any) -> None:
        self.results: dict[TopicPartition, AcknowledgeResult] = {}
        """What came of them, by partition."""
        self._parts = parts
        self._context = context
        self._group_id: str = request.group_id
        self._member_id: str = request.member_id
        self._is_renewal = context.api_version >= RENEWAL_FROM and request.is_renew_ack
        self._left = 0
        self._done: Callable[[], None] | None = None

    def begin(
        self, named: Sequence[tuple[TopicPartition, Sequence[RangeOfRequest]]]
    ) -> Generator[None, None, None]:
        """Take the partitions' acknowledgements, one in each piece."""
        find = leader_finder(self._parts, self._context)
        self._left = 1
        for partition, ranges in named:
            self._left += 1
            self._take(partition, ranges, find)
            yield None
        self._answered()

    def when_done(self, done: Callable[[], None]) -> None:
        """Call `done` when all partitions have answered, perhaps at once."""
        if self._left:
            self._done = done
        else:
            done()

    def _take(
        self,
        partition: TopicPartition,
        ranges: Sequence[RangeOfRequest],
        find: Callable[[Uuid, int], HostedPartition | ErrorCode],
    ) -> None:
        def answered(result: AcknowledgeResult) -> None:
            self.results[partition] = result
            self._answered()

        version = self._context.api_version
        batches = batches_of(ranges, version, is_renewal=self._is_renewal)
        hosted = find(*partition)
        if batches is None and hosted is not ErrorCode.UNKNOWN_TOPIC_ID:
            answered(AcknowledgeResult(ErrorCode.INVALID_REQUEST))
        elif isinstance(hosted, ErrorCode):
            answered(AcknowledgeResult(hosted))
        elif not batches:
            self._answered()
        else:
            key = SharePartitionKey(self._group_id, *partition)
            share_partitions = self._parts.sessions.partitions
            share_partitions.acknowledge(key, self._member_id, batches, answered)

    def _answered(self) -> None:
        self._left -= 1
        if not self._left and self._done is not None:
            self._done()


class Leaders:
    """Names leaders in rows of an answer, and their addresses (KIP-951)."""

    def __init__(self, parts: ShareParts, context: RequestContext) -> None:
        self._hints = LeaderHints(parts.metadata.image, context.listener_name)

    def name_leader(self, current_leader: Any, partition: TopicPartition, error: int) -> None:
        """Fill in the leader, if the error is one that says to look for another."""
        if error not in NAMES_LEADER:
            return
        leader = self._hints.leader_of("", *partition)
        if leader is not None:
            current_leader.leader_id = leader.leader_id
            current_leader.leader_epoch = leader.leader_epoch

    def endpoints(self, make: Callable[..., Any]) -> list[Any]:
        """The addresses of those that were named, as the answer has them."""
        return [
            make(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack)
            for one in self._hints.endpoints()
        ]
