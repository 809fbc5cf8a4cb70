"""The control port of a test cluster (`fencepost.testing.control`), as its client: which nodes run,
which faults are in force, and changes of both.

Only the command line names it, and only on loopback, where it listens. Answers are bounded and read
as what they have to be.
"""

from __future__ import annotations

import asyncio
import http.client
import json
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from fencepost.addresses import PORT_MAX

ANSWER_BYTES_MAX: Final = 4 << 20
LOOK_S: Final = 5.0
CHANGE_S: Final = 90.0
"""A node that starts is waited for."""
HOSTS: Final = ("127.0.0.1", "localhost")


class BadControlUrl(ValueError):
    """An address that is none of a control port; the text says what is allowed."""


class NoControl(Exception):
    """The control port cannot be asked, or refused what was asked; the text says why."""


class Node(msgspec.Struct, frozen=True):
    """A node of the test cluster."""

    id: int
    role: str
    running: bool
    paused: bool
    pid: int | None = None
    log: str = ""


class FaultInForce(msgspec.Struct, frozen=True):
    """A fault, with how many requests it has met and still waits for (None: any number)."""

    id: int
    kind: str
    api: str | None = None
    client_id: str | None = None
    topic: str | None = None
    node: int | None = None
    after: bool = False
    error: str | None = None
    delay_ms: int | None = None
    remaining: int | None = None
    hits: int = 0


class Link(msgspec.Struct, frozen=True):
    """What the first end sends is cut off from the second, or slow: a node's id, a client's id, or
    None for any."""

    source: int | str | None = msgspec.field(name="from", default=None)
    target: int | str | None = msgspec.field(name="to", default=None)
    delay_ms: int = 0
    bytes_per_s: int | None = None


class ControlState(msgspec.Struct, frozen=True):
    """All that a control port tells; a proxy has no nodes of its own."""

    bootstrap_servers: str
    faults: list[FaultInForce]
    cuts: list[Link]
    slow: list[Link]
    nodes: list[Node] = []


def address_of_control(url: str) -> str:
    """HOST:PORT of `http://HOST:PORT/`. BadControlUrl."""
    problem = f"{url!r}: http://127.0.0.1:PORT is allowed, as `fencepost testing` prints it"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise BadControlUrl(problem) from None
    is_plain = parts.path in ("", "/") and not parts.query and parts.username is None
    if parts.scheme != "http" or parts.hostname not in HOSTS or not is_plain:
        raise BadControlUrl(problem)
    if port is None or not 0 < port <= PORT_MAX:
        raise BadControlUrl(problem)
    return f"127.0.0.1:{port}"


async def control_state(address: str) -> ControlState:
    """What is in force now. NoControl."""
    data = await asyncio.to_thread(_ask, address, "GET", "/", None, LOOK_S)
    try:
        return msgspec.json.decode(data, type=ControlState)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise NoControl(f"{address} is no control port: {error}") from None


async def control_change(
    address: str, method: str, path: str, body: dict[str, Any] | None = None
) -> None:
    """Have the control port change something. NoControl."""
    await asyncio.to_thread(_ask, address, method, path, body, CHANGE_S)


def _ask(
    address: str, method: str, path: str, body: dict[str, Any] | None, timeout_s: float
) -> bytes:
    connection = http.client.HTTPConnection(address, timeout=timeout_s)
    try:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data is not None else {}
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        found = answer.read(ANSWER_BYTES_MAX + 1)
    except http.client.HTTPException as error:
        raise NoControl(f"{address} is no control port: no answer of HTTP ({error})") from None
    except OSError as error:
        raise NoControl(f"the control port {address} does not answer: {error}") from None
    finally:
        connection.close()
    if len(found) > ANSWER_BYTES_MAX:
        raise NoControl(f"{address} answers with more than {ANSWER_BYTES_MAX} bytes")
    if answer.status >= http.client.BAD_REQUEST and method == "GET":
        raise NoControl(f"{address} is no control port: it answers with {answer.status}")
    if answer.status >= http.client.BAD_REQUEST:
        raise NoControl(f"the control port refused it: {_reason(found)}")
    return found


def _reason(answer: bytes) -> str:
    try:
        found = json.loads(answer)["error"]
    except (ValueError, LookupError, TypeError, RecursionError):
        found = answer.decode(errors="replace")
    return str(found)[:500]
