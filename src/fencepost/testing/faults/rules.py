"""What is to go wrong with which requests: a `Fault` says it, `Rules` finds those that match.

A fault stays until it has met `count` requests, or until it is lifted. It can be asked how many it
has met, and a test can wait until it has, instead of sleeping.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, Final, Literal

from fencepost.wire.api import API_NAMES, request_class
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

Kind = Literal["fail", "disconnect", "delay", "hold"]
WAIT_TIMEOUT_S: Final = 30.0
DELAY_MAX_MS: Final = 3_600_000
FAULTS_MAX: Final = 1_000
COUNT_MAX: Final = (1 << 31) - 1
_KEYS: Final = {name.lower(): key for key, name in API_NAMES.items()}
NODE_ID_MAX: Final = (1 << 31) - 1


class FaultError(ValueError):
    """A fault that cannot be: an unknown API or error, or a number out of bounds."""


@dataclass(frozen=True, slots=True)
class Target:
    """Which requests: of an API, a client, a topic, to a node; None is any."""

    api_key: int | None = None
    client_id: str | None = None
    topic: str | None = None
    node: int | None = None

    def __str__(self) -> str:
        said = [API_NAMES[self.api_key] if self.api_key is not None else "any request"]
        said += [f"of {self.client_id}"] if self.client_id is not None else []
        said += [f"about {self.topic}"] if self.topic is not None else []
        said += [f"to node {self.node}"] if self.node is not None else []
        return " ".join(said)


class Fault:
    """One thing that goes wrong; made by `FaultInjection`. A context manager: lifted at its end."""

    def __init__(
        self,
        id_: int,
        kind: Kind,
        target: Target,
        count: int | None,
        *,
        after: bool,
        error: int = 0,
        delay_ms: int = 0,
        lift: Callable[[Fault], None],
    ) -> None:
        self.id = id_
        self.kind: Final = kind
        self.target = target
        self.error = error
        self.delay_ms = delay_ms
        self.after = after
        """Whether the broker gets the request first, and only its answer meets the fault."""
        self.remaining = count
        """How many requests it still waits for; None is any number."""
        self.hits = 0
        """How many requests it has met."""
        self.is_lifted = False
        self._lift = lift
        self._met = threading.Condition()

    def __str__(self) -> str:
        what = {
            "fail": f"fail with {ErrorCode(self.error).name if self.kind == 'fail' else ''}",
            "disconnect": "disconnect at",
            "delay": f"delay by {self.delay_ms} ms",
            "hold": "hold",
        }[self.kind]
        return f"{what}: {self.target}"

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *error: object) -> None:
        self.lift()

    def lift(self) -> None:
        """Let it be over: what is held goes on, and no other request is met."""
        self._lift(self)

    release = lift
    """Of a hold, the word that says it better."""

    @property
    def is_over(self) -> bool:
        """Whether nothing meets it any more, and nothing waits for it."""
        return self.is_lifted or (self.remaining == 0 and self.kind in ("fail", "disconnect"))

    def wait(self, hits: int = 1, timeout_s: float = WAIT_TIMEOUT_S) -> None:
        """Wait until it has met so many requests. TimeoutError."""
        with self._met:
            if not self._met.wait_for(lambda: self.hits >= hits, timeout_s):
                raise TimeoutError(f"{self}: {self.hits} of {hits} in {timeout_s} s")

    def take(self) -> None:
        """It has met a request."""
        with self._met:
            self.hits += 1
            if self.remaining is not None:
                self.remaining -= 1
            self._met.notify_all()

    def to_json(self) -> dict[str, Any]:
        """As the control port tells it."""
        target = self.target
        return {
            "id": self.id,
            "kind": self.kind,
            "api": None if target.api_key is None else API_NAMES[target.api_key],
            "client_id": target.client_id,
            "topic": target.topic,
            "node": target.node,
            "after": self.after,
            "error": ErrorCode(self.error).name if self.kind == "fail" else None,
            "delay_ms": self.delay_ms if self.kind == "delay" else None,
            "remaining": self.remaining,
            "hits": self.hits,
        }


class Rules:
    """The faults in force, oldest first."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def __bool__(self) -> bool:
        return bool(self.faults)

    def add(self, fault: Fault) -> None:
        """One more. FaultError beyond `FAULTS_MAX`."""
        if len(self.faults) >= FAULTS_MAX:
            raise FaultError(f"{FAULTS_MAX} faults are in force; lift some")
        self.faults.append(fault)

    def remove(self, fault: Fault) -> None:
        """One less."""
        if fault in self.faults:
            self.faults.remove(fault)

    def may_match(self, api_key: int, client_id: str | None, node: int | None) -> bool:
        """Whether a request may meet a fault, before it is decoded."""
        return any(_fits(one.target, api_key, client_id, node) for one in self.faults)

    def take(
        self, api_key: int, client_id: str | None, node: int | None, topics: Callable[[], set[str]]
    ) -> list[Fault]:
        """The faults that a request meets: delays and holds, and one failure at most."""
        met: list[Fault] = []
        fails = False
        for fault in self.faults:
            target = fault.target
            is_failure = fault.kind in ("fail", "disconnect")
            if (is_failure and fails) or not _fits(target, api_key, client_id, node):
                continue
            if target.topic is None or target.topic in topics():
                met.append(fault)
                fails = fails or is_failure
        for fault in met:
            fault.take()
        self.faults = [one for one in self.faults if one.remaining != 0]
        return met

    def asks_for_partitions(
        self, api_key: int, client_id: str | None, node: int | None, errors: Container[int]
    ) -> bool:
        """Whether a fault that may match asks for a topic, or sets one of `errors`."""
        return any(
            (one.target.topic is not None or one.error in errors)
            and _fits(one.target, api_key, client_id, node)
            for one in self.faults
        )


def _fits(target: Target, api_key: int, client_id: str | None, node: int | None) -> bool:
    return (
        (target.api_key is None or target.api_key == api_key)
        and (target.client_id is None or target.client_id == client_id)
        and (target.node is None or target.node == node)
    )


def api_key_of(api: str | int | type[Message] | None) -> int | None:
    """The API key of a name ("Produce"), a key or a request class; None is any. FaultError."""
    if api is None:
        return None
    if isinstance(api, str):
        key = _KEYS.get(api.removesuffix("Request").lower())
        if key is None:
            raise FaultError(f"api {api[:100]!r}: there is no such API; Produce is one")
        return key
    if isinstance(api, type):
        key = getattr(api, "api_key", None)
        if key is None:
            raise FaultError(f"api {api.__name__} is no request")
        return key
    if isinstance(api, bool) or api not in API_NAMES:
        raise FaultError(f"api {api!r}: there is no such API key")
    request_class(api)
    return api


def error_of(error: str | int) -> int:
    """The number of an error, given by Kafka's name or as a number. FaultError."""
    try:
        code = ErrorCode[error.upper()] if isinstance(error, str) else ErrorCode(error)
    except (KeyError, ValueError):
        raise FaultError(
            f"error {str(error)[:100]!r}: there is no such error; NOT_LEADER_OR_FOLLOWER is one"
        ) from None
    if code == ErrorCode.NONE:
        raise FaultError("error NONE: that is no error")
    return int(code)


def checked(name: str, value: object, low: int, high: int) -> int:
    """A whole number within bounds. FaultError."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise FaultError(f"{name} {str(value)[:100]!r}: a number from {low} to {high} is wanted")
    return value
