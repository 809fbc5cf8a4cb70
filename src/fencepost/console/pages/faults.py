"""A test cluster's nodes, and the faults that are in force in front of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from fencepost.console.asked import Asked, path_to
from fencepost.console.control_port import (
    ControlState,
    FaultInForce,
    Link,
    NoControl,
    Node,
    control_state,
)
from fencepost.console.page import Level, Page, Section, Sentence, Table
from fencepost.console.session import Session, now_ms
from fencepost.views.view import View, count

TITLE = "Faults of a test cluster"


class NodeRow(View, frozen=True):
    """A node's process; `change` is what the page offers to do with it, None where it may not."""

    columns: ClassVar = {
        "node": "node",
        "role": "role",
        "state": "state",
        "pid": "pid",
        "log": "log",
        "change": "change",
    }

    node: int
    role: str
    state: str
    pid: int | None
    log: str
    change: str | None


class FaultRow(View, frozen=True):
    """A fault that requests meet."""

    columns: ClassVar = {
        "fault": "fault",
        "what": "what",
        "requests": "requests",
        "met": "met",
        "left": "left",
    }

    fault: int
    what: str
    requests: str
    met: int
    left: int | str


class LinkRow(View, frozen=True):
    """A link of which one direction is cut or slow."""

    columns: ClassVar = {"from": "source", "to": "target", "state": "state"}

    source: str
    target: str
    state: str


async def faults(session: Session, asked: Asked) -> Page:
    """What the control port tells; with writes allowed, ways to change it."""
    address = session.options.faults
    if address is None:
        words = "No test cluster is given; name its control port with --faults."
        return Page(TITLE, [Section("", [Sentence(words)])], now_ms(), refresh_s=None)
    try:
        state = await control_state(address)
    except NoControl as error:
        return Page(TITLE, [Section("", [Sentence(f"{error}.", "bad")])], now_ms())
    writes = session.options.allow_writes
    sections = [
        Section("", _sentences(state, address, writes)),
        _nodes(state.nodes, writes),
        _faults(state.faults, writes),
        _links(state),
    ]
    return Page(TITLE, [one for one in sections if one is not None], now_ms())


def _sentences(state: ControlState, address: str, writes: bool) -> list[Sentence]:
    found = [Sentence(f"Control port {address}; clients begin at {state.bootstrap_servers}.")]
    wrong = [
        words
        for number, words in (
            (len(state.faults), "fault"),
            (len(state.cuts), "cut link"),
            (len(state.slow), "slow link"),
            (sum(state_of(one) != "running" for one in state.nodes), "node that does not run"),
        )
        if number
        for words in [_counted(number, words)]
    ]
    if wrong:
        found.append(Sentence(f"In force: {', '.join(wrong)}.", "warning"))
    else:
        found.append(Sentence("No fault is in force.", "good"))
    if writes:
        found.append(Sentence("Have requests fail or wait.", link=path_to("writes", "fault")))
        found.append(Sentence("Cut a link, or slow it.", link=path_to("writes", "link")))
    return found


def _counted(number: int, noun: str) -> str:
    if noun.startswith("node"):
        return "1 node that does not run" if number == 1 else f"{number} nodes that do not run"
    return count(number, noun)


def state_of(node: Node) -> str:
    """What a node's process does."""
    return "paused" if node.paused else "running" if node.running else "stopped"


def _nodes(nodes: Sequence[Node], writes: bool) -> Section | None:
    """The nodes; a proxy has none."""
    if not nodes:
        return None
    actions = ["kill" if one.running else "start" for one in nodes]
    rows = [
        NodeRow(
            *(one.id, one.role, state_of(one), one.pid, one.log),
            f"{action} node {one.id}" if writes else None,
        )
        for one, action in zip(nodes, actions, strict=True)
    ]
    levels: list[Level | None] = [None if row.state == "running" else "bad" for row in rows]
    links = [
        path_to("writes", "node", node=one.id, action=action)
        for one, action in zip(nodes, actions, strict=True)
    ]
    table = Table("nodes", NodeRow, rows, {"change": links} if writes else {}, levels)
    return Section("Nodes", [], [table], rows)


def _faults(ones: Sequence[FaultInForce], writes: bool) -> Section:
    rows = [
        FaultRow(
            one.id,
            what_of(one),
            requests_of(one),
            one.hits,
            "any number" if one.remaining is None else one.remaining,
        )
        for one in ones
    ]
    links = [path_to("writes", "lift-fault", fault=one.id) for one in ones]
    table = Table("faults", FaultRow, rows, {"fault": links} if writes else {})
    return Section("Faults", [], [table], rows)


def what_of(one: FaultInForce) -> str:
    """ "fail with NOT_LEADER_OR_FOLLOWER", "delay by 100 ms", "hold"; what comes after the broker
    has done it says so."""
    words = {"fail": f"fail with {one.error}", "delay": f"delay by {one.delay_ms} ms"}
    return f"{words.get(one.kind, one.kind)}{', only the answer' if one.after else ''}"


def requests_of(one: FaultInForce) -> str:
    """Which requests meet it."""
    said = [one.api or "any request"]
    said += [f"of {one.client_id}"] if one.client_id is not None else []
    said += [f"about {one.topic}"] if one.topic is not None else []
    said += [f"to node {one.node}"] if one.node is not None else []
    return " ".join(said)


def _links(state: ControlState) -> Section:
    rows = [LinkRow(_end(one.source), _end(one.target), "cut") for one in state.cuts]
    rows += [LinkRow(_end(one.source), _end(one.target), pace_of(one)) for one in state.slow]
    return Section("Links", [], [Table("cut and slow links", LinkRow, rows)], rows)


def _end(end: int | str | None) -> str:
    return "any" if end is None else f"node {end}" if isinstance(end, int) else f"client {end}"


def pace_of(one: Link) -> str:
    """ "100 ms later, 1000 bytes/s"."""
    parts = [f"{one.delay_ms} ms later"] if one.delay_ms else []
    parts += [f"{one.bytes_per_s} bytes/s"] if one.bytes_per_s is not None else []
    return ", ".join(parts) or "slow"
