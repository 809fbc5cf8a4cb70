"""Plans of reassignments, as kafka-reassign-partitions reads and writes them (KIP-455)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fencepost.client.metadata import TopicPartition
from fencepost.views.view import View

PLAN_VERSION = 1
ANY_LOG_DIR = "any"


class PlannedPartition(View, frozen=True):
    """Where the replicas of a partition are to be: brokers, the preferred leader first, and a log
    directory of each."""

    topic: str
    partition: int
    replicas: list[int]
    log_dirs: list[str]


class PlanView(View, frozen=True):
    """A plan, in the version of the format that Kafka has."""

    version: int
    partitions: list[PlannedPartition]

    @classmethod
    def of(cls, plan: Mapping[TopicPartition, Sequence[int]]) -> PlanView:
        """The plan that lets brokers choose their log directories."""
        return cls(
            PLAN_VERSION,
            [
                PlannedPartition(
                    where.topic, where.partition, list(replicas), [ANY_LOG_DIR] * len(replicas)
                )
                for where, replicas in sorted(plan.items())
            ],
        )
