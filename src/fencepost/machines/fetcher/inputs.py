"""The inputs of a fetcher, and the requests that it makes. All plain values."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from msgspec import Struct

from fencepost.wire.message import Message
from fencepost.wire.types import Uuid


class FollowedPartition(NamedTuple):
    """A partition by all its names; a zero `topic_id` says that the topic has none."""

    topic: str
    topic_id: Uuid
    partition: int


class FetchPosition(Struct, frozen=True):
    """Where a follower stands: everything below `offset` is in its log, and durable.

    `last_epoch` is the leader epoch of its last batch, -1 if it has none.
    """

    offset: int
    last_epoch: int
    log_start_offset: int


class FetcherConfig(Struct, frozen=True):
    """The `replica.*` keys of a broker's configuration."""

    fetch_max_bytes: int = 1_048_576
    """Of one partition, in one answer."""
    response_max_bytes: int = 10_485_760
    min_bytes: int = 1
    wait_max_ms: int = 500
    backoff_ms: int = 1_000
    timeout_ms: int = 30_000
    """How long an answer may take."""


# Inputs


class Follow(Struct, frozen=True):
    """Fetch the partition from now on, under this leader epoch.

    `machine` names the partition's machine in every `Tell`; that machine has been given `told`
    inputs of fetchers before. A partition that is followed already under the same epoch, or a newer
    one, stays as it is.
    """

    partition: FollowedPartition
    machine: Any
    leader_epoch: int
    position: FetchPosition
    told: int = 0


class Unfollow(Struct, frozen=True):
    """The partition is not to be fetched by this fetcher any more."""

    partition: FollowedPartition


class Progressed(Struct, frozen=True):
    """The partition's machine has done what it was told, and its log is durable up to here.

    `taken` is how many inputs of fetchers it has taken so far.
    """

    partition: FollowedPartition
    position: FetchPosition
    taken: int = 0


class LeaderAnswered(Struct, frozen=True):
    """The answer to the request of that number."""

    number: int
    response: Any


class LeaderFailed(Struct, frozen=True):
    """There will be no answer to the request of that number.

    `is_unsupported`: it was not sent, because the leader has no version that can say it.
    """

    number: int
    reason: str
    is_unsupported: bool = False


# Messages


class LeaderRequest(Struct, frozen=True):
    """A request to the leader, in any version from `lowest` to `highest`.

    `abandons`: the one before it was not answered, and nobody waits for it any more.
    """

    number: int
    request: Message
    lowest: int
    highest: int
    timeout_ms: int
    abandons: bool = False


# What an operator is told


class NoticeKind(Enum):
    """What there is to say of a partition, or of the leader."""

    UNREACHABLE = "the leader does not answer"
    RECOVERED = "the leader answers again"
    REFUSED = "the leader refuses"
    CORRUPT = "the leader sent a batch that is not sound"
    DIVERGED = "the log diverges from the leader's"
    UNCLEAN = "the leader's log ends before ours"
    STARTS_OVER = "the leader's log starts behind ours"
    STOPPED = "nothing more is fetched before there is another leader epoch"


class Notice(NamedTuple):
    """For the log of the node; `partition` is None where all are concerned."""

    kind: NoticeKind
    partition: FollowedPartition | None
    text: str
