"""`fencepost brokers` against three brokers, one of which is taken out in the end."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fencepost.cli.brokers_decommission import _Leaving, replacements
from fencepost.cli.failures import InputError
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as ClientCluster
from fencepost.client.metadata import Node, PartitionInfo, TopicInfo, TopicPartition
from fencepost.client.replicas import Outcome, Reassignment
from fencepost.testing import Cluster
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from ..waiting import DEADLINE_S, eventually
from .commands import Fencepost

KEPT, ALONE = "kept", "alone"
RUN = "from fencepost.cli.main import main; import sys; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(brokers=3, broker_rack="r", offsets_topic_num_partitions=1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def served(three: Cluster) -> str:
    """What commands of this module talk to."""
    return three.bootstrap_servers


@pytest.fixture(scope="module")
def admin(served: str) -> Iterator[Admin]:
    """With two topics, of which broker 3 has two replicas, one of them the only one."""
    with ClientCluster(served) as cluster:
        admin = Admin(cluster)
        admin.create_topic(KEPT, assignments={0: [3, 1], 1: [2, 1]})
        admin.create_topic(ALONE, assignments={0: [3]})
        admin.wait_for_topic(KEPT)
        admin.wait_for_topic(ALONE)
        yield admin


@pytest.fixture(scope="module", autouse=True)
def records(served: str, admin: Admin) -> None:
    from fencepost.client.producer import Producer

    with ClientCluster(served) as cluster, Producer(cluster) as producer:
        for number in range(300):
            producer.send(KEPT, b"%d" % number)
            producer.send(ALONE, b"%d" % number)


def test_every_broker_is_listed_with_what_is_on_it(run: Fencepost, three: Cluster):
    told = run("brokers", "list", "--json").json
    assert [(one["broker"], one["fenced"], one["rack"]) for one in told] == [
        (id_, False, "r") for id_ in (1, 2, 3)
    ]
    assert [(one["replicas"], one["leads"], one["out_of_sync"]) for one in told] == [
        (2, 0, 0),
        (1, 1, 0),
        (2, 2, 0),
    ]
    assert {one["quorum_role"] for one in told} == {"observer"}
    lines = run("brokers", "list").lines
    assert lines[0].split() == [
        *("broker", "address", "rack", "state", "quorum", "replicas", "leads", "out-of-sync")
    ]
    assert lines[3].split()[3:] == ["unfenced", "observer", "2", "2", "0"]


def test_a_broker_is_described_with_epochs_features_and_directories(run: Fencepost):
    (told,) = run("brokers", "describe", "3", "--json").json
    assert told["leader_epoch_of_quorum"] >= 1
    assert told["features_epoch"] > 0
    assert 0 < told["broker_epoch"] < told["features_epoch"]
    features = {one["name"]: one for one in told["features"]}
    assert 0 < features["metadata.version"]["level"] <= features["metadata.version"]["max_level"]
    (directory,) = told["log_dirs"]
    assert [one["topic"] for one in directory["replicas"]] == [ALONE, KEPT]
    text = run("brokers", "describe").out
    assert text.count("metadata quorum: observer, leader epoch ") == 3
    assert text.count("epoch of the finalized features: ") == 3
    assert "2 replicas, leads 2, out of sync 0\n" in text
    refused = run("brokers", "describe", "9")
    assert (refused.code, refused.out) == (2, "")
    assert "no broker 9 is registered; there are [1, 2, 3]" in refused.err


def test_a_broker_that_has_replicas_or_runs_is_not_unregistered(run: Fencepost):
    refused = run("brokers", "unregister", "3")
    assert (refused.code, refused.out) == (1, "")
    assert "2 replicas assigned to broker 3: `fencepost brokers decommission 3`" in refused.err
    unknown = run("brokers", "unregister", "77", "--force")
    assert (unknown.code, "BROKER_ID_NOT_REGISTERED" in unknown.err) == (1, True)


def test_a_dry_run_says_what_would_move_and_moves_nothing(run: Fencepost, admin: Admin):
    told = run("brokers", "decommission", "3", "--dry-run", "--json").json
    assert told == [
        {"topic": ALONE, "partition": 0, "to": [2]},
        {"topic": KEPT, "partition": 0, "to": [2, 1]},
    ]
    assert admin.list_reassignments() == {}
    assert admin.describe_topic(KEPT).partitions[0].replicas == (3, 1)
    for wrong in ("3", "7"):
        refused = run("brokers", "decommission", "3", "--brokers", wrong)
        assert refused.code == 2
        assert f"--brokers: {wrong} cannot take replicas; those that can: [1, 2]" in refused.err
    refused = run("brokers", "decommission", "3", "--brokers", "1")
    assert refused.code == 1
    assert f"{KEPT}-0: every broker that may take its replica has one already" in refused.err


def test_a_partition_that_only_a_stopped_broker_has_is_not_given_up(
    run: Fencepost, three: Cluster, admin: Admin
):
    (before,) = run("brokers", "describe", "3", "--json").json
    three.stop(3)
    eventually(lambda: admin.describe_topic(ALONE).partitions[0].leader_id == -1, "no leader")
    try:
        assert [one["fenced"] for one in run("brokers", "list", "--json").json] == [
            *(False, False, True)
        ]
        assert (
            "not known: features and log directories: it is fenced"
            in run("brokers", "describe", "3").out
        )
        refused = run("brokers", "decommission", "3")
    finally:
        three.start(3)
    assert (refused.code, refused.out) == (1, "")
    assert f"{ALONE}-0: no leader, so nothing can be copied; start the brokers" in refused.err
    admin.wait_for_topic(ALONE)
    (after,) = run("brokers", "describe", "3", "--json").json
    assert after["broker_epoch"] > before["broker_epoch"]


def test_a_broker_is_decommissioned_in_steps_and_no_record_is_lost(
    run: Fencepost, three: Cluster, admin: Admin
):
    throttle = ("--throttle", "100000000")
    begun = run("brokers", "decommission", "3", "--wait", "1", *throttle)
    assert (begun.code, begun.out) == (1, "")
    waits = "no replica is on broker 3 any more: stop it now\n"
    if waits not in begun.err:  # a second was not enough for the copies on a busy machine
        assert "the same command goes on from here" in begun.err
    words = ["brokers", "decommission", "3", "-b", three.bootstrap_servers]
    words += ["--wait", str(int(DEADLINE_S)), *throttle]
    command = [sys.executable, "-c", RUN, *words]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as on:
        try:
            assert on.stderr is not None
            said = ""
            while waits not in said:
                line = on.stderr.readline()
                assert line, f"it has ended: {said}"
                said += line
            for topic in (KEPT, ALONE):
                partitions = admin.describe_topic(topic).partitions.values()
                assert all(3 not in one.replicas for one in partitions)
            still = run("brokers", "unregister", "3")
            assert "broker 3 runs, and would register again: stop it first" in still.err
            three.stop(3)
            out, _ = on.communicate(timeout=DEADLINE_S)
        finally:
            on.kill()
    assert (on.returncode, out) == (0, "broker 3 is decommissioned\n")
    eventually(
        lambda: [one["broker"] for one in run("brokers", "list", "--json").json] == [1, 2],
        "broker 3 is forgotten",
    )
    for topic in (KEPT, ALONE):
        printed = Counter(run("consume", topic).lines)
        assert printed == Counter(str(number) for number in range(300))
    again = run("brokers", "decommission", "3")
    assert (again.code, again.out) == (
        0,
        "nothing to do: broker 3 is not registered and has no replicas\n",
    )
    assert run("configs", "describe", "--topic", KEPT).out.count("throttled") == 0


def test_a_replacement_is_in_a_rack_of_its_own_and_on_the_emptiest_broker():
    racks = {1: "a", 2: "b", 3: "b", 4: "a", 5: "a"}
    targets = {TopicPartition("t", number): [1, 2] for number in range(4)}
    plan = replacements(targets, 1, [2, 3, 4, 5], racks)
    assert [ids for _, ids in sorted(plan.items())] == [[4, 2], [5, 2], [4, 2], [5, 2]]
    assert replacements({TopicPartition("t", 0): [2, 3]}, 1, [2, 3], racks) == {}
    with pytest.raises(InputError, match="t-0, t-1, t-2 and 1 more: every broker"):
        replacements(targets, 1, [2], racks)


class Seen:
    """A cluster as `decommission` sees it: broker 3 is to leave, broker 4 is fenced."""

    def __init__(self, replicas: list[tuple[int, ...]], moving: dict[int, Reassignment]) -> None:
        self.replicas = replicas
        self.moving = {TopicPartition("t", number): one for number, one in moving.items()}
        self.deleted = False

    def list_topics(self, *, include_internal: bool) -> list[TopicInfo]:
        assert include_internal
        partitions = {
            number: PartitionInfo(number, ids[0], 1, ids, ids, ())
            for number, ids in enumerate(self.replicas)
        }
        return [TopicInfo("t", Uuid.ZERO, False, {} if self.deleted else partitions)]

    def list_reassignments(self) -> dict[TopicPartition, Reassignment]:
        return self.moving

    def describe_cluster(self, *, include_fenced: bool) -> SimpleNamespace:
        nodes = [Node(id_, "127.0.0.1", id_) for id_ in range(1, 5)]
        return SimpleNamespace(brokers=nodes, fenced=frozenset({4}))

    def alter_reassignments(self, plan: dict[TopicPartition, list[int]]) -> dict[Any, Outcome]:
        self.deleted = True
        return dict.fromkeys(plan, Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    def leaving(self) -> _Leaving:
        arguments = argparse.Namespace(broker=3, brokers=None, throttle=None, wait=1)
        return _Leaving(cast(Admin, self), arguments)


def test_what_is_on_its_way_already_is_not_planned_and_no_fenced_broker_is_a_target():
    on_its_way = Reassignment(replicas=(2, 3, 1), adding=(2,), removing=(3,))
    seen = Seen([(3, 1), (2, 3, 1), (3,)], {1: on_its_way})
    assert seen.leaving().plan() == {TopicPartition("t", 0): [2, 1], TopicPartition("t", 2): [1]}


def test_moves_of_other_brokers_are_not_waited_for():
    other = Reassignment(replicas=(1, 2), adding=(2,), removing=(1,))
    assert Seen([(1, 2)], {0: other}).leaving().move_replicas() == 0


def test_a_topic_that_is_deleted_meanwhile_does_not_end_a_decommission():
    assert Seen([(3, 1)], {}).leaving().move_replicas() == 1
