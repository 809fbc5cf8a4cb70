"""`fencepost cluster up` and `fencepost quorum`, as a user runs them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fencepost.testing.quorum_cluster import QuorumCluster

from ..waiting import DEADLINE_S, eventually
from .conftest import QUICK, topic_names

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "fencepost.cli.main"]


def fencepost(*arguments: str, code: int = 0) -> str:
    """Run a command; what it prints. Its exit code must be `code`."""
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


class Up:
    """A running `cluster up`."""

    def __init__(self, *arguments: str) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [*COMMAND, "cluster", "up", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def read_until(self, start: str) -> str:
        """The first line on standard output that starts so."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if line.startswith(start):
                return line
        raise AssertionError(f"{self.lines} {self.process.communicate()}")

    @property
    def pids(self) -> dict[str, int]:
        """The nodes' process ids by name."""
        found = re.findall(r"^ {2}(\S+) .* pid (\d+)", "".join(self.lines), re.MULTILINE)
        return {name: int(pid) for name, pid in found}

    def interrupt(self) -> tuple[int, str]:
        """One Ctrl-C: exit code and what standard error had."""
        self.process.send_signal(signal.SIGINT)
        _, errors = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, errors


@pytest.fixture
def started() -> Iterator[list[Up]]:
    """Commands that are gone when the test ends, and their nodes with them."""
    running: list[Up] = []
    yield running
    for up in running:
        if up.process.poll() is None:
            up.process.send_signal(signal.SIGTERM)
            up.process.communicate(timeout=DEADLINE_S)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_up_and_down_and_up_again(tmp_path: Path, started: list[Up]):
    options = [f"-o={key}={value}" for key, value in QUICK.items()]
    started.append(up := Up("--dir", str(tmp_path / "c"), *options))
    servers = up.read_until("clients:").split()[-1]
    up.read_until("ready")
    pids = up.pids
    assert sorted(pids) == ["broker-4", "controller-1", "controller-2", "controller-3"]
    fencepost("topics", "create", "kept", "-b", servers)
    code, errors = up.interrupt()
    assert (code, errors) == (0, "")
    assert not [pid for pid in pids.values() if is_alive(pid)]

    options += ["--controllers=3", "--brokers=1", f"--broker-port={servers.rpartition(':')[2]}"]
    started.append(again := Up("--dir", str(tmp_path / "c"), *options))
    assert again.read_until("clients:").split()[-1] == servers
    again.read_until("ready")
    assert "kept" in fencepost("topics", "list", "-b", servers)
    assert again.interrupt()[0] == 0


def states(directory: Path) -> dict[str, str]:
    rows = json.loads(fencepost("cluster", "status", "--dir", str(directory), "--json"))["nodes"]
    return {row["node"]: row["state"] for row in rows}


def test_nodes_are_killed_paused_and_restarted_from_another_terminal(
    tmp_path: Path, started: list[Up]
):
    here = ("--dir", str(tmp_path / "c"))
    started.append(up := Up(*here, "--controllers", "1", "--brokers", "2"))
    servers = up.read_until("clients:").split()[-1]
    up.read_until("ready")
    pids = up.pids
    assert fencepost("cluster", "kill", "broker-2", *here) == "broker-2 killed\n"
    assert not is_alive(pids["broker-2"])
    assert "broker-2 does not run" in fencepost("cluster", "kill", "2", *here, code=1)
    assert "there is no node 'x'" in fencepost("cluster", "pause", "x", *here, code=1)
    assert fencepost("cluster", "pause", "3", *here).startswith("broker-3 paused, pid ")
    assert states(tmp_path / "c") == {
        "controller-1": "running",
        "broker-2": "killed",
        "broker-3": "paused",
    }
    assert "running" in fencepost("cluster", "resume", "3", *here)
    assert "running" in fencepost("cluster", "start", "2", *here)
    assert "runs already" in fencepost("cluster", "start", "2", *here, code=1)
    restarted = fencepost("cluster", "restart", "broker-3", *here)
    assert restarted != f"broker-3 running, pid {pids['broker-3']}\n"
    assert not is_alive(pids["broker-3"])
    assert fencepost("topics", "create", "t", "--replication-factor", "2", "-b", servers)
    assert fencepost("cluster", "stop", "broker-2", *here) == "broker-2 stopped\n"
    assert states(tmp_path / "c")["broker-2"] == "stopped"
    assert fencepost("cluster", "stop", *here) == "stopping all nodes\n"
    _, errors = up.process.communicate(timeout=DEADLINE_S)
    assert (up.process.returncode, errors) == (0, ""), "no node ended without a request"
    assert "no cluster runs in" in fencepost("cluster", "status", *here, code=1)


def test_nodes_with_both_roles_come_up_again_at_the_same_ports(tmp_path: Path, started: list[Up]):
    here = ("--dir", str(tmp_path / "c"))
    started.append(up := Up(*here, "--combined", "--controllers", "1"))
    servers = up.read_until("clients:").split()[-1]
    up.read_until("ready")
    assert sorted(up.pids) == ["controller-1"]
    fencepost("topics", "create", "kept", "-b", servers)
    assert up.interrupt() == (0, "")
    started.append(again := Up(*here))
    assert again.read_until("clients:").split()[-1] == servers
    assert "kept" in fencepost("topics", "list", "-b", servers)
    assert again.interrupt() == (0, "")


@pytest.fixture(scope="module")
def stopped_cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a cluster of a controller and a broker that was made and never started."""
    directory = tmp_path_factory.mktemp("stopped")
    QuorumCluster(1, 1, directory=directory, controller_ports=[19093], broker_ports=[19092])
    return directory


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--controllers", "5"], "has 1; leave --controllers out"),
        (["--brokers", "0"], "has 1; leave --brokers out"),
        (["--controller-port", "19092"], "are 19093; leave --controller-port out"),
        (["--broker-port", "19093"], "are 19092; leave --broker-port out"),
        (["--combined"], "are no brokers; leave --combined out"),
        (["-o", "num.partitions=7"], "has no num.partitions; leave -o num.partitions out"),
    ],
)
def test_what_contradicts_the_cluster_that_is_there(
    stopped_cluster: Path, options: list[str], says: str
):
    assert says in fencepost("cluster", "up", "--dir", str(stopped_cluster), *options, code=2)


def test_up_in_the_data_directory_of_a_node(stopped_cluster: Path):
    data = stopped_cluster / "controller-1" / "data"
    before = sorted(data.iterdir())
    assert "data directory of a node" in fencepost("cluster", "up", "--dir", str(data), code=2)
    assert sorted(data.iterdir()) == before


def test_a_node_that_dies_is_reported_with_its_log(tmp_path: Path, started: list[Up]):
    started.append(up := Up("--dir", str(tmp_path), "--controllers", "1", "--brokers", "0"))
    up.read_until("ready")
    os.kill(up.pids["controller-1"], signal.SIGKILL)
    _, errors = up.process.communicate(timeout=DEADLINE_S)
    assert up.process.returncode == 1
    assert "controller-1 has ended with exit code -9" in errors
    assert "listening on" in errors
    assert "no node is left" in errors


def test_the_nodes_end_with_the_command(tmp_path: Path, started: list[Up]):
    started.append(up := Up("--dir", str(tmp_path), "--controllers", "1", "--brokers", "0"))
    up.read_until("ready")
    up.process.kill()
    up.process.communicate(timeout=DEADLINE_S)
    eventually(lambda: not is_alive(up.pids["controller-1"]), "the node ends with the command")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--controllers", "0"], "allowed are 1 to 100"),
        (["--brokers", "-1"], "allowed are 0 to 100"),
        (["--broker-port", "70000"], "--broker-port 70000: a port is a number from 1 to 65535"),
        (["--controller-port", "65534"], "no 3 ports from there on"),
        (["--controller-port", "23101", "--broker-port", "23103"], "both would have port 23103"),
        (["-o", "node.id=7"], "-o node.id=7: each node gets a node.id of its own"),
        (["-o", "log.dirs=/x"], "gets a log.dirs of its own"),
        (["-o", "nonsense"], "KEY=VALUE"),
        (["-o", "num.partition=3"], "did you mean num.partitions"),
    ],
)
def test_wrong_options(tmp_path: Path, arguments: list[str], says: str):
    assert says in fencepost("cluster", "up", "--dir", str(tmp_path / "x"), *arguments, code=2)
    assert not (tmp_path / "x").exists(), "what is wrong is said before anything is made"


def test_describe_by_brokers_and_by_controllers(cluster: QuorumCluster):
    leader = cluster.leader_id()
    by_broker = json.loads(
        fencepost("quorum", "describe", "--json", "-b", cluster.bootstrap_servers)
    )
    follower = next(id_ for id_ in cluster.controllers if id_ != leader)
    by_controller = json.loads(
        fencepost(
            "quorum", "describe", "--json", "--bootstrap-controller", cluster.address_of(follower)
        )
    )
    for said in (by_broker, by_controller):
        assert said["leader_id"] == leader
        roles = {replica["node_id"]: replica["role"] for replica in said["replicas"]}
        # The leader may remember an observer that was there before, of another test.
        assert {id_: role for id_, role in roles.items() if id_ in cluster.nodes} == {
            **dict.fromkeys(cluster.controllers, "follower"),
            **dict.fromkeys(cluster.brokers, "observer"),
            leader: "leader",
        }
    table = fencepost("quorum", "describe", "-b", cluster.bootstrap_servers)
    assert f"leader {leader}" in table
    assert f"CONTROLLER://{cluster.address_of(leader)}" in table


def test_nobody_leads():
    """One of two controllers is no majority: commands say so instead of waiting on and on."""
    with QuorumCluster(2, 1, config=QUICK) as few:
        few.controllers[1].kill()
        servers = few.bootstrap_servers
        controllers = ("--bootstrap-controller", few.bootstrap_controllers)
        few.wait_until(lambda: few.find_leader() is None, "it leads on")
        commands = (  # each waits for a leader: all at once
            ("quorum", "describe", "-b", servers, "--timeout", "5"),
            ("quorum", "describe", *controllers, "--timeout", "5"),
            ("topics", "create", "t", "-b", servers, "--timeout", "1"),
        )
        with ThreadPoolExecutor() as pool:
            said = pool.map(lambda command: fencepost(*command, code=1), commands)
            by_broker, by_controllers, topics = said
        assert f"no controller leads, as far as the broker at {servers} can tell" in by_broker
        assert "no controller leads; 1 of 2 answer" in by_controllers
        assert "perhaps no controller leads" in topics


@pytest.mark.parametrize("option", ["--bootstrap-server", "--bootstrap-controller"])
def test_nobody_is_there(option: str):
    said = fencepost("quorum", "describe", option, "127.0.0.1:1", "--timeout", "0.2", code=1)
    assert "127.0.0.1:1 can be reached" in said


def test_voters_come_and_go(cluster: QuorumCluster):
    servers = cluster.bootstrap_servers
    id_ = cluster.add_controller()
    node = cluster.controllers[id_]
    node.start()
    node.wait_until_ready()

    def role() -> str | None:
        said = json.loads(fencepost("quorum", "describe", "--json", "-b", servers))
        return {one["node_id"]: one["role"] for one in said["replicas"]}.get(id_)

    cluster.wait_until(lambda: role() == "observer", "the new controller does not follow")
    added = fencepost("quorum", "add-voter", "-b", servers, "--config", str(node.config_path))
    assert added.startswith(f"node {id_} votes")
    cluster.wait_until(lambda: role() == "follower", "the new voter does not follow")
    again = fencepost(
        "quorum", "add-voter", "-b", servers, "--config", str(node.config_path), code=1
    )
    assert "votes already, with this directory [DUPLICATE_VOTER]" in again
    listener = f"--listener=CONTROLLER://{cluster.address_of(id_)}"
    other = "--directory-id=lnnLXmBzSSOJWn5hTmk93g"
    again = fencepost("quorum", "add-voter", "-b", servers, f"--id={id_}", other, listener, code=1)
    assert "votes with another directory" in again and f"remove-voter --id {id_}`" in again
    elsewhere = listener.replace("CONTROLLER:", "ELSEWHERE:")
    again = fencepost("quorum", "add-voter", "-b", servers, "--id=9", other, elsewhere, code=2)
    assert "the voters of this quorum are reached by CONTROLLER" in again
    wrong = fencepost("quorum", "remove-voter", "-b", servers, f"--id={id_}", other, code=2)
    assert f"node {id_} votes with " in wrong
    removed = fencepost(
        "quorum",
        "remove-voter",
        "--id",
        str(id_),
        "--bootstrap-controller",
        cluster.bootstrap_controllers,
    )
    assert "does not vote any more" in removed
    assert role() in ("observer", None)
    unknown = fencepost("quorum", "remove-voter", "--id", "99", "-b", servers, code=2)
    assert "the voters are" in unknown
    said = node.log_path.read_text()
    joined, left = said.find("is now a voter of"), said.find("is no longer a voter of")
    assert 0 <= joined < left
    node.stop()
    del cluster.controllers[id_]
    assert topic_names(cluster) is not None


def test_a_cluster_led_by_a_controller_that_was_added_to_it_is_led():
    """One that is not of those that are started together, as after the next `cluster up`."""
    with QuorumCluster(1, 0, config=QUICK) as cluster:
        id_ = cluster.add_controller()
        added = cluster.controllers[id_]
        added.start()
        added.wait_until_ready()
        at = ("--bootstrap-controller", cluster.bootstrap_controllers)
        fencepost("quorum", "add-voter", *at, "--config", str(added.config_path))
        # The one that is removed leads: its answer may be lost with its lead, and asked for again.
        command = [*COMMAND, "quorum", "remove-voter", *at, "--id", "1"]
        subprocess.run(command, capture_output=True, timeout=DEADLINE_S, check=False)
        assert cluster.leader_id(but=1) == id_
        del cluster.controllers[id_]
        try:
            cluster.controllers[1].stop()
            cluster.start()
            assert cluster.find_leader() is None
        finally:
            added.kill()


def test_static_voters_do_not_change():
    with QuorumCluster(1, 1, static_voters=True, config=QUICK) as fixed:
        at = ("-b", fixed.bootstrap_servers)
        removed = fencepost("quorum", "remove-voter", *at, "--id", "1", code=1)
        path = str(fixed.controllers[1].config_path)
        added = fencepost("quorum", "add-voter", *at, "--config", path, code=1)
        for said in (removed, added):
            assert "the voters of this cluster (1) are fixed" in said
            assert "features upgrade kraft.version=1" in said


def test_add_voter_wants_to_know_whom():
    assert "give --config" in fencepost("quorum", "add-voter", code=2)
    assert "NAME://HOST:PORT" in fencepost(
        "quorum",
        "add-voter",
        "--id=4",
        "--directory-id=lnnLXmBzSSOJWn5hTmk93g",
        "--listener=h:1",
        code=2,
    )


def test_a_node_of_several_does_not_make_a_cluster_of_its_own(tmp_path: Path):
    """A node that has lost its disk must not come back as another cluster."""
    options = {
        "process.roles": "controller",
        "controller.listener.names": "CONTROLLER",
        "listeners": "CONTROLLER://127.0.0.1:0",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "log.dirs": str(tmp_path / "empty"),
    }
    said = fencepost("serve", *(f"-o{key}={value}" for key, value in options.items()), code=1)
    assert "is not formatted" in said and "fencepost format" in said
    del options["controller.listener.names"]
    said = fencepost("serve", *(f"-o{key}={value}" for key, value in options.items()), code=2)
    assert "controller.listener.names=''" in said
