"""The nodes of a cluster on this machine."""

from __future__ import annotations

from typing import ClassVar

from fencepost.views.view import View


class NodeView(View, frozen=True):
    """A node: where clients and controllers reach it, whether it runs, and its log file."""

    columns: ClassVar = {
        n: n for n in ("node", "id", "roles", "clients", "controller", "state", "pid")
    }

    node: str
    id: int
    roles: list[str]
    clients: str | None
    controller: str | None
    state: str
    pid: int | None
    log: str


class NodesView(View, frozen=True):
    """All of them; `notes` say where their configurations differ and should not."""

    directory: str
    cluster_id: str
    bootstrap_servers: str
    bootstrap_controllers: str
    nodes: list[NodeView]
    notes: list[str]
