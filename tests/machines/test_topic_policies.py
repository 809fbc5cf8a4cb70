"""What the configs in force say of topics."""

from __future__ import annotations

import pytest

from fencepost.machines.controller.config import ControllerConfig
from fencepost.machines.controller.configs import SET
from fencepost.machines.controller.topic_policies import PoliciesInForce
from fencepost.machines.image import RESOURCE_BROKER, RESOURCE_TOPIC

from .controller_fixtures import CLUSTER_ID, Bench, cluster

MIN_ISR = "min.insync.replicas"


@pytest.fixture
def bench() -> Bench:
    made = cluster(1, 2, 3)
    made.create("t", assignments=[(0, [1, 2]), (1, [1, 3])])
    return made


def min_isr(bench: Bench, **defaults: int) -> int:
    config = ControllerConfig(
        CLUSTER_ID, topic_defaults={k.replace("_", "."): v for k, v in defaults.items()}
    )
    return PoliciesInForce(bench.image, config).min_isr(bench.topic("t"))


def test_min_isr_is_no_more_than_the_replicas_of_partition_0(bench: Bench) -> None:
    assert min_isr(bench) == 1
    assert min_isr(bench, min_insync_replicas=2) == 2
    assert min_isr(bench, min_insync_replicas=5) == 2


def test_the_topics_own_config_counts_first(bench: Bench) -> None:
    bench.alter_config(RESOURCE_BROKER, "", (SET, MIN_ISR, "2"))
    assert min_isr(bench) == 2
    bench.alter_config(RESOURCE_TOPIC, "t", (SET, MIN_ISR, "1"))
    assert min_isr(bench) == 1
