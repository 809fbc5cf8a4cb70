"""Bounds of what groups may set, against each other and against what holds for all groups.

Kafka checks them when a broker starts, and when one of them is changed while it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fencepost.log.configdef import ConfigError

_OF_EVERY_TYPE: Final = ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
_BOUNDED: Final = {
    "consumer": _OF_EVERY_TYPE,
    "share": (
        *_OF_EVERY_TYPE,
        "record.lock.duration.ms",
        "delivery.count.limit",
        "partition.max.record.locks",
    ),
    "streams": _OF_EVERY_TYPE,
}
_OTHERS: Final = (
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
    ("group.streams.num.warmup.replicas", "group.streams.max.warmup.replicas"),
    ("group.streams.min.task.offset.interval.ms", "group.streams.task.offset.interval.ms"),
)
"""Further pairs of which the first must not be larger than the second."""


def check_group_bounds(get: Callable[[str], Any]) -> None:
    """Whether the broker's configs of groups go together; `get` gives typed ones. ConfigError."""
    for kind, names in _BOUNDED.items():
        for name in names:
            value = f"group.{kind}.{name}"
            least, most = f"group.{kind}.min.{name}", f"group.{kind}.max.{name}"
            _check(get(most) >= get(least), get, most, "greater than or equal to", least)
            _check(get(value) >= get(least), get, value, "greater than or equal to", least)
            _check(get(value) <= get(most), get, value, "less than or equal to", most)
        heartbeat, session = (f"group.{kind}.{name}" for name in _OF_EVERY_TYPE[:2])
        _check(get(heartbeat) < get(session), get, heartbeat, "less than", session)
    for smaller, larger in _OTHERS:
        _check(get(smaller) <= get(larger), get, smaller, "less than or equal to", larger)


def _check(holds: bool, get: Callable[[str], Any], key: str, relation: str, other: str) -> None:
    if not holds:
        answer = f"{key} must be {relation} {other}"
        raise ConfigError(key, get(key), f"it must be {relation} {other}={get(other)}", answer)
