"""A fetcher's requests as messages, and the answers' parts as they name partitions.

Three forms of Fetch, for leaders of different ages:

| form       | versions | the follower names itself in  | divergence                            |
|------------|----------|-------------------------------|---------------------------------------|
| WITH_EPOCH | 15 to 18 | ReplicaState, with its broker | in the answer (KIP-595)               |
|            |          | epoch (KIP-903)               |                                       |
| BY_ID      | 12 to 14 | ReplicaId                     | in the answer                         |
| OLD        | 9 to 11  | ReplicaId                     | OffsetForLeaderEpoch first, in rounds |
|            |          |                               | until the epochs agree (KIP-279)      |

Topics go by id from 13 on, so where one has no id the form is BY_ID, at 12. Below 9 a leader cannot
fence a follower of an older epoch (KIP-320); such a leader is not followed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from itertools import groupby
from typing import Final, NamedTuple

from msgspec import Struct

from fencepost.machines.fetcher.followed import Followed
from fencepost.machines.fetcher.inputs import FetcherConfig, FollowedPartition
from fencepost.machines.fetcher.rules import RULES, FetcherRules
from fencepost.machines.fetcher.session import SessionRequest, Wanted
from fencepost.wire.api import fetch, list_offsets, offset_for_leader_epoch as epochs

NO_EPOCH: Final = -1
LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2


class VersionSpan(NamedTuple):
    """Versions from `lowest` to `highest`, both included."""

    lowest: int
    highest: int


class Form(Enum):
    """See the module docstring."""

    WITH_EPOCH = VersionSpan(15, 18)
    BY_ID = VersionSpan(12, 14)
    OLD = VersionSpan(9, 11)

    def versions(self, *, uses_ids: bool) -> VersionSpan:
        """Those that can say what is asked; a form that cannot has none (lowest above highest)."""
        lowest, highest = self.value
        return self.value if uses_ids else VersionSpan(lowest, min(highest, 12))


EPOCH_VERSIONS: Final = VersionSpan(2, 4)
"""OffsetForLeaderEpoch with fencing."""
LIST_VERSIONS: Final = VersionSpan(4, 11)
"""ListOffsets with fencing."""


class FetchForm(Struct, frozen=True):
    """Who asks, and in which form."""

    broker_id: int
    broker_epoch: int
    form: Form


def fetch_request(
    who: FetchForm, config: FetcherConfig, session: SessionRequest, rules: FetcherRules = RULES
) -> fetch.FetchRequest:
    """A Fetch of a follower, incremental or full as the session says."""
    request = fetch.FetchRequest(
        max_wait_ms=config.wait_max_ms,
        min_bytes=config.min_bytes,
        max_bytes=config.response_max_bytes,
        session_id=session.session_id,
        session_epoch=session.epoch,
        topics=[
            fetch.FetchTopic(
                topic=topic,
                topic_id=topic_id,
                partitions=[
                    _fetch_partition(one, wanted, who, config, rules) for one, wanted in group
                ],
            )
            for (topic, topic_id), group in groupby(session.partitions, lambda pair: pair[0][:2])
        ],
        forgotten_topics_data=[
            fetch.ForgottenTopic(
                topic=topic, topic_id=topic_id, partitions=[one.partition for one in group]
            )
            for (topic, topic_id), group in groupby(session.forgotten, lambda one: one[:2])
        ],
    )
    if who.form is Form.WITH_EPOCH:
        request.replica_state = fetch.ReplicaState(
            replica_id=who.broker_id, replica_epoch=who.broker_epoch
        )
    else:
        request.replica_id = who.broker_id
    return request


def _fetch_partition(
    partition: FollowedPartition,
    wanted: Wanted,
    who: FetchForm,
    config: FetcherConfig,
    rules: FetcherRules,
) -> fetch.FetchPartition:
    position = wanted.position
    last_epoch = NO_EPOCH if who.form is Form.OLD else position.last_epoch
    current_leader_epoch, last_fetched_epoch = rules.named_epochs(wanted.leader_epoch, last_epoch)
    return fetch.FetchPartition(
        partition=partition.partition,
        current_leader_epoch=current_leader_epoch,
        fetch_offset=position.offset,
        last_fetched_epoch=last_fetched_epoch,
        log_start_offset=position.log_start_offset,
        partition_max_bytes=config.fetch_max_bytes,
    )


def epochs_request(broker_id: int, asked: Iterable[Followed]) -> epochs.OffsetForLeaderEpochRequest:
    """Where the last epoch of each partition's log ends at the leader."""
    return epochs.OffsetForLeaderEpochRequest(
        replica_id=broker_id,
        topics=[
            epochs.OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    epochs.OffsetForLeaderPartition(
                        partition=one.partition.partition,
                        current_leader_epoch=one.leader_epoch,
                        leader_epoch=one.position.last_epoch,
                    )
                    for one in group
                ],
            )
            for topic, group in groupby(asked, lambda one: one.partition.topic)
        ],
    )


def offsets_request(broker_id: int, asked: Iterable[Followed]) -> list_offsets.ListOffsetsRequest:
    """Where the leader's logs end, or, where that is known and not below ours, where they start."""
    return list_offsets.ListOffsetsRequest(
        replica_id=broker_id,
        topics=[
            list_offsets.ListOffsetsTopic(
                name=topic,
                partitions=[
                    list_offsets.ListOffsetsPartition(
                        partition_index=one.partition.partition,
                        current_leader_epoch=one.leader_epoch,
                        timestamp=LATEST_TIMESTAMP if one.leader_end < 0 else EARLIEST_TIMESTAMP,
                    )
                    for one in group
                ],
            )
            for topic, group in groupby(asked, lambda one: one.partition.topic)
        ],
    )
