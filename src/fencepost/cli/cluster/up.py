"""`fencepost cluster up`: controllers and brokers on this machine, one process each.

Everything is in one directory: each node's configuration, log and data. A second `up` with the same
directory starts the same cluster again; options may be repeated, and those that contradict what is
there are refused. One Ctrl-C stops all nodes in order, another one at once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.addresses import PORT_MAX
from fencepost.cli.cluster.actions import STOP_ALL, Nodes
from fencepost.cli.cluster.control import Control
from fencepost.cli.failures import UsageError
from fencepost.cli.key_values import pairs
from fencepost.log.errors import LogError, in_words
from fencepost.log.names import META_PROPERTIES_FILE
from fencepost.log.properties import decode_properties

if TYPE_CHECKING:
    from fencepost.testing.cluster_security import ClusterSecurity
    from fencepost.testing.node_process import NodeProcess
    from fencepost.testing.quorum_cluster import QuorumCluster

DEFAULT_DIRECTORY = "fencepost-cluster"
DEFAULT_CONTROLLERS = 3
DEFAULT_BROKERS = 1
NODES_MAX = 100
SECURITY = "security"
"""The directory of what clients need, beside those of the nodes."""
SECURED = ("SASL_SSL", "SASL_PLAINTEXT", "SSL")
"""Security protocols that a cluster can be made with."""
WATCH_EVERY_S = 0.2
OWN_KEYS = frozenset(
    {
        "node.id",
        "broker.id",
        "process.roles",
        "listeners",
        "advertised.listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "controller.listener.names",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
    }
)
"""What tells the nodes apart and where they are, which `up` decides for each of them."""
FORCED = 130
"""Exit code of a cluster that was stopped before it was there, or at once."""

EXAMPLES = """\
The controllers are voters of a dynamic quorum (KIP-853) and the brokers follow it. Ports are free
ones unless they are given; everything listens on 127.0.0.1 only.

examples:
  fencepost cluster up                                   (3 controllers, 1 broker)
  fencepost cluster up --brokers 3 -o default.replication.factor=3
  fencepost cluster up --combined                        (3 nodes with both roles)
  fencepost cluster up --controllers 5 --brokers 2 --dir /tmp/five
  fencepost cluster up --controller-port 19091 --broker-port 9092
  fencepost cluster up --dir /tmp/five                   (once more, with the same data)
  fencepost cluster up --secure                          (TLS, logins and ACLs; tells users' files)

In another terminal, with the same --dir:
  fencepost cluster status
  fencepost cluster kill broker-4                        (or pause, resume, stop, start, restart)

A directory that has a cluster keeps its numbers, ports and configuration: options that agree with
them are accepted, others are refused.
"""


def run(arguments: argparse.Namespace) -> int:
    """Start, say where, watch, stop."""
    from fencepost.broker.config.broker_config import ConfigError
    from fencepost.testing.node_process import ClusterError

    stopping = threading.Event()
    heard: list[int] = []
    try:
        cluster = _cluster(arguments)
        _stop_on_signals(cluster, stopping, heard)
        code = _serve(cluster, stopping)
        return FORCED if len(heard) > 1 else code
    except (UsageError, ConfigError) as error:
        print(f"fencepost cluster up: {error}", file=sys.stderr)
        return 2
    except (ClusterError, LogError, OSError) as error:
        if heard:
            return FORCED
        reason, _, log_tail = in_words(error).partition("\n")
        if log_tail.strip():
            print(log_tail.rstrip(), file=sys.stderr)
            reason += "; above is the end of its log"
        print(f"fencepost cluster up: {reason}", file=sys.stderr)
        return 1


def _cluster(arguments: argparse.Namespace) -> QuorumCluster:
    """The cluster that is in the directory, or a new one. UsageError, ClusterError."""
    from fencepost.testing.quorum_cluster import QuorumCluster

    directory = _directory(arguments.dir)
    found = len(list(directory.glob("controller-*"))), len(list(directory.glob("broker-*")))
    controllers = _count("--controllers", arguments.controllers, found[0] or DEFAULT_CONTROLLERS, 1)
    combined = bool(arguments.combined)
    brokers = found[1] if any(found) else 0 if combined else DEFAULT_BROKERS
    brokers = _count("--brokers", arguments.brokers, brokers, 0)
    if any(found):
        _must_be("--controllers", controllers, found[0], directory)
        _must_be("--brokers", brokers, found[1], directory)
        combined = _is_combined(directory, arguments.combined)
    controller_ports = _ports("--controller-port", arguments.controller_port, controllers)
    serving = brokers + (controllers if combined else 0)
    broker_ports = _ports("--broker-port", arguments.broker_port, serving)
    _must_not_meet(controller_ports, broker_ports)
    config = pairs(arguments.overrides, "-o")
    for key in sorted(OWN_KEYS & config.keys()):
        raise UsageError(f"-o {key}={config[key]}: each node gets a {key} of its own from `up`")
    if not any(found):
        _must_be_free([*(controller_ports or ()), *(broker_ports or ())], "name others")
    cluster = QuorumCluster(
        controllers,
        brokers,
        directory=directory,
        controller_ports=controller_ports,
        broker_ports=broker_ports,
        combined=combined,
        config=config,
        security=None if any(found) else _security(arguments),
    )
    if any(found):
        if arguments.secure and not (directory / SECURITY).is_dir():
            raise UsageError(f"--secure: the cluster in {directory} was made without it")
        ports = [cluster.port_of(id_) for id_ in cluster.controllers]
        _must_have_ports(cluster, "--controller-port", controller_ports, ports)
        _must_have_ports(cluster, "--broker-port", broker_ports, cluster.client_ports)
        _must_be_configured(cluster, config)
        _must_be_free(
            {*ports, *cluster.client_ports}, f"perhaps the cluster in {directory} runs already"
        )
    return cluster


def _security(arguments: argparse.Namespace) -> ClusterSecurity | None:
    """How a new cluster is secured. UsageError without the extra that it needs."""
    if arguments.secure is None:
        return None
    from fencepost.testing.cluster_security import ClusterSecurity

    try:
        return ClusterSecurity(arguments.secure)
    except ImportError as error:
        raise UsageError(f"--secure: {error}") from error


def _directory(path: Path) -> Path:
    """Where the cluster is, or is to be. UsageError for what is something else."""
    directory = path.expanduser().absolute()
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"--dir {directory} is not a directory")
    if (directory / META_PROPERTIES_FILE).exists():
        raise UsageError(
            f"--dir {directory} is the data directory of a node: name one that is empty, new, or"
            " an earlier cluster's"
        )
    return directory


def _must_be_free(ports: Iterable[int], hint: str) -> None:
    """ClusterError if a port is in use: the nodes would be started for nothing."""
    from fencepost.testing.node_process import ClusterError
    from fencepost.testing.ports import LOOPBACK

    for port in ports:
        try:
            socket.create_server((LOOPBACK, port)).close()
        except OSError as error:
            raise ClusterError(
                f"cannot listen on {LOOPBACK}:{port}: {os.strerror(error.errno or 0)}; {hint}"
            ) from None


def _must_be(option: str, given: int, found: int, directory: Path) -> None:
    """Whether a count is the one of the cluster that is there. UsageError."""
    if given != found:
        raise UsageError(
            f"{option} {given}: the cluster in {directory} has {found}; leave {option} out to start"
            " it, or name another --dir"
        )


def _is_combined(directory: Path, given: bool | None) -> bool:
    """Whether the controllers of the cluster that is there are brokers. UsageError; LogError."""
    path = directory / "controller-1" / "server.properties"
    found = False
    if path.exists():
        roles = decode_properties(str(path), path.read_bytes()).get("process.roles", "")
        found = "broker" in roles
    if given and not found:
        raise UsageError(
            f"--combined: the controllers in {directory} are no brokers; leave --combined out to"
            " start that cluster, or name another --dir"
        )
    return found


def _must_have_ports(
    cluster: QuorumCluster, option: str, given: list[int] | None, ports: list[int]
) -> None:
    """Whether nodes that are there listen where the option says. UsageError."""
    if given is not None and given != ports:
        said = ", ".join(map(str, ports)) or "none"
        raise UsageError(
            f"{option} {given[0] if given else ''}: the ports in {cluster.directory} are {said};"
            f" leave {option} out to start that cluster, or name another --dir"
        )


def _must_be_configured(cluster: QuorumCluster, given: Mapping[str, str]) -> None:
    """Whether every node that is there is configured as the options say, and has its own data.

    UsageError; LogError, OSError for a configuration that cannot be read.
    """
    for node in cluster.nodes.values():
        entries = decode_properties(str(node.config_path), node.config_path.read_bytes())
        data = Path(entries.get("log.dirs", ""))
        own = node.directory / "data"
        if data != own and data.parts[-2:] == own.parts[-2:]:
            raise UsageError(
                f"{node.config_path} has log.dirs={data}: the cluster was made there, and this is a"
                f" copy, or it was moved; correct log.dirs of all its nodes (to {own}, ...)"
            )
        for key, value in given.items():
            if entries.get(key) != value:
                has = f"{key}={entries[key]}" if key in entries else f"no {key}"
                raise UsageError(
                    f"-o {key}={value}: {node.config_path} has {has}; leave -o {key} out to start"
                    " that cluster, or change it in the server.properties of its nodes"
                )


def _count(option: str, given: int | None, otherwise: int, least: int) -> int:
    count = otherwise if given is None else given
    if not least <= count <= NODES_MAX:
        raise UsageError(f"{option} {count}: allowed are {least} to {NODES_MAX}")
    return count


def _ports(option: str, first: int | None, count: int) -> list[int] | None:
    if first is None:
        return None
    if not 0 < first <= PORT_MAX:
        raise UsageError(f"{option} {first}: a port is a number from 1 to {PORT_MAX}")
    if first + count - 1 > PORT_MAX:
        raise UsageError(
            f"{option} {first}: there are no {count} ports from there on, the last is {PORT_MAX}"
        )
    return list(range(first, first + count))


def _must_not_meet(controllers: list[int] | None, brokers: list[int] | None) -> None:
    """Whether no port is given twice. UsageError."""
    twice = set(controllers or ()) & set(brokers or ())
    if controllers and brokers and twice:
        raise UsageError(
            f"--controller-port {controllers[0]} and --broker-port {brokers[0]}: both would have"
            f" port {min(twice)}; {len(controllers)} controllers and {len(brokers)} brokers take"
            " one each"
        )


def _serve(cluster: QuorumCluster, stopping: threading.Event) -> int:
    try:
        _start(cluster)
        with Control(cluster.directory) as control:
            _say_where(cluster)
            code = _watch(cluster, stopping, control)
    finally:
        cluster.close()
    print("stopped", flush=True)
    return code


def _start(cluster: QuorumCluster) -> None:
    """Start all nodes; on a terminal, show how many are ready."""
    if not sys.stderr.isatty():
        cluster.start()
        return
    started = threading.Event()

    def show() -> None:
        while not started.wait(WATCH_EVERY_S):
            ready = sum(node.running and node.is_ready for node in cluster.nodes.values())
            text = f"\r{ready} of {len(cluster.nodes)} nodes are ready"
            print(text, end="", file=sys.stderr, flush=True)
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr, flush=True)

    showing = threading.Thread(target=show)
    showing.start()
    try:
        cluster.start()
    finally:
        started.set()
        showing.join()


def _say_where(cluster: QuorumCluster) -> None:
    print(f"cluster {cluster.cluster_id} in {cluster.directory}")
    for id_, node in cluster.nodes.items():
        print(f"  {node.name}  {cluster.address_of(id_)}  pid {node.pid}  log {node.log_path}")
    print(f"controllers: --bootstrap-controller {cluster.bootstrap_controllers}")
    if cluster.bootstrap_servers:
        print(f"clients: --bootstrap-server {cluster.bootstrap_servers}")
    for path in sorted((cluster.directory / SECURITY).glob("*.properties")):
        print(f"user {path.stem}: --client-config {path}")
    print("ready; Ctrl-C stops all", flush=True)


def _watch(cluster: QuorumCluster, stopping: threading.Event, control: Control) -> int:
    """Do what other terminals ask for, and report nodes that end by themselves.

    The exit code, when all have or it is time to stop.
    """
    nodes = Nodes(cluster)
    reported: set[int] = set()
    while not stopping.is_set():
        if (asked := control.next(WATCH_EVERY_S)) is not None:
            with asked:
                if asked.request.get("action") == STOP_ALL:
                    asked.answer({})
                    return 0
                asked.answer(nodes.answer(asked.request))
        for id_, node in cluster.nodes.items():
            if node.running or nodes.was_ended(id_):
                reported.discard(id_)
            elif id_ not in reported:
                reported.add(id_)
                _report(node)
        if len(reported) == len(cluster.nodes):
            print("fencepost cluster up: no node is left", file=sys.stderr)
            return 1
    return 0


def _report(node: NodeProcess) -> None:
    print(
        f"{node.name} has ended with exit code {node.exit_code}; the end of {node.log_path}:\n"
        f"{node.log_tail}",
        file=sys.stderr,
        flush=True,
    )


def _stop_on_signals(cluster: QuorumCluster, stopping: threading.Event, heard: list[int]) -> None:
    """The first SIGINT or SIGTERM stops in order, also during the start; the second kills."""

    def on_signal(number: int, _: object) -> None:
        heard.append(number)
        stopping.set()
        if len(heard) > 1:
            for node in cluster.nodes.values():
                with contextlib.suppress(OSError):
                    node.kill_without_waiting()
        else:
            print("stopping", flush=True)
            cluster.give_up()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
