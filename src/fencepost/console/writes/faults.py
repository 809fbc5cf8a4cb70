"""Faults of a test cluster: had by its control port, lifted, and its nodes stopped and started."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from fencepost.client.errors import ClientError
from fencepost.console.asked import Asked, BadQuery
from fencepost.console.control_port import (
    ControlState,
    FaultInForce,
    Link,
    NoControl,
    control_change,
    control_state,
)
from fencepost.console.pages.faults import pace_of, requests_of, state_of, what_of
from fencepost.console.session import Session
from fencepost.console.writes.plan import CannotBe, Plan
from fencepost.testing.faults.rules import (
    COUNT_MAX,
    DELAY_MAX_MS,
    NODE_ID_MAX,
    FaultError,
    api_key_of,
    error_of,
)
from fencepost.views.view import count
from fencepost.wire.api import API_NAMES
from fencepost.wire.errors import ErrorCode

KINDS: Final = ("fail", "disconnect", "delay", "hold")
LINKS: Final = ("cut", "slow", "heal")
ACTIONS: Final = {
    "kill": ("running", "paused"),
    "stop": ("running",),
    "start": ("stopped",),
    "restart": ("running",),
    "pause": ("running",),
    "resume": ("paused",),
}
"""What can be done to a node, and the states in which it can."""
BYTES_PER_S_MAX: Final = 1 << 40


class _Change(NamedTuple):
    """A request to the control port."""

    method: str
    path: str
    body: dict[str, Any] | None = None


async def fault(session: Session, asked: Asked) -> Plan:
    """A fault that requests meet, the next `count` or all of them."""
    address, _ = await _state(session)
    body = _fault_body(asked)
    shown = FaultInForce(
        0,
        body["kind"],
        body.get("api"),
        body.get("client_id"),
        body.get("topic"),
        body.get("node"),
        body["after"],
        body.get("error"),
        body.get("delay_ms"),
    )
    times = "until it is lifted" if body["count"] is None else f"the next {body['count']}"
    diff = [f"+ {what_of(shown)}: {requests_of(shown)}, {times}"]
    return _plan(address, address, diff, _Change("POST", "/faults", body), "The fault is in force.")


def _fault_body(asked: Asked) -> dict[str, Any]:
    kind = asked.choice("kind", KINDS)
    body: dict[str, Any] = {
        "kind": kind,
        "after": asked.choice("when", ("before", "after")) == "after",
    }
    try:
        key = "api"
        api = asked.text("api").strip()
        number = api_key_of(api) if api else None
        if number is not None:
            body["api"] = API_NAMES[number]
        if kind == "fail":
            key = "error"
            body["error"] = ErrorCode(error_of(asked.text("error").strip())).name
    except FaultError as error:
        raise BadQuery(key, asked.text(key), str(error)) from None
    if kind == "delay":
        body["delay_ms"] = asked.number("delay_ms", 1_000, 1, DELAY_MAX_MS)
    times = asked.number("count", 0, 0, COUNT_MAX)
    body["count"] = times or None
    node = asked.number("node", -1, -1, NODE_ID_MAX)
    body |= {"node": node} if node >= 0 else {}
    return body | {name: text for name in ("client_id", "topic") if (text := asked.text(name))}


async def lift_fault(session: Session, asked: Asked) -> Plan:
    """One fault, or `all`: what they hold goes on."""
    address, state = await _state(session)
    wanted = asked.text("fault").strip()
    if wanted == "all":
        lifted, path = state.faults, "/faults"
    else:
        number = asked.number("fault", -1, 0, 10**18 - 1)
        lifted = [one for one in state.faults if one.id == number]
        path = f"/faults/{number}"
    if not lifted:
        raise CannotBe(
            f"no fault {wanted} is in force" if wanted != "all" else "no fault is in force"
        )
    diff = [f"- fault {one.id}: {what_of(one)}: {requests_of(one)}" for one in lifted]
    became = f"{count(len(lifted), 'fault')} lifted."
    return _plan(address, address, diff, _Change("DELETE", path), became)


async def link(session: Session, asked: Asked) -> Plan:
    """The link between two ends, cut, slow or healed."""
    address, _ = await _state(session)
    action = asked.choice("action", LINKS)
    ends = {key: _end(asked, key) for key in ("from", "to")}
    words = " and ".join("any" if one is None else str(one) for one in ends.values())
    if action == "heal":
        diff = [f"- what is cut or slow between {words}"]
        change = _Change(
            "DELETE", "/cuts", {key: end for key, end in ends.items() if end is not None}
        )
        return _plan(address, address, diff, change, "The link is healed.")
    body: dict[str, Any] = {**ends, "one_way": asked.choice("one_way", ("no", "yes")) == "yes"}
    state = "cut"
    if action == "slow":
        pace = asked.number("bytes_per_s", 0, 0, BYTES_PER_S_MAX)
        body["delay_ms"] = asked.number("delay_ms", 0, 0, DELAY_MAX_MS)
        body |= {"bytes_per_s": pace} if pace else {}
        if not body["delay_ms"] and not pace:
            raise BadQuery("delay_ms", "0", "a slow link has delay_ms, bytes_per_s or both")
        state = pace_of(Link(None, None, body["delay_ms"], pace or None))
    way = ", one way" if body["one_way"] else ""
    change = _Change("POST", "/cuts" if action == "cut" else "/slow", body)
    return _plan(address, address, [f"+ between {words}{way}: {state}"], change, "It is in force.")


def _end(asked: Asked, key: str) -> int | str | None:
    """A node's id, a client's id, or None for any."""
    text = asked.text(key).strip()
    if text.isascii() and text.isdecimal() and len(text) <= 9:
        return int(text)
    return text or None


async def node(session: Session, asked: Asked) -> Plan:
    """A node's process: killed, stopped, started, paused."""
    address, state = await _state(session)
    number = asked.number("node", -1, 0, NODE_ID_MAX)
    action = asked.choice("action", tuple(ACTIONS))
    found = next((one for one in state.nodes if one.id == number), None)
    if found is None:
        there = ", ".join(str(one.id) for one in state.nodes) or "none: it is a proxy"
        raise CannotBe(f"there is no node {number}; there are {there}")
    was = state_of(found)
    if was not in ACTIONS[action]:
        allowed = " or ".join(ACTIONS[action])
        raise CannotBe(f"node {number} is {was}: {action} is for one that is {allowed}")
    diff = [f"- node {number} ({found.role}): {was}", f"+ {action} node {number}"]
    change = _Change("POST", f"/nodes/{number}/{action}", {})
    return _plan(address, f"node {number}", diff, change, f"Node {number}: {action} is done.")


async def _state(session: Session) -> tuple[str, ControlState]:
    """The control port and what is in force. CannotBe."""
    address = session.options.faults
    if address is None:
        raise CannotBe("no test cluster is given (--faults)")
    try:
        return address, await control_state(address)
    except NoControl as error:
        raise CannotBe(str(error)) from None


def _plan(address: str, target: str, diff: list[str], change: _Change, became: str) -> Plan:
    return Plan(target, diff, _carrying_out(address, change, became), audited=change._asdict())


def _carrying_out(
    address: str, change: _Change, became: str
) -> Callable[[Session], Awaitable[str]]:
    async def carry_out(session: Session) -> str:
        try:
            await control_change(address, *change)
        except NoControl as error:
            raise ClientError(str(error)) from None
        return became

    return carry_out
