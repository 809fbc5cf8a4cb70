"""Dynamic configs of groups: resources of type GROUP (32), which are stored in the metadata.

A group need not exist, nor be of the type that a config is for: `consumer.session.timeout.ms` of
the group id `g` holds whenever `g` is a consumer group. A config that is not set has the value of
the broker's config, `group.` before the name, or Kafka's default where the broker has none.

A value has to be in the broker's bounds when it is set. Bounds may be other ones later, or on
another broker, so a stored value that is out of them counts as the nearest bound when it is read
(KAFKA-20162; `settings.GroupSettings`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from fencepost.log.configdef import (
    INT_MAX,
    ConfigDef,
    ConfigError,
    ConfigType,
    Validator,
    at_least,
    distinct,
    one_of,
)

BrokerValue = Callable[[str], Any]
"""The value of a broker's config."""


class GroupConfigDef(ConfigDef, frozen=True):
    """A config of groups, and the broker's configs that it depends on."""

    broker_key: str | None = None
    """The broker's config for all groups; None if there is none."""
    least_key: str | None = None
    """The broker's config with the least that a group may set; None: no bound but the type's."""
    most_key: str | None = None
    """Likewise with the most."""


# What a duration of Java's `Duration.parse` is: days, and behind a T hours, minutes and seconds.
_DURATION: Final = re.compile(
    r"""(?P<sign>[-+]?) P (?:(?P<d>[-+]?\d+)D)?
    (?P<t> T (?:(?P<h>[-+]?\d+)H)? (?:(?P<m>[-+]?\d+)M)?
       (?:(?P<s>[-+]?\d+) ([.,](?P<f>\d{0,9}))? S)? )?""",
    re.IGNORECASE | re.ASCII | re.VERBOSE,
)
_BY_DURATION: Final = "by_duration:"
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_SECONDS_MAX: Final = (1 << 63) // 1000


def reset_duration_ms(value: str) -> int | None:
    """How far back `share.auto.offset.reset` reaches, in ms; None for `earliest` and `latest`.

    ValueError if the value is none of the three.
    """
    if value in ("earliest", "latest"):
        return None
    match = _DURATION.fullmatch(value.removeprefix(_BY_DURATION))
    if not value.startswith(_BY_DURATION) or match is None:
        raise ValueError(value)
    parts = match.groupdict()
    if (parts["t"] or "").upper() == "T" or not any(parts[unit] for unit in "dhms"):
        raise ValueError(value)
    seconds = sum(int(parts[unit] or 0) * length for unit, length in _UNITS)
    is_negative = (parts["s"] or "").startswith("-")
    nanos = int((parts["f"] or "").ljust(9, "0")) * (-1 if is_negative else 1)
    total = (seconds * 10**9 + nanos) * (-1 if parts["sign"] == "-" else 1)
    if total < 0 or seconds >= _SECONDS_MAX:
        raise ValueError(value)
    return total // 10**6


def _is_reset(value: str) -> bool:
    try:
        reset_duration_ms(value)
    except ValueError:
        return False
    return True


_RESET: Final = Validator(
    "earliest, latest or by_duration:PnDTnHnMn.nS, not negative",
    _is_reset,
    answer=lambda name, value: (
        value,
        f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest',"
        " 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
    ),
)


def _bounded(name: str, default: int, least: int, doc: str) -> GroupConfigDef:
    """A number with bounds of the broker's."""
    kind, rest = name.split(".", 1)
    return GroupConfigDef(
        name,
        ConfigType.INT,
        default,
        doc,
        at_least(least),
        broker_key=f"group.{name}",
        least_key=f"group.{kind}.min.{rest}",
        most_key=f"group.{kind}.max.{rest}",
    )


def _of_every_type(kind: str, *more: GroupConfigDef) -> tuple[GroupConfigDef, ...]:
    """What groups of each of the three types have, and `more`, in the order of Kafka's checks."""
    return (
        _bounded(f"{kind}.heartbeat.interval.ms", 5_000, 1, "Heartbeat interval that members get."),
        _bounded(
            f"{kind}.session.timeout.ms", 45_000, 1, "Members silent for so long are removed."
        ),
        *more,
        _bounded(f"{kind}.assignment.interval.ms", 1_000, 0, "Least time between two assignments."),
        GroupConfigDef(
            f"{kind}.assignor.offload.enable",
            ConfigType.BOOLEAN,
            True,
            "Stored and shown; Kafka does not read it either.",
            internal=True,
            broker_key=f"group.{kind}.assignor.offload.enable",
        ),
    )


_SHARE: Final = _of_every_type(
    "share",
    _bounded(
        "share.record.lock.duration.ms",
        30_000,
        1_000,
        "How long a delivered record is locked for its consumer.",
    ),
    _bounded("share.delivery.count.limit", 5, 2, "How often a record is delivered at most."),
    _bounded(
        "share.partition.max.record.locks",
        2_000,
        100,
        "Records of a partition that may be in delivery at once.",
    ),
) + (
    GroupConfigDef(
        "share.auto.offset.reset",
        ConfigType.STRING,
        "latest",
        "Where the group begins in a partition: latest, earliest, or by_duration:PnDTnHnMn.nS ago.",
        _RESET,
    ),
    GroupConfigDef(
        "share.isolation.level",
        ConfigType.STRING,
        "read_uncommitted",
        "Whether records of open and aborted transactions are delivered.",
        one_of("read_committed", "read_uncommitted"),
    ),
    GroupConfigDef(
        "share.renew.acknowledge.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether consumers may renew the lock of a record (KIP-1222).",
    ),
    GroupConfigDef(
        "errors.deadletterqueue.topic.name",
        ConfigType.STRING,
        "",
        "The topic of records that were rejected or delivered too often; empty: none (KIP-1191).",
    ),
    GroupConfigDef(
        "errors.deadletterqueue.copy.record.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether key and value of the record go to that topic, too.",
    ),
)

_STREAMS: Final = _of_every_type(
    "streams",
    GroupConfigDef(
        "streams.num.standby.replicas",
        ConfigType.INT,
        0,
        "Standby replicas of each task.",
        at_least(0),
        broker_key="group.streams.num.standby.replicas",
        most_key="group.streams.max.standby.replicas",
    ),
) + (
    GroupConfigDef(
        "streams.initial.rebalance.delay.ms",
        ConfigType.INT,
        3_000,
        "How long the first rebalance of a group waits for more members.",
        at_least(0),
        broker_key="group.streams.initial.rebalance.delay.ms",
    ),
    GroupConfigDef(
        "streams.rack.aware.assignment.tags",
        ConfigType.LIST,
        (),
        "Client tags by which standby replicas are spread.",
        distinct(may_be_empty=True),
        broker_key="group.streams.rack.aware.assignment.tags",
    ),
    GroupConfigDef(
        "streams.assignor.name",
        ConfigType.STRING,
        None,
        "The task assignor; the broker's first if it is not set.",
        broker_key="group.streams.assignors",
    ),
    GroupConfigDef(
        "streams.task.offset.interval.ms",
        ConfigType.INT,
        60_000,
        "How often members report the offsets of their tasks.",
        at_least(1),
        internal=True,
        broker_key="group.streams.task.offset.interval.ms",
        least_key="group.streams.min.task.offset.interval.ms",
    ),
    GroupConfigDef(
        "streams.num.warmup.replicas",
        ConfigType.INT,
        2,
        "Stored and shown; Kafka gives no warm-up tasks either.",
        at_least(0),
        internal=True,
        broker_key="group.streams.num.warmup.replicas",
        most_key="group.streams.max.warmup.replicas",
    ),
    GroupConfigDef(
        "streams.acceptable.recovery.lag",
        ConfigType.LONG,
        10_000,
        "Offsets that a standby may be behind and still count as caught up.",
        at_least(0),
        internal=True,
        broker_key="group.streams.acceptable.recovery.lag",
    ),
)

GROUP_CONFIGS: Final[Mapping[str, GroupConfigDef]] = MappingProxyType(
    {
        definition.name: definition
        for definition in (
            *_of_every_type("consumer"),
            *_SHARE,
            *_STREAMS,
        )
    }
)
"""Every config of groups by name: those of Apache Kafka 4.4."""

_BOUNDS: Final = {
    "session.timeout.ms": (45_000, 60_000),
    "heartbeat.interval.ms": (5_000, 15_000),
    "assignment.interval.ms": (0, 15_000),
    "record.lock.duration.ms": (15_000, 60_000),
    "delivery.count.limit": (2, 10),
    "partition.max.record.locks": (100, 4_000),
    "num.standby.replicas": (0, 2),
    "task.offset.interval.ms": (15_000, INT_MAX),
    "num.warmup.replicas": (0, 20),
}


def _broker_defaults() -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, definition in GROUP_CONFIGS.items():
        least, most = _BOUNDS.get(name.split(".", 1)[1], (None, None))
        for key, value in (
            (definition.broker_key, definition.default),
            (definition.least_key, least),
            (definition.most_key, most),
        ):
            if key is not None:
                values[key] = value
    values["group.streams.assignors"] = ("sticky",)
    return values


BROKER_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(_broker_defaults())
"""Kafka's defaults of the broker's configs that those of groups depend on."""


def check_group_configs(texts: Mapping[str, str], broker: BrokerValue) -> None:
    """Whether a group's configs may be these; ConfigError with Kafka's answer, in its order.

    Only what is set is checked against the bounds; that a session is longer than a heartbeat
    interval is checked of the values in force, if one of the two is set.
    """
    for name in texts:
        if name not in GROUP_CONFIGS:
            raise _refused(name, texts[name], f"Unknown group config name: {name}")
    _check_tags(texts)
    values = {name: GROUP_CONFIGS[name].parse(text) for name, text in texts.items()}
    for name, definition in GROUP_CONFIGS.items():
        if name in values:
            _check_bounds(definition, values[name], broker)
    assignor = values.get("streams.assignor.name")
    known = broker("group.streams.assignors")
    if assignor is not None and assignor not in known:
        raise _refused(
            "streams.assignor.name",
            assignor,
            f"streams.assignor.name '{assignor}' is not a registered task assignor."
            f" Registered assignors are: [{', '.join(known)}].",
        )
    for kind in ("consumer", "share", "streams"):
        _check_session(values, kind, broker)
    topic = "errors.deadletterqueue.topic.name"
    if values.get(topic, "").startswith("__"):
        raise _refused(topic, values[topic], f"{topic}: DLQ topic name must not start with '__'")


def _check_tags(texts: Mapping[str, str]) -> None:
    name = "streams.rack.aware.assignment.tags"
    tags = [tag.strip() for tag in texts.get(name, "").split(",") if tag.strip()]
    if len(set(tags)) < len(tags):
        raise _refused(name, texts[name], f"{name} must not contain duplicate tag keys.")


def _check_bounds(definition: GroupConfigDef, value: int, broker: BrokerValue) -> None:
    name = definition.name
    least = None if definition.least_key is None else broker(definition.least_key)
    most = None if definition.most_key is None else broker(definition.most_key)
    if least is not None and most is not None:
        if not least <= value <= most:
            raise _refused(name, value, f"{name} must be in the range {least} to {most} inclusive.")
    elif least is not None and value < least:
        raise _refused(name, value, f"{name} must be greater than or equal to {least}")
    elif most is not None and value > most:
        raise _refused(name, value, f"{name} must be less than or equal to {most}")


def _check_session(values: Mapping[str, Any], kind: str, broker: BrokerValue) -> None:
    session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    if session not in values and heartbeat not in values:
        return
    timeout_ms = values.get(session, broker(f"group.{session}"))
    if timeout_ms <= values.get(heartbeat, broker(f"group.{heartbeat}")):
        raise _refused(session, timeout_ms, f"{session} must be greater than {heartbeat}")


def _refused(name: str, value: object, answer: str) -> ConfigError:
    return ConfigError(name, value, answer, answer)


def clamped(definition: GroupConfigDef, value: Any, broker: BrokerValue) -> Any:
    """The value, or the broker's bound that it is beyond."""
    if definition.most_key is not None:
        value = min(value, broker(definition.most_key))
    if definition.least_key is not None:
        value = max(value, broker(definition.least_key))
    return value
