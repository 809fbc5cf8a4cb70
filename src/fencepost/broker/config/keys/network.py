"""Sockets, connections, and the threads that Kafka serves them with."""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.endpoints import parse_host_limits
from fencepost.broker.config.keys.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    LIST,
    LONG,
    PER_BROKER,
    STRING,
    BrokerConfigDef,
    honoured,
    unused,
)
from fencepost.log.configdef import INT_MAX, Validator, at_least, distinct, one_of


def _are_host_limits(text: str) -> bool:
    try:
        parse_host_limits(text)
    except ValueError:
        return False
    return True


_SOCKETS = (
    honoured(
        "listeners",
        LIST,
        ("PLAINTEXT://127.0.0.1:9092",),
        distinct(),
        "Where to listen, NAME://HOST:PORT; port 0 picks a free one, an empty host is every one.",
        PER_BROKER,
    ),
    honoured(
        "advertised.listeners",
        LIST,
        None,
        distinct(),
        "Addresses that clients get, if they differ from `listeners`.",
    ),
    honoured(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        None,
        "Security protocol of each listener: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
        PER_BROKER,
    ),
    honoured(
        "inter.broker.listener.name",
        STRING,
        None,
        None,
        "Listener that brokers use among themselves; PLAINTEXT, or the first, if not set.",
    ),
    honoured(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "In place of inter.broker.listener.name, where listeners are named after their protocols.",
    ),
    honoured(
        "early.start.listeners",
        LIST,
        None,
        distinct(may_be_empty=True),
        "Listeners that serve before it is known what clients may do; controllers' if not set.",
    ),
    honoured(
        "fencepost.allow.anonymous.listeners",
        BOOLEAN,
        False,
        None,
        "Whether listeners that other machines can reach may do without a login.",
    ),
    honoured(
        "socket.request.max.bytes", INT, 104_857_600, at_least(1), "Largest request, in bytes."
    ),
    honoured("socket.send.buffer.bytes", INT, -1, at_least(-1), "SO_SNDBUF; -1: system's choice."),
    honoured(
        "socket.receive.buffer.bytes", INT, -1, at_least(-1), "SO_RCVBUF; -1: system's choice."
    ),
    honoured(
        "socket.listen.backlog.size", INT, 512, at_least(1), "Connections waiting for accept."
    ),
    honoured("max.connections", INT, 4096, at_least(0), "Connections open at once.", CLUSTER_WIDE),
    honoured(
        "max.connections.per.ip",
        INT,
        INT_MAX,
        at_least(0),
        "Connections from one address.",
        CLUSTER_WIDE,
    ),
    honoured(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        Validator("ADDRESS:NUMBER,ADDRESS:NUMBER", _are_host_limits),
        "max.connections.per.ip of single IP addresses.",
        CLUSTER_WIDE,
    ),
    honoured(
        "max.connection.creation.rate",
        INT,
        INT_MAX,
        at_least(0),
        "New connections served per second; more of them wait, and after 10 s worth are refused.",
        CLUSTER_WIDE,
    ),
    honoured(
        "connections.max.idle.ms",
        LONG,
        600_000,
        at_least(-1),
        "Connections on which nothing happens for so long are closed; -1: never.",
    ),
    honoured(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        at_least(0),
        "How long a connection that failed to authenticate is held before it is closed.",
    ),
    honoured(
        "max.request.partition.size.limit",
        INT,
        2000,
        at_least(1),
        "Most partitions in one DescribeTopicPartitions answer.",
    ),
    honoured(
        "request.timeout.ms",
        INT,
        30_000,
        None,
        "How long a transaction's marker may wait for the in-sync replicas.",
    ),
)

_UNUSED = (
    unused(
        "background.threads",
        INT,
        10,
        at_least(1),
        "Threads for Kafka's background work; here each kind of work has its own.",
        CLUSTER_WIDE,
    ),
    unused(
        "controller.socket.timeout.ms",
        INT,
        30_000,
        None,
        "Socket timeout of requests to the controller.",
    ),
    unused(
        "num.io.threads",
        INT,
        8,
        at_least(1),
        "Threads that handle requests in Kafka; here one event loop does.",
        CLUSTER_WIDE,
    ),
    unused(
        "num.network.threads",
        INT,
        3,
        at_least(1),
        "Threads that read and write sockets in Kafka; here one event loop does.",
        CLUSTER_WIDE,
    ),
    unused(
        "queued.max.request.bytes",
        LONG,
        -1,
        None,
        "Bytes of requests that may wait for Kafka's I/O threads.",
    ),
    unused(
        "queued.max.requests",
        INT,
        500,
        at_least(1),
        "Requests that may wait for Kafka's I/O threads.",
    ),
    unused(
        "socket.connection.setup.timeout.max.ms",
        LONG,
        30_000,
        None,
        "Longest wait for a connection to another node, after repeated failures.",
    ),
    unused(
        "socket.connection.setup.timeout.ms",
        LONG,
        10_000,
        None,
        "First wait for a connection to another node.",
    ),
)

KEYS: Final[tuple[BrokerConfigDef, ...]] = (*_SOCKETS, *_UNUSED)
"""See the module."""
