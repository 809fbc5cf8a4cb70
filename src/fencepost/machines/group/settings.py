"""`GroupSettings`: what holds for a group of each type, by its own configs and the broker's.

A group's config goes before the broker's for all groups (`configs`). A stored value that is out of
the broker's bounds counts as the nearest bound, and one that does not read (another version wrote
it) as none.

The keys are in the comments, without the type that they begin with; defaults are Kafka's 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct

from fencepost.log.configdef import ConfigError
from fencepost.machines.group.configs import (
    BROKER_DEFAULTS,
    GROUP_CONFIGS,
    BrokerValue,
    GroupConfigDef,
    check_group_configs,
    clamped,
)
from fencepost.machines.image import RESOURCE_GROUP, ClusterImage


class ConsumerSettings(Struct, frozen=True):
    """Of a consumer group (KIP-848): `consumer.`."""

    session_timeout_ms: int = 45_000  # session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # assignment.interval.ms (KIP-1263)


class ShareSettings(Struct, frozen=True):
    """Of a share group (KIP-932): `share.`, and `errors.deadletterqueue.` (KIP-1191)."""

    session_timeout_ms: int = 45_000  # session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # assignment.interval.ms
    record_lock_duration_ms: int = 30_000  # record.lock.duration.ms
    delivery_count_limit: int = 5  # delivery.count.limit
    partition_max_record_locks: int = 2_000  # partition.max.record.locks
    auto_offset_reset: str = "latest"  # auto.offset.reset
    isolation_level: str = "read_uncommitted"  # isolation.level
    renew_acknowledge_enable: bool = True  # renew.acknowledge.enable
    dead_letter_topic: str = ""  # errors.deadletterqueue.topic.name
    dead_letter_copy_record_enable: bool = False  # errors.deadletterqueue.copy.record.enable


class StreamsSettings(Struct, frozen=True):
    """Of a streams group (KIP-1071): `streams.`."""

    session_timeout_ms: int = 45_000  # session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # assignment.interval.ms
    num_standby_replicas: int = 0  # num.standby.replicas
    initial_rebalance_delay_ms: int = 3_000  # initial.rebalance.delay.ms
    rack_aware_assignment_tags: tuple[str, ...] = ()  # rack.aware.assignment.tags
    assignor_name: str | None = None  # assignor.name; None: the broker's first
    task_offset_interval_ms: int = 60_000  # task.offset.interval.ms
    acceptable_recovery_lag: int = 10_000  # acceptable.recovery.lag


_DEAD_LETTER_FIELDS: Final = {
    "dead_letter_topic": "errors.deadletterqueue.topic.name",
    "dead_letter_copy_record_enable": "errors.deadletterqueue.copy.record.enable",
}


def _rows(cls: type[Struct], kind: str) -> tuple[tuple[str, GroupConfigDef], ...]:
    """The fields of a class of settings, and the config of each."""
    return tuple(
        (
            field,
            GROUP_CONFIGS[_DEAD_LETTER_FIELDS.get(field, f"{kind}.{field.replace('_', '.')}")],
        )
        for field in cls.__struct_fields__
    )


_CONSUMER: Final = _rows(ConsumerSettings, "consumer")
_SHARE: Final = _rows(ShareSettings, "share")
_STREAMS: Final = _rows(StreamsSettings, "streams")


S = TypeVar("S", bound=Struct)


class GroupSettings:
    """Reads the settings of groups from the image and the broker's configs.

    `broker` gives the value of a broker's config of now; without it they are Kafka's defaults. It
    changes with the image alone: what was read is kept until that is another one.
    """

    def __init__(self, broker: BrokerValue = BROKER_DEFAULTS.__getitem__) -> None:
        self._broker = broker
        self._image: ClusterImage | None = None
        self._known: dict[tuple[type[Struct], str | None], Any] = {}

    def consumer(self, image: ClusterImage, group_id: str) -> ConsumerSettings:
        """What holds for the consumer group now; it need not exist."""
        return self._settings(ConsumerSettings, _CONSUMER, image, group_id)

    def share(self, image: ClusterImage, group_id: str) -> ShareSettings:
        """What holds for the share group now; it need not exist."""
        return self._settings(ShareSettings, _SHARE, image, group_id)

    def streams(self, image: ClusterImage, group_id: str) -> StreamsSettings:
        """What holds for the streams group now; it need not exist."""
        return self._settings(StreamsSettings, _STREAMS, image, group_id)

    def check(self, texts: Mapping[str, str]) -> None:
        """Whether all configs of a group may be these. ConfigError, with Kafka's answer."""
        check_group_configs(texts, self._broker)

    def _settings(
        self,
        cls: type[S],
        rows: tuple[tuple[str, GroupConfigDef], ...],
        image: ClusterImage,
        group_id: str,
    ) -> S:
        if image is not self._image:
            self._image = image
            self._known.clear()
        stored = image.configs_of(RESOURCE_GROUP, group_id)
        key = cls, group_id if stored else None  # the same for all groups without configs
        known = self._known.get(key)
        if known is None:
            values = {field: self._value(definition, stored) for field, definition in rows}
            known = self._known[key] = cls(**values)
        settings: S = known
        return settings

    def _value(self, definition: GroupConfigDef, stored: Mapping[str, str]) -> Any:
        text = stored.get(definition.name)
        if text is not None:
            try:
                return clamped(definition, definition.parse(text), self._broker)
            except ConfigError:
                pass
        if definition.broker_key is None or definition.name == "streams.assignor.name":
            return definition.default
        return self._broker(definition.broker_key)
