"""A cluster at a moment, as a look at it found it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fencepost.client.groups import ListedGroup
from fencepost.client.metadata import Node, TopicInfo
from fencepost.client.quorum import QuorumDescription
from fencepost.views.view import View


class Sample(View, frozen=True):
    """A cluster at a moment (ms since 1970). What could not be had is None, and `errors` say why,
    by what was asked for."""

    taken_at_ms: int
    took_ms: float
    cluster_id: str
    controller_id: int
    brokers: Mapping[int, Node]
    fenced: frozenset[int]
    topics: Mapping[str, TopicInfo]
    groups: Sequence[ListedGroup] | None
    quorum: QuorumDescription | None
    requests: Mapping[str, int]
    errors: Mapping[str, str]
