"""docs/MIGRATING.md names methods that its classes have, ours and those of other libraries."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.admin

import fencepost.client
from fencepost.client.config import KNOWN, ClientConfig

from ..in_turn import in_turn

PAGE = Path(__file__).resolve().parents[2] / "docs" / "MIGRATING.md"
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
NAME = re.compile(r"`([\w.]+)`")
LIBRARIES: dict[str, tuple[Any, ...]] = {
    "kafka-python": (kafka, kafka.admin),
    "aiokafka": (aiokafka, aiokafka.admin),
    "confluent-kafka": (confluent_kafka, confluent_kafka.admin),
    "Fencepost": (fencepost.client,),
}


def tables() -> list[list[list[str]]]:
    """The rows of each table, as cells."""
    found = []
    for match in TABLE.finditer(PAGE.read_text()):
        rows = [line.strip("|").split("|") for line in match[0].splitlines()]
        found.append([[cell.strip() for cell in row] for row in rows if "---" not in row[0]])
    return found


def class_of(heading: str) -> Any:
    """The class that a heading names; None for Java's."""
    library, _, name = heading.rpartition(" ")
    if library == "Java":
        return None
    places = LIBRARIES[library or "Fencepost"]
    name = name.strip("`")
    return next(getattr(place, name) for place in places if hasattr(place, name))


METHODS = [
    (heading, row[column])
    for header, *rows in tables()
    if "`" in header[0]
    for column, heading in enumerate(header)
    for row in rows
    if row[column]
]


@in_turn("heading, cell", METHODS)
def test_a_class_has_the_method(heading: str, cell: str) -> None:
    cls = class_of(heading)
    (name,) = NAME.findall(cell)
    if cls is None:
        return
    if name == "acquisition_lock_timeout_ms":
        settings = {"group_id": "g"}
        cls = cls(fencepost.client.Cluster("h:1", **settings))
    assert hasattr(cls, name)


def test_every_table_was_read() -> None:
    assert len(METHODS) > 150
    assert len(tables()) == 6


def test_settings_are_those_of_kafka_under_their_own_names() -> None:
    header, *rows = tables()[0]
    assert header[-1] == "Fencepost"
    for theirs, plain, ours in rows[1:]:
        name = ours.strip("`")
        assert theirs in ("", ours)
        assert hasattr(ClientConfig(), name)
        assert KNOWN[plain.strip("`")].attribute == name
