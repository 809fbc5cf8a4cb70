"""Metrics, telemetry of clients, and the samples that quotas are measured by."""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    CLASS,
    CLUSTER_WIDE,
    INT,
    LIST,
    LONG,
    STRING,
    BrokerConfigDef,
    default_only,
    honoured,
    unused,
)
from fencepost.log.configdef import at_least, distinct

_OWN = (
    honoured(
        "fencepost.metrics.listener",
        STRING,
        None,
        None,
        "Where metrics, health and readiness are served over HTTP: PORT (of 127.0.0.1) or"
        " HOST:PORT. Nothing is measured if it is not set.",
    ),
    honoured(
        "fencepost.metrics.topics.max",
        INT,
        1_000,
        at_least(0),
        "Most topics with series of their own.",
    ),
    honoured(
        "fencepost.metrics.partitions.max",
        INT,
        1_000,
        at_least(0),
        "Most partitions with series of their own.",
    ),
)

_UNUSED = (
    unused(
        "kafka.metrics.polling.interval.secs",
        INT,
        10,
        at_least(1),
        "How often Yammer reporters read metrics.",
    ),
    unused(
        "kafka.metrics.reporters",
        LIST,
        (),
        distinct(may_be_empty=True),
        "Yammer reporters, Java classes.",
    ),
    unused(
        "metric.reporters",
        LIST,
        ("org.apache.kafka.common.metrics.JmxReporter",),
        distinct(may_be_empty=True),
        "Reporters of metrics, Java classes.",
        CLUSTER_WIDE,
    ),
    unused("metrics.num.samples", INT, 2, at_least(1), "Samples of each metric."),
    unused("metrics.recording.level", STRING, "INFO", None, "Level from which sensors record."),
    unused("metrics.sample.window.ms", LONG, 30_000, at_least(1), "Length of each sample."),
    unused("telemetry.max.bytes", INT, 1_048_576, at_least(1), "Largest metrics push of a client."),
)

_QUOTAS = (
    unused(
        "alter.log.dirs.replication.quota.window.num",
        INT,
        11,
        at_least(1),
        "Samples of the quota on moves between directories.",
    ),
    unused(
        "alter.log.dirs.replication.quota.window.size.seconds",
        INT,
        1,
        at_least(1),
        "Length of each of them.",
    ),
    honoured(
        "controller.quota.window.num",
        INT,
        11,
        at_least(1),
        "Samples of the quota on partitions that change.",
    ),
    honoured(
        "controller.quota.window.size.seconds", INT, 1, at_least(1), "Length of each of them."
    ),
    honoured("quota.window.num", INT, 11, at_least(1), "Samples of client quotas."),
    honoured("quota.window.size.seconds", INT, 1, at_least(1), "Length of each of them."),
)

_THROTTLES = (
    honoured(
        "replication.quota.window.num", INT, 11, at_least(1), "Samples of replication quotas."
    ),
    honoured(
        "replication.quota.window.size.seconds", INT, 1, at_least(1), "Length of each of them."
    ),
)

_REFUSED = (
    default_only("client.quota.callback.class", CLASS, None, "Java classes cannot be loaded here"),
)

KEYS: Final[tuple[BrokerConfigDef, ...]] = (*_OWN, *_UNUSED, *_QUOTAS, *_THROTTLES, *_REFUSED)
"""See the module."""
