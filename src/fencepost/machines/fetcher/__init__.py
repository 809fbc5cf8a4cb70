"""What a follower asks of its leaders: one machine for each leader and fetcher number.

`Fetcher` is the machine; `inputs` has what it is told and what it asks for, `reactions` the table
of what follows each error of a leader.
"""

from fencepost.machines.fetcher.inputs import (
    FetcherConfig,
    FetchPosition,
    Follow,
    FollowedPartition,
    LeaderAnswered,
    LeaderFailed,
    LeaderRequest,
    Notice,
    NoticeKind,
    Progressed,
    Unfollow,
)
from fencepost.machines.fetcher.machine import Fetcher

__all__ = [
    "FetchPosition",
    "Fetcher",
    "FetcherConfig",
    "Follow",
    "FollowedPartition",
    "LeaderAnswered",
    "LeaderFailed",
    "LeaderRequest",
    "Notice",
    "NoticeKind",
    "Progressed",
    "Unfollow",
]
