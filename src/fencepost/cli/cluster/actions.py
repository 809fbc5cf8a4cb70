"""`fencepost cluster kill|pause|resume|stop|start|restart|status`: nodes of a running cluster.

The command asks (`run_action`, `run_status`), the process that runs the cluster does it (`Nodes`).
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.cli.cluster.control import ask
from fencepost.cli.failures import offline_command
from fencepost.cli.output import print_json, print_table_of
from fencepost.cli.topic_default_notes import notes_of_files

if TYPE_CHECKING:
    from fencepost.testing.node_process import NodeProcess
    from fencepost.testing.quorum_cluster import QuorumCluster
    from fencepost.views.nodes import NodeView

STOP_ALL = "stop-all"


class Action(NamedTuple):
    """What is done to nodes: its help, whether nodes must be named, and what they are then."""

    help: str
    nargs: str
    done: str


ACTIONS: dict[str, Action] = {
    "kill": Action("as a crash does: what was not written is lost (SIGKILL)", "+", "killed"),
    "pause": Action("the process is there and does nothing (SIGSTOP)", "+", "paused"),
    "resume": Action("go on after a pause (SIGCONT)", "+", "running"),
    "stop": Action("in order, leaders handed over first; without NODE: all nodes", "*", "stopped"),
    "start": Action("again, at the same port with the same data", "+", "running"),
    "restart": Action("stop in order and start again", "+", "running"),
}


@offline_command
def run_action(arguments: argparse.Namespace) -> int:
    """One node after the other, as they are named."""
    directory = arguments.dir.expanduser().absolute()
    if not arguments.nodes:
        ask(directory, {"action": STOP_ALL})
        print("stopping all nodes")
        return 0
    for node in arguments.nodes:
        if sys.stderr.isatty():
            print(f"{arguments.action} {node} ...", file=sys.stderr, flush=True)
        answer = ask(directory, {"action": arguments.action, "node": node})
        pid = f", pid {answer['pid']}" if answer.get("pid") else ""
        print(f"{answer['node']} {ACTIONS[arguments.action].done}{pid}", flush=True)
    return 0


@offline_command
def run_status(arguments: argparse.Namespace) -> int:
    """A row per node."""
    import msgspec

    from fencepost.views.nodes import NodesView, NodeView

    answer = ask(arguments.dir.expanduser().absolute(), {"action": "status"})
    view = msgspec.convert(answer, NodesView)
    if arguments.json:
        print_json(view)
        return 0
    print(f"clients: --bootstrap-server {view.bootstrap_servers}")
    print_table_of(NodeView, view.nodes)
    for note in view.notes:
        print(note)
    return 0


class Nodes:
    """Carries out what is asked, and remembers what was done to nodes on purpose."""

    def __init__(self, cluster: QuorumCluster) -> None:
        self._cluster = cluster
        self._states: dict[int, str] = {}

    def was_ended(self, id_: int) -> bool:
        """Whether this node was killed or stopped by a request."""
        return self._states.get(id_) in (ACTIONS["kill"].done, ACTIONS["stop"].done)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do it; an answer has `error` if it cannot be done."""
        from fencepost.testing.node_process import ClusterError

        action = request.get("action")
        if action == "status":
            return self._status()
        if action not in ACTIONS:
            return {"error": f"there is no action {action!r}"}
        found = self._find(str(request.get("node")))
        if found is None:
            known = ", ".join(node.name for node in self._cluster.nodes.values())
            return {"error": f"there is no node {request.get('node')!r}; there are {known}"}
        id_, node = found
        try:
            refused = self._act(action, id_, node)
        except ClusterError as error:
            return {"error": str(error).partition("\n")[0]}
        if refused:
            return {"error": f"{node.name} {refused}"}
        self._states[id_] = ACTIONS[action].done
        return {"node": node.name, "pid": node.pid if node.running else None}

    def _find(self, word: str) -> tuple[int, NodeProcess] | None:
        nodes = self._cluster.nodes.items()
        return next(((id_, node) for id_, node in nodes if word in (str(id_), node.name)), None)

    def _act(self, action: str, id_: int, node: NodeProcess) -> str:
        """Do it; why it is refused, if it is. ClusterError."""
        if action not in ("start", "restart") and not node.running:
            return "does not run"
        if action == "start" and node.running:
            return "runs already"
        if action == "kill":
            node.kill()
        elif action == "pause":
            node.pause()
        elif action == "resume":
            node.resume()
        if action in ("stop", "restart") and node.running:
            node.resume()
            node.stop()
        if action in ("start", "restart"):
            node.start()
            node.wait_until_ready()
        return ""

    def _status(self) -> dict[str, Any]:
        from fencepost.views.nodes import NodesView
        from fencepost.views.rendering import document_of

        cluster = self._cluster
        view = NodesView(
            str(cluster.directory),
            cluster.cluster_id,
            cluster.bootstrap_servers,
            cluster.bootstrap_controllers,
            [self._view(id_, node) for id_, node in cluster.nodes.items()],
            notes_of_files(self._files()),
        )
        document: dict[str, Any] = document_of(view)
        return document

    def _files(self) -> dict[str, dict[str, str]]:
        """The configuration of each node, by its name; empty where it cannot be read."""
        from fencepost.log.errors import LogError
        from fencepost.log.properties import decode_properties

        files: dict[str, dict[str, str]] = {}
        for node in self._cluster.nodes.values():
            files[node.name] = {}
            with contextlib.suppress(LogError, OSError):
                path = node.config_path
                files[node.name] = decode_properties(str(path), path.read_bytes())
        return files

    def _view(self, id_: int, node: NodeProcess) -> NodeView:
        from fencepost.views.nodes import NodeView

        cluster = self._cluster
        is_controller, clients = id_ in cluster.controllers, cluster.client_address_of(id_)
        roles = ["controller"] * is_controller + ["broker"] * (clients is not None)
        return NodeView(
            node.name,
            id_,
            roles,
            clients,
            cluster.address_of(id_) if is_controller else None,
            self._state(id_, node),
            node.pid if node.running else None,
            str(node.log_path),
        )

    def _state(self, id_: int, node: NodeProcess) -> str:
        if node.running:
            return "paused" if self._states.get(id_) == ACTIONS["pause"].done else "running"
        if self.was_ended(id_):
            return self._states[id_]
        return f"ended with exit code {node.exit_code}"
