"""The node itself: its id and roles, its place in the cluster, and what is its operator's alone."""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    BOOLEAN,
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
from fencepost.broker.config.quorum_config import ROLES
from fencepost.log.configdef import LONG_MAX, Validator, at_least, between, distinct, one_of

_CLASSES = "Java classes cannot be loaded here"
_UNSTABLE = "no unreleased feature is served"

_NODE = (
    honoured("node.id", INT, 1, at_least(0), "Number of this node in its cluster."),
    honoured(
        "unstable.api.versions.enable",
        BOOLEAN,
        False,
        None,
        "Whether versions of APIs are served that Kafka may still change: InitProducerId v6.",
        internal=True,
    ),
    honoured("broker.id", INT, 1, at_least(0), "Older name of node.id."),
    honoured(
        "process.roles",
        LIST,
        ("broker", "controller"),
        Validator(
            "broker, controller, or both",
            lambda roles: set(roles) <= set(ROLES) and 0 < len(roles) == len(set(roles)),
        ),
        "What this process is: it holds topics, votes and decides, or both.",
    ),
    honoured("broker.rack", STRING, None, None, "Rack of this node, for replica placement."),
    honoured("log.dirs", LIST, None, distinct(), "The data directories, separated by commas."),
    honoured("log.dir", LIST, ("fencepost-data",), distinct(), "Likewise, if log.dirs is not set."),
    honoured(
        "metadata.log.dir",
        STRING,
        None,
        None,
        "Directory of the metadata log; the first of log.dirs if not set.",
    ),
    honoured(
        "fencepost.accept.loss",
        LIST,
        (),
        None,
        "Partitions (topic-index) that may be opened although durable records of theirs are lost,"
        " or made again, empty, although their only copy is.",
    ),
    honoured(
        "fencepost.event.loop",
        STRING,
        "auto",
        one_of("auto", "asyncio", "uvloop"),
        "The event loop; auto takes uvloop where it is installed.",
    ),
    honoured(
        "fencepost.log.format",
        STRING,
        "text",
        one_of("text", "json"),
        "Lines of the log: text, or a JSON object each (time, level, logger, message, exception).",
    ),
)

_CONTROLLER = (
    honoured("broker.heartbeat.interval.ms", INT, 2000, at_least(1), "Between two heartbeats."),
    honoured(
        "broker.session.timeout.ms", INT, 9000, at_least(1), "A silent broker is fenced then."
    ),
    honoured(
        "fencepost.broker.probe.interval.ms",
        INT,
        100,
        between(0, 60_000),
        "How long the controller waits between two attempts to connect to a broker whose connection"
        " is gone; one that refuses twice is fenced at once. 0: only when its session ends.",
    ),
    honoured(
        "initial.broker.registration.timeout.ms",
        INT,
        60_000,
        at_least(1),
        "How long a starting broker looks for a controller that takes it.",
    ),
    honoured(
        "log.dir.failure.timeout.ms",
        LONG,
        30_000,
        at_least(1),
        "How long a broker tries to report a failed directory before it stops.",
    ),
    honoured(
        "unclean.leader.election.interval.ms",
        LONG,
        300_000,
        at_least(1),
        "How often the active controller looks for partitions that need an unclean election.",
        internal=True,
    ),
    honoured(
        "metadata.max.idle.interval.ms",
        INT,
        500,
        at_least(0),
        "How long the log of several voters goes without a record; 0 for as long as it may be.",
    ),
)

_UNUSED = (
    unused(
        "controlled.shutdown.enable",
        BOOLEAN,
        True,
        None,
        "Whether a stopping broker hands its partitions over first; here it always asks to.",
    ),
    unused(
        "server.max.startup.time.ms",
        LONG,
        LONG_MAX,
        at_least(0),
        "How long a start may take.",
        internal=True,
    ),
)

_REFUSED = (
    default_only("alter.config.policy.class.name", CLASS, None, _CLASSES),
    default_only("config.providers", LIST, (), _CLASSES, CLUSTER_WIDE),
    default_only("create.topic.policy.class.name", CLASS, None, _CLASSES),
    default_only("unstable.feature.versions.enable", BOOLEAN, False, _UNSTABLE, internal=True),
)

KEYS: Final[tuple[BrokerConfigDef, ...]] = (*_NODE, *_CONTROLLER, *_UNUSED, *_REFUSED)
"""See the module."""
