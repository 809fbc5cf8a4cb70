"""`benchmarks/groups`: what its members say, when a crowd has arrived, its figures, a short run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.client.errors import ClientError
from fencepost.wire.api.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.groups import bench, members  # noqa: E402 - the benchmarks are no package

TOPIC = Uuid(bytes(15) + b"\1")


def answer(epoch: int, *partitions: int, error: int = 0) -> ConsumerGroupHeartbeatResponse:
    """An answer that gives these partitions of the topic."""
    rows = [TopicPartitions(topic_id=TOPIC, partitions=list(partitions))]
    return ConsumerGroupHeartbeatResponse(
        error_code=error, member_epoch=epoch, assignment=Assignment(topic_partitions=rows)
    )


def test_a_member_says_at_once_what_it_has() -> None:
    member = members.Member("g", "m", "t")
    joining = member.request()
    assert (joining.member_epoch, joining.topic_partitions) == (0, [])
    assert joining.subscribed_topic_names == ["t"]
    member.apply(answer(2, 0, 1))
    assert member.is_stale
    said = member.request()
    assert said.topic_partitions == [TopicPartitions(topic_id=TOPIC, partitions=[0, 1])]
    assert (said.subscribed_topic_names, said.rebalance_timeout_ms) == (None, -1)
    member.apply(ConsumerGroupHeartbeatResponse(member_epoch=2))
    assert not member.is_stale
    assert member.request().topic_partitions is None


@pytest.mark.parametrize("error", sorted(members.REJOINED_AFTER))
def test_a_fenced_member_joins_again(error: int) -> None:
    member = members.Member("g", "m", "t")
    member.apply(answer(2, 0))
    member.apply(ConsumerGroupHeartbeatResponse(error_code=error))
    assert (member.epoch, member.owned) == (0, frozenset())
    assert member.request().subscribed_topic_names == ["t"]


def test_an_error_that_no_member_expects_ends_the_run() -> None:
    member = members.Member("g", "m", "t")
    member.apply(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR))
    assert member.is_stale
    with pytest.raises(ClientError):
        member.apply(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST))


def test_a_crowd_has_arrived_when_each_partition_has_one_member() -> None:
    crowd = members.crowd_of(2, "g", "t", 1.0)
    one, two = crowd.members
    assert not members.all_own(crowd, 2)
    for member, partition in ((one, 0), (two, 1)):
        member.apply(answer(3, partition))
        assert not members.all_own(crowd, 2)
        member.apply(ConsumerGroupHeartbeatResponse(member_epoch=3))
    assert members.all_own(crowd, 2)
    assert not members.all_own(crowd, 3)
    two.owned = one.owned
    assert not members.all_own(crowd, 2)
    one.owned, two.owned = frozenset(((TOPIC, 0), (TOPIC, 1))), frozenset()
    assert not members.all_own(crowd, 2)


def test_figures_are_medians_and_ratios() -> None:
    found = [bench.Figures(("a", "b"), (value, 0.0)) for value in (1.0, 9.0, 4.0)]
    middle = bench.median_of(found)
    assert middle.values == (4.0, 0.0)
    assert bench.Figures(("a", "b"), (2.0, 3.0)).ratios(middle) == ["0.50", "-"]
    assert [bench.shown(one) for one in (1234.5, 99.55, 0.01234)] == ["1,234", "99.5", "0.0123"]


@pytest.mark.long
def test_a_run_prints_a_row_for_each_case() -> None:
    script = ROOT / "benchmarks/groups/bench.py"
    done = subprocess.run(
        [sys.executable, str(script), "--smoke", "--kinds", "fencepost"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    tables = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    for words in ("20 members", "4 consumers"):
        assert any(words in line for line in tables), done.stdout
    assert any("of the killed broker" in line for line in tables), done.stdout
