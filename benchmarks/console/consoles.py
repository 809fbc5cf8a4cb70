"""The consoles that `looks.py` compares: how each one is started, and what it is asked at a look.

A program of another console is what its project releases, given by its path. Kafdrop makes pages on
the server, as ours does; the pages of AKHQ, Kafbat UI and Redpanda Console are made in the browser,
so a look there is the one request to the console's HTTP API that answers with what the look is for.
Lists are asked for whole. A look that a console does not have, or answers from a list that the
browser has already, is not among its requests.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

# The looks, and what has to be in an answer: an answer without it is not of this cluster.
LOOKS: Final[Mapping[str, bytes]] = {
    "topics": b"topic-007",
    "topics by a part of the name": b"topic-007",
    "a topic, with offsets": b"topic-000",
    "a topic's configs": b"segment.bytes",
    "records of a partition": b"number",
    "groups": b"group-07",
    "a group's lag": b"topic-000",
    "brokers": b"127.0.0.1",
    "a broker": b"topic-000",
    "configs of the brokers": b"log.segment.bytes",
}
JSON_STREAM: Final = "application/connect+json"


@dataclass(frozen=True)
class Request:
    """What a console is asked over HTTP: GET of a path, or POST if there is a body."""

    path: str
    body: bytes | None = None
    content_type: str = ""
    in_answer: bytes | None = None
    """What its answer has instead of what answers to the look have, where it is encoded."""


@dataclass(frozen=True)
class Start:
    """A command with what it needs besides: environment variables, and configuration files."""

    command: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[Path, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """What a console is started with: the cluster, its own port, its program, Java, a directory."""

    servers: str
    port: int
    program: Path
    java: str
    directory: Path


@dataclass(frozen=True)
class Kind:
    """A console that can be compared: its name, how it is started, and its request of each look."""

    name: str
    program: str
    start: Callable[[Place], Start]
    requests: Mapping[str, Request]


def start_fencepost(place: Place) -> Start:
    command = [str(place.program), "-m", "fencepost.cli.main", "console", "-b", place.servers]
    return Start([*command, "--port", str(place.port)])


def start_kafdrop(place: Place) -> Start:
    java = [place.java, "-jar", str(place.program), f"--kafka.brokerConnect={place.servers}"]
    ports = [f"--server.port={place.port}", f"--management.server.port={place.port}"]
    return Start([*java, *ports, "--server.address=127.0.0.1"])


def start_akhq(place: Place) -> Start:
    """Its API has no size of a page for groups and records, so the configuration has."""
    config = {
        "micronaut": {"server": {"host": "127.0.0.1", "port": place.port}},
        "endpoints": {"all": {"port": place.port}},
        "akhq": {
            "connections": {"local": {"properties": {"bootstrap.servers": place.servers}}},
            "pagination": {"page-size": 1000},
            "topic-data": {"size": 100},
        },
    }
    path = place.directory / "akhq.json"
    command = [place.java, f"-Dmicronaut.config.files={path}", "-jar", str(place.program)]
    return Start(command, files={path: json.dumps(config)})


def start_kafbat(place: Place) -> Start:
    cluster = "--kafka.clusters[0]"
    options = [
        "--server.address=127.0.0.1",
        f"--server.port={place.port}",
        f"{cluster}.name=local",
        f"{cluster}.bootstrapServers={place.servers}",
        "--github.release.info.enabled=false",  # it would ask another host for its newest release
    ]
    return Start([place.java, "-jar", str(place.program), *options])


def start_redpanda(place: Place) -> Start:
    """Without the frontend's files, which a look does not ask for."""
    environment = {
        "KAFKA_BROKERS": place.servers,
        "SERVER_LISTENADDRESS": "127.0.0.1",
        "SERVER_LISTENPORT": str(place.port),
        "SERVEFRONTEND": "false",
    }
    return Start([str(place.program)], environment)


def redpanda_records(topic: str, partition: int, records: int) -> Request:
    """Its records are a stream of flags, lengths and JSON, in which values are base64."""
    oldest = -2
    asked = {
        "topic": topic,
        "startOffset": str(oldest),
        "partitionId": partition,
        "maxResults": records,
    }
    body = json.dumps(asked).encode()
    path = "/redpanda.api.console.v1alpha1.ConsoleService/ListMessages"
    in_base64 = base64.b64encode(b'{"number"')
    return Request(path, struct.pack(">BI", 0, len(body)) + body, JSON_STREAM, in_base64)


def paths(given: Mapping[str, str]) -> dict[str, Request]:
    assert given.keys() <= LOOKS.keys()
    return {look: Request(path) for look, path in given.items()}


FENCEPOST: Final = Kind(
    "fencepost",
    "the Python that runs it",
    start_fencepost,
    paths(
        {
            "topics": "/topics?rows=1000",
            "topics by a part of the name": "/topics?rows=1000&filter=07",
            "a topic, with offsets": "/topics/topic-000?show=contents",
            "a topic's configs": "/configs?topic=topic-000&show=all",
            "records of a partition": (
                "/topics/topic-000/records?partitions=0&order=oldest&from=0&limit=100"
            ),
            "groups": "/groups?rows=1000",
            "a group's lag": "/groups/group-00",
            "brokers": "/brokers",
            "a broker": "/brokers/1",
            "configs of the brokers": "/configs?show=all",
        }
    ),
)

KAFDROP: Final = Kind(
    "kafdrop",
    "a jar of github.com/obsidiandynamics/kafdrop",
    start_kafdrop,
    paths(
        {
            "topics": "/",
            "a topic, with offsets": "/topic/topic-000",
            "a topic's configs": "/topic/topic-000",
            "records of a partition": (
                "/topic/topic-000/messages"
                "?partition=0&offset=0&count=100&keyFormat=DEFAULT&format=DEFAULT"
            ),
            "a group's lag": "/consumer/group-00",
            "brokers": "/",
            "a broker": "/broker/1",
        }
    ),
)

AKHQ: Final = Kind(
    "akhq",
    "a jar of github.com/tchiotludo/akhq",
    start_akhq,
    paths(
        {
            "topics": "/api/local/topic?uiPageSize=1000&show=ALL",
            "topics by a part of the name": ("/api/local/topic?uiPageSize=1000&show=ALL&search=07"),
            "a topic, with offsets": "/api/local/topic/topic-000",
            "a topic's configs": "/api/local/topic/topic-000/configs",
            "records of a partition": "/api/local/topic/topic-000/data?partition=0&sort=OLDEST",
            "groups": "/api/local/group",
            "a group's lag": "/api/local/group/group-00/offsets",
            "brokers": "/api/local/node",
            "a broker": "/api/local/node/1/logs",
            "configs of the brokers": "/api/local/node/1/configs",
        }
    ),
)

KAFBAT: Final = Kind(
    "kafbat",
    "a jar of github.com/kafbat/kafka-ui",
    start_kafbat,
    paths(
        {
            "topics": "/api/clusters/local/topics?page=1&perPage=1000",
            "topics by a part of the name": (
                "/api/clusters/local/topics?page=1&perPage=1000&search=07"
            ),
            "a topic, with offsets": "/api/clusters/local/topics/topic-000",
            "a topic's configs": "/api/clusters/local/topics/topic-000/config",
            "records of a partition": (
                "/api/clusters/local/topics/topic-000/messages/v2"
                "?mode=EARLIEST&partitions=0&limit=100"
            ),
            "groups": "/api/clusters/local/consumer-groups/paged?page=1&perPage=1000",
            "a group's lag": "/api/clusters/local/consumer-groups/group-00",
            "brokers": "/api/clusters/local/brokers",
            "a broker": "/api/clusters/local/brokers/logdirs?broker=1",
            "configs of the brokers": "/api/clusters/local/brokers/1/configs",
        }
    ),
)

REDPANDA: Final = Kind(
    "redpanda",
    "a program of github.com/redpanda-data/console",
    start_redpanda,
    {
        **paths(
            {
                "topics": "/api/topics",
                "a topic, with offsets": "/api/topics/topic-000/partitions",
                "a topic's configs": "/api/topics/topic-000/configuration",
                "groups": "/api/consumer-groups",
                "a group's lag": "/api/consumer-groups/group-00",
                "brokers": "/api/brokers",
                "configs of the brokers": "/api/brokers/1/config",
            }
        ),
        "records of a partition": redpanda_records("topic-000", 0, 100),
    },
)

OTHERS: Final = KAFDROP, AKHQ, KAFBAT, REDPANDA
