"""`fencepost epochs` against a served broker."""

from __future__ import annotations

from collections.abc import Callable

from ..client.fake_cluster import FakeCluster
from ..client.records import batch
from .commands import Fencepost, Ran


def test_epochs_of_a_topic_without_a_leader_change(
    run: Fencepost, topic: str, produce: Callable[..., Ran]
):
    produce(topic, "1\n2\n", "--partition", "0")
    assert run("epochs", topic, "--partition", "0", "--json").json == {
        "topic": topic,
        "epochs": [{"partition": 0, "leader_epoch": 0, "start_offset": 0, "end_offset": 2}],
    }
    assert run("epochs", topic, "--partition", "9").code == 2


def test_epochs_of_a_topic_after_leader_changes(run: Fencepost):
    with FakeCluster(brokers=2) as fake:
        fake.create_topic("t")
        partition = fake.partition("t")
        partition.append(batch(b"a", b"b", b"c"))
        partition.elect(2)
        partition.append(batch(b"d"))
        partition.elect(1, cut_to=3)
        partition.append(batch(b"e", b"f"))
        shown = run("epochs", "t", bootstrap=fake.bootstrap_servers).lines
    assert shown == [
        "partition  leader epoch  start offset  end offset",
        "        0             0             0           3",
        "        0             2             3           5",
    ]
