"""Commands about replicas, leaders and offsets, against three brokers."""

from __future__ import annotations

import io
import json
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from fencepost.cli.partition_files import FILE_BYTES_MAX
from fencepost.cli.reassign import _state
from fencepost.cli.reassignment_throttles import (
    BROKER_KEYS,
    FOLLOWERS,
    LEADERS,
    RATES,
    TOPIC_KEYS,
    moves,
)
from fencepost.client.admin import BROKER_RESOURCE, DELETE, SET, TOPIC_RESOURCE, Admin, ConfigChange
from fencepost.client.cluster import Cluster as ClientCluster
from fencepost.client.metadata import TopicPartition
from fencepost.client.replicas import Reassignment
from fencepost.testing import Cluster
from fencepost.views.topics import FILTERS, PartitionView
from fencepost.wire.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

from ..client.fake_cluster import VERSIONS, FakeCluster
from ..waiting import eventually
from .commands import Fencepost

UNREACHABLE = "127.0.0.1:1"


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(brokers=3, offsets_topic_num_partitions=1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def served(three: Cluster) -> str:
    """What commands of this module talk to."""
    return three.bootstrap_servers


@pytest.fixture(scope="module")
def admin(three: Cluster) -> Iterator[Admin]:
    with ClientCluster(three.bootstrap_servers) as cluster:
        yield Admin(cluster)


@pytest.fixture
def placed(admin: Admin) -> str:
    """A topic of two partitions, on brokers 1 and 2, and on 2 and 3."""
    name = f"t-{uuid.uuid4().hex[:10]}"
    admin.create_topic(name, assignments={0: [1, 2], 1: [2, 3]})
    admin.wait_for_topic(name)
    return name


def plan_of(topic: str, *replicas: list[int]) -> str:
    entries = [
        {"topic": topic, "partition": number, "replicas": ids}
        for number, ids in enumerate(replicas)
    ]
    return json.dumps({"version": 1, "partitions": entries})


# -- topics describe -------------------------------------------------------------------------------


def test_describe_shows_leaders_epochs_and_eligible_replicas(run: Fencepost, placed: str):
    (told,) = run("topics", "describe", placed, "--json").json
    assert told["partitions"] == [
        {
            "partition": number,
            "leader": ids[0],
            "leader_epoch": 0,
            "replicas": ids,
            "isr": ids,
            "offline": [],
            "elr": [],
            "last_known_elr": [],
        }
        for number, ids in enumerate(([1, 2], [2, 3]))
    ]
    lines = run("topics", "describe", placed).lines
    assert lines[1].split() == [
        *("partition", "leader", "epoch", "replicas", "isr", "offline", "elr", "last-known-elr")
    ]
    assert lines[2].split() == ["0", "1", "0", "1,2", "1,2", "-", "-", "-"]


def test_filters_choose_partitions(run: Fencepost, placed: str):
    def chosen(*options: str) -> list[int]:
        ran = run("topics", "describe", placed, "--json", *options)
        assert ran.code == 0, ran.err
        return [one["partition"] for topic in ran.json for one in topic["partitions"]]

    assert chosen("--under-replicated") == chosen("--unavailable") == []
    assert chosen("--under-min-isr") == chosen("--at-min-isr") == []
    assert run("configs", "alter", "--topic", placed, "--set", "min.insync.replicas=2").code == 0
    assert chosen("--at-min-isr", "--unavailable") == [0, 1]
    assert chosen("--under-min-isr") == []
    assert run("topics", "describe", placed, "--under-min-isr").out == ""


def test_without_the_api_of_eligible_replicas_they_are_not_known(run: Fencepost):
    with FakeCluster(brokers=2) as fake:
        fake.create_topic("t")
        fake.partition("t").leader = -1
        for broker in fake.brokers.values():
            broker.versions[32] = (1, 4)
        ran = run("topics", "describe", "--unavailable", "--json", bootstrap=fake.bootstrap_servers)
        table = run("topics", "describe", "t", bootstrap=fake.bootstrap_servers).lines
    (partition,) = ran.json[0]["partitions"]
    assert (partition["leader"], partition["isr"]) == (-1, [1, 2])
    assert partition["elr"] is partition["last_known_elr"] is None
    assert table[2].split() == ["0", "-1", "0", "1,2", "1,2", "-", "-", "-"]


@pytest.mark.parametrize(
    ("isr", "leader", "chosen"),
    [
        ([1, 2], 1, {"at_min_isr"}),
        ([1], 1, {"under_replicated", "under_min_isr"}),
        ([1, 2, 3], 1, set()),
        ([], -1, {"under_replicated", "under_min_isr", "unavailable"}),
    ],
)
def test_what_each_filter_chooses(isr: list[int], leader: int, chosen: set[str]):
    replicas = [1, 2, 3] if len(isr) == 3 else [1, 2]
    partition = PartitionView(0, leader, 0, replicas, isr, [], None, None)
    assert {name for name, (_, choose) in FILTERS.items() if choose(partition, 2)} == chosen


# -- reassign --------------------------------------------------------------------------------------


def test_a_plan_is_executed_verified_and_taken_back(run: Fencepost, placed: str, tmp_path: Path):
    plan, before = tmp_path / "plan.json", tmp_path / "before.json"
    plan.write_text(plan_of(placed, [3, 1], [2, 3]))
    begun = run("reassign", "execute", str(plan), "--save-current", str(before), "--wait", "--json")
    assert begun.code == 0, begun.err
    assert [(one["to"], one["result"]) for one in begun.json] == [
        ([3, 1], "begun"),
        ([2, 3], "begun"),
    ]
    assert begun.err.splitlines()[-1] == "2 of 2 partitions have moved"
    rows = run("reassign", "verify", str(plan), "--json").json
    assert [(row["state"], row["replicas"]) for row in rows] == [("done", [3, 1]), ("done", [2, 3])]
    back = run("reassign", "verify", str(before))
    assert back.code == 1
    assert (
        back.lines[1].split()[2:] == ["1,2", "3,1", "1,3", "elsewhere"] or "elsewhere" in back.out
    )
    assert run("reassign", "list", "--json").json == []
    again = run("reassign", "execute", str(plan), "--save-current", str(before))
    assert (again.code, again.out) == (1, "") and "File exists" in again.err
    assert run("reassign", "execute", str(before), "--wait").code == 0
    assert run("reassign", "verify", str(before)).code == 0


def test_moves_to_a_broker_that_is_down_are_listed_and_cancelled(
    run: Fencepost, three: Cluster, placed: str
):
    three.pause(3)
    try:
        moved = run("reassign", "execute", "--move", f"{placed}:0=1,3")
        assert moved.code == 0, moved.err
        assert run("reassign", "verify", "--move", f"{placed}:0=1,3").out.endswith("in progress\n")
        (row,) = run("reassign", "list", "--json").json
        assert (row["replicas"], row["adding"], row["removing"]) == ([1, 3, 2], [3], [2])
        cancelled = run("reassign", "cancel", placed, "--json")
        assert [(one["partition"], one["result"]) for one in cancelled.json] == [(0, "cancelled")]
        none = run("reassign", "cancel", f"{placed}:0")
        assert none.code == 1 and "NO_REASSIGNMENT_IN_PROGRESS" in none.out
        assert run("reassign", "cancel", "--all").code == 0
    finally:
        three.resume(3)


def throttles(admin: Admin, kind: int, name: str) -> dict[str, str | None]:
    """Those that are set."""
    found = admin.describe_configs(kind, name)
    keys = (*BROKER_KEYS, *TOPIC_KEYS)
    return {one.name: one.value for one in found if one.name in keys and not one.is_default}


def test_a_throttled_move_and_its_throttles_go(run: Fencepost, admin: Admin, placed: str):
    kept = dict.fromkeys(RATES, "5000000")
    plan = ("--move", f"{placed}:0=1,3")
    begun = run("reassign", "execute", *plan, "--throttle", "5000000")
    assert begun.code == 0, begun.err
    assert throttles(admin, TOPIC_RESOURCE, placed) == {LEADERS: "0:1,0:2", FOLLOWERS: "0:3"}
    for id_ in ("1", "3"):
        assert throttles(admin, BROKER_RESOURCE, id_) == kept
    eventually(lambda: run("reassign", "verify", *plan, "--preserve-throttles").code == 0)
    assert throttles(admin, BROKER_RESOURCE, "3") == kept
    verified = run("reassign", "verify", *plan)
    assert verified.code == 0
    assert verified.err.startswith("throttles removed: broker 1, broker 2, broker 3, topic")
    for kind, name in ((TOPIC_RESOURCE, placed), (BROKER_RESOURCE, "1"), (BROKER_RESOURCE, "3")):
        eventually(lambda kind=kind, name=name: not throttles(admin, kind, name))
    eventually(lambda: run("reassign", "verify", *plan).err == "", "there are none any more")


def test_throttles_go_with_the_wait_and_with_a_move_that_is_called_off(
    run: Fencepost, three: Cluster, admin: Admin, placed: str
):
    back = run("reassign", "execute", "--move", f"{placed}:0=2,1", "--throttle", "9", "--wait")
    assert back.code == 0 and "throttles removed" in back.err
    three.pause(3)
    try:
        assert run("reassign", "execute", "--move", f"{placed}:0=2,3").code == 0
        admin.alter_configs(
            TOPIC_RESOURCE,
            placed,
            [ConfigChange("leader.replication.throttled.replicas", "*", SET)],
        )
        under_way = run("reassign", "verify", "--move", f"{placed}:0=2,3")
        assert (under_way.code, under_way.err) == (1, ""), "it may be for this"
        assert run("reassign", "cancel", placed, "--preserve-throttles").code == 0
    finally:
        three.resume(3)
    assert run("reassign", "execute", "--move", f"{placed}:0=2,1", "--wait").code == 0
    eventually(lambda: throttles(admin, TOPIC_RESOURCE, placed), "no command said they are ours")


def test_rates_that_nothing_is_throttled_by_stay(run: Fencepost, admin: Admin, placed: str):
    """Brokers are not even asked: a plan is verified while one of them is down."""
    rate = ConfigChange(RATES[0], "1000000", SET)
    admin.alter_configs(BROKER_RESOURCE, "2", [rate])
    try:
        eventually(lambda: RATES[0] in throttles(admin, BROKER_RESOURCE, "2"))
        done = run("reassign", "verify", "--move", f"{placed}:0=1,2")
        assert (done.code, done.err) == (0, "")
        assert RATES[0] in throttles(admin, BROKER_RESOURCE, "2")
    finally:
        admin.alter_configs(BROKER_RESOURCE, "2", [ConfigChange(RATES[0], None, DELETE)])


def test_who_is_throttled_on_the_way():
    where, other = TopicPartition("t", 0), TopicPartition("t", 1)
    current = {where: (1, 2), other: (1, 2, 3)}
    assert moves(current, {where: [2, 3]}, {}) == {where: ({1, 2}, {3})}
    under_way = {other: Reassignment((3, 1, 2), (3,), (1,))}
    assert moves(current, {where: [2, 3]}, under_way) == {
        where: ({1, 2}, {3}),
        other: ({1, 2}, {3}),
    }
    assert moves(current, {other: [4]}, under_way) == {other: ({1, 2}, {4})}


@pytest.mark.parametrize(
    ("replicas", "moving", "state"),
    [
        (None, None, "no such partition"),
        ((1, 2), Reassignment((1, 2), (2,), ()), "in progress"),
        ((1, 2), None, "done"),
        ((2, 1), None, "elsewhere"),  # another leader is preferred than the plan says
        ((1, 2, 3), None, "elsewhere"),
    ],
)
def test_a_move_is_done_when_the_replicas_are_those_of_the_plan_in_its_order(
    replicas: tuple[int, ...] | None, moving: Reassignment | None, state: str
):
    info = None if replicas is None else SimpleNamespace(replicas=replicas)
    assert _state([1, 2], info, moving) == state


def test_moves_that_cannot_be(run: Fencepost, placed: str):
    refused = run("reassign", "execute", "--move", f"{placed}:0=1,77")
    assert refused.code == 1 and "INVALID_REPLICA_ASSIGNMENT" in refused.out
    grown = ("--move", f"{placed}:0=1,2,3", "--keep-replication-factor")
    kept = run("reassign", "execute", *grown)
    assert kept.code == 1 and "INVALID_REPLICATION_FACTOR" in kept.out
    gone = run("reassign", "verify", "--move", "there-is-none:0=1", "--json")
    assert (gone.code, gone.json[0]["state"]) == (1, "no such partition")


def test_a_plan_that_moves_nothing_is_done(run: Fencepost, tmp_path: Path):
    path = tmp_path / "plan.json"
    path.write_text(plan_of("t"))
    for action in ("execute", "verify"):
        ran = run("reassign", action, str(path), bootstrap=UNREACHABLE)
        assert (ran.code, ran.out) == (0, "")
        assert ran.err == f"{path}: the plan is empty, nothing to move\n"
        assert run("reassign", action, str(path), "--json", bootstrap=UNREACHABLE).json == []
    refused = run("delete-records", "--file", str(path), bootstrap=UNREACHABLE)
    assert (refused.code, "names no partition" in refused.err) == (1, True)


def test_a_generated_plan_can_be_executed(
    run: Fencepost, placed: str, monkeypatch: pytest.MonkeyPatch
):
    made = run("reassign", "generate", placed, "--brokers", "1,3")
    assert made.code == 0 and "2 of 2 partitions to change, 2 replicas to be copied" in made.err
    plan = made.out
    stdin = io.TextIOWrapper(io.BytesIO(plan.encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert run("reassign", "execute", "-", "--wait").code == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(plan.encode())))
    assert run("reassign", "verify", "-").code == 0
    assert (
        json.loads(run("reassign", "generate", placed, "--brokers", "1,3").out)["partitions"] == []
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["execute"], "name a plan, or --move"),
        (["execute", "plan.json", "--move", "t:0=1"], "name a plan, or --move"),
        (["execute", "--move", "t:0"], "must be TOPIC:PARTITION"),
        (["execute", "--move", "t:0=1,1"], "must be different broker ids"),
        (["execute", "--move", "t:0=one"], "must be different broker ids"),
        (["verify"], "name a plan"),
        (["execute", "--move", "t:0=1", "--throttle", "0"], "--throttle"),
        (["cancel"], "name partitions, or a --plan, or say --all"),
        (["cancel", "t:0", "--all"], "name partitions, or a --plan, or say --all"),
        (["generate", "--brokers", "1,x"], "must be different broker ids"),
        (["generate", "--brokers", "1,99"], "no broker 99; there are [1, 2, 3]"),
        (["generate", "--brokers", "1", "--replication-factor", "2"], "brokers named: 1"),
        (["generate", "--replication-factor", "0"], "allowed is 1 to"),
    ],
)
def test_reassignments_that_make_no_sense(
    run: Fencepost, admin: Admin, placed: str, words: list[str], says: str
):
    ran = run("reassign", *words)
    assert (ran.code, ran.out) == (2, "") and says in ran.err, ran
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 100_000,
        "[]",
        "{}",
        '{"partitions": 3}',
        '{"partitions": [3]}',
        '{"partitions": [{"topic": "t", "partition": 0}]}',
        '{"partitions": [{"topic": ["t"], "partition": 0, "replicas": [1]}]}',
        '{"partitions": [{"topic": "t", "partition": "0", "replicas": [1]}]}',
        '{"partitions": [{"topic": "t", "partition": true, "replicas": [1]}]}',
        '{"partitions": [{"topic": "t", "partition": -1, "replicas": [1]}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": [-1]}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": "12"}]}',
        plan_of("t", [1]).replace("]}]", ']}, {"topic": "t", "partition": 0, "replicas": [2]}]'),
        "\x00\x01",
    ],
)
def test_plans_that_are_none(run: Fencepost, tmp_path: Path, text: str):
    path = tmp_path / "plan.json"
    path.write_text(text)
    ran = run("reassign", "execute", str(path), bootstrap=UNREACHABLE)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"fencepost reassign: {path}: ") and ran.err.count("\n") == 1


def test_a_file_is_read_up_to_a_bound(run: Fencepost, tmp_path: Path):
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    ran = run("delete-records", "--file", str(path), bootstrap=UNREACHABLE)
    assert ran.code == 1 and "is larger than 64 MiB" in ran.err
    missing = run("reassign", "verify", str(tmp_path / "none"), bootstrap=UNREACHABLE)
    assert missing.code == 1 and "No such file or directory" in missing.err


# -- elect -----------------------------------------------------------------------------------------


def test_preferred_leaders_are_elected(run: Fencepost, admin: Admin, placed: str):
    moved = run("reassign", "execute", "--move", f"{placed}:0=2,1", "--wait")
    assert moved.code == 0, moved.err
    assert admin.describe_topic(placed).partitions[0].leader_id == 1
    held = run("elect", "preferred", placed, "--json")
    assert held.code == 0, held
    assert [(one["election"], one["result"]) for one in held.json] == [
        ("held", "ok"),
        ("not needed", "ok"),
    ]
    eventually(lambda: admin.describe_topic(placed).partitions[0].leader_id == 2)
    assert run("elect", "preferred", "--all").code == 0
    needless = run("elect", "unclean", f"{placed}:1", "--json")
    assert (needless.code, needless.json[0]["election"]) == (0, "not needed")


@pytest.mark.parametrize(("words", "type_"), [("preferred", 0), ("unclean", 1)])
def test_the_type_of_election_that_is_asked_for(run: Fencepost, words: str, type_: int):
    with FakeCluster() as fake:
        broker = fake.brokers[1]
        usual, broker.versions[43] = broker.answer, (0, 2)

        def answer(request: object, version: int, correlation_id: int) -> object:
            is_election = isinstance(request, ElectLeadersRequest)
            return (
                ElectLeadersResponse() if is_election else usual(request, version, correlation_id)
            )

        broker.answer = answer
        assert run("elect", words, "--all", bootstrap=fake.bootstrap_servers).code == 0
        (asked,) = [one for one, _ in broker.requests if isinstance(one, ElectLeadersRequest)]
    assert (asked.election_type, asked.topic_partitions) == (type_, None)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["preferred"], "name partitions, or say --all"),
        (["preferred", "t:0", "--all"], "name partitions, or say --all"),
        (["unclean", "t:zero"], "must be TOPIC:PARTITION"),
    ],
)
def test_elections_that_make_no_sense(run: Fencepost, words: list[str], says: str):
    ran = run("elect", *words)
    assert (ran.code, ran.out) == (2, "") and says in ran.err and ran.err.count("\n") == 1


def test_partitions_that_are_not_there(run: Fencepost, placed: str):
    assert f"topic {placed} has no partition 9" in run("elect", "preferred", f"{placed}:9").err
    assert run("elect", "preferred", "there-is-none").code == 1


# -- log directories -------------------------------------------------------------------------------


def test_log_directories_and_their_replicas(run: Fencepost, three: Cluster, placed: str):
    told = run("log-dirs", "describe", placed, "--json").json
    found = {one["broker"]: [entry["partition"] for entry in one["replicas"]] for one in told}
    assert found == {1: [0], 2: [0, 1], 3: [1]}
    assert [one["path"] for one in told] == [str(three.data_dir_of(id_)) for id_ in (1, 2, 3)]
    (second,) = run("log-dirs", "describe", f"{placed}:1", "--broker", "2", "--json").json
    assert [one["partition"] for one in second["replicas"]] == [1]
    lines = run("log-dirs", "describe", placed, "--broker", "3").lines
    assert lines[0].startswith(f"broker 3  {three.data_dir_of(3)}  1 replica")
    assert lines[2].split() == [placed, "1", "0", "0"]
    unknown = run("log-dirs", "describe", "--broker", "9")
    assert unknown.code == 1 and "no broker 9 in the cluster" in unknown.err


def test_replicas_do_not_move_to_what_is_no_directory(run: Fencepost, placed: str):
    to = ("move", f"{placed}:0", "--broker", "1", "--to")
    assert "must be an absolute path" in run("log-dirs", *to, "relative").err
    assert run("log-dirs", *to, "/there/is/none").code == 1


def test_a_replica_moves_to_another_directory(run: Fencepost, tmp_path: Path):
    paths = [tmp_path / name for name in ("a", "b")]
    with Cluster(faults=False, config={"log.dirs": ",".join(map(str, paths))}) as cluster:
        servers = cluster.bootstrap_servers
        with ClientCluster(servers) as client:
            Admin(client).create_topic("t")
            Admin(client).wait_for_topic("t")

        def where() -> dict[str, list[bool]]:
            told = run("log-dirs", "describe", "t", "--json", bootstrap=servers).json
            return {one["path"]: [entry["future"] for entry in one["replicas"]] for one in told}

        before = where()
        [there] = [str(path) for path in paths if not before[str(path)]]
        [here] = [str(path) for path in paths if before[str(path)]]
        moved = run("log-dirs", "move", "t:0", "--broker", "1", "--to", there, bootstrap=servers)
        assert moved.code == 0, moved.err
        assert moved.lines[1].split()[:3] == ["t", "0", "begun"]
        eventually(lambda: where() == {there: [False], here: []})


# -- offsets and records ---------------------------------------------------------------------------


def test_offsets_by_place_and_time(run: Fencepost, placed: str, produce):
    produce(placed, "1\n2\n3\n", "--partition", "0")
    lines = run("offsets", placed).lines
    assert [line.split() for line in lines[1:]] == [
        [placed, "0", "0", "3"],
        [placed, "1", "0", "0"],
    ]
    wheres = ("@0", "2100-01-01T00:00:00Z", "max-timestamp", "latest")
    told = run("offsets", f"{placed}:0", *(w for at in wheres for w in ("--at", at)), "--json").json
    assert [(one["at"], one["offset"]) for one in told] == [
        ("@0", 0),
        ("2100-01-01T00:00:00Z", None),
        ("max-timestamp", told[2]["offset"]),
        ("latest", 3),
    ]
    assert told[3]["leader_epoch"] == 0 and told[2]["timestamp_ms"] > 0


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("soon", "or a time like"),
        ("@", "or a time like"),
        ("@-1", "or a time like"),
        ("@99999999999999999999", "allowed is 0 to"),
        ("1969-12-31T23:59:59Z", "allowed is 0 to"),
    ],
)
def test_times_that_are_none(run: Fencepost, where: str, says: str):
    ran = run("offsets", "t", "--at", where, bootstrap=UNREACHABLE)
    assert ran.code == 2 and says in ran.err and ran.err.count("\n") == 1


def test_the_oldest_records_are_deleted(run: Fencepost, placed: str, produce, tmp_path: Path):
    for number in ("0", "1"):
        produce(placed, "1\n2\n3\n", "--partition", number)
    deleted = run("delete-records", f"{placed}:0=2", f"{placed}:1=latest", "--json")
    assert [one["low_watermark"] for one in deleted.json] == [2, 3]
    path = tmp_path / "offsets.json"
    path.write_text(json.dumps({"partitions": [{"topic": placed, "partition": 0, "offset": -1}]}))
    assert run("delete-records", "--file", str(path)).lines[1].split() == [placed, "0", "3"]
    beyond = run("delete-records", f"{placed}:0=99")
    assert beyond.code == 1 and "OFFSET_OUT_OF_RANGE" in beyond.err
    assert "the high watermark is 3, and 99 was asked for" in beyond.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "name TOPIC:PARTITION=OFFSET"),
        (["t:0=1", "--file", "f"], "name TOPIC:PARTITION=OFFSET"),
        (["t:0"], "must be TOPIC:PARTITION=OFFSET"),
        (["t=3"], "must be TOPIC:PARTITION"),
        (["t:0=-3"], "the offset must be a number, or latest"),
        (["t:0=99999999999999999999"], "the offset must be a number, or latest"),
    ],
)
def test_deletions_that_make_no_sense(run: Fencepost, words: list[str], says: str):
    ran = run("delete-records", *words, bootstrap=UNREACHABLE)
    assert ran.code == 2 and says in ran.err and ran.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("offsets", "t"),
        ("delete-records", "t:0=1"),
        ("reassign", "list"),
        ("elect", "preferred", "--all"),
        ("log-dirs", "describe"),
        ("topics", "describe", "--under-replicated"),
    ],
)
def test_a_cluster_that_is_not_there(run: Fencepost, words: tuple[str, ...]):
    ran = run(*words, "--timeout", "0.1", bootstrap=UNREACHABLE)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"fencepost {words[0]}: ") and ran.err.count("\n") == 1


# -- epochs ----------------------------------------------------------------------------------------


def test_every_broker_tells_of_its_own_replica(run: Fencepost, placed: str, produce):
    produce(placed, "1\n2\n3\n", "--partition", "1")
    told = run("epochs", placed, "--partition", "1", "--json").json["replicas"]
    span = {"leader_epoch": 0, "start_offset": 0, "end_offset": 3}
    assert [(one["broker"], one["role"], one["epochs"], one["diverges_at"]) for one in told] == [
        (2, "leader", [span], None),
        (3, "in sync", [span], None),
    ]


def test_a_leader_whose_fetch_is_too_old_is_asked_where_epochs_end(run: Fencepost):
    with FakeCluster(brokers=2) as fake:
        fake.create_topic("t")
        for broker in fake.brokers.values():
            broker.versions = {**VERSIONS, 18: (0, 4), 1: (4, 11)}
        lines = run("epochs", "t", bootstrap=fake.bootstrap_servers).lines
    assert lines[2] == "1 leader   |0" and lines[3].startswith("2 in sync  at 127.0.0.1:")
