"""Our codec against the classes that Apache Kafka generates for itself, on the same bytes.

Two releases together know nearly every version there ever was: 4.4.0, and the clients of 3.9.1,
the last that still had the versions of before 2020 and of ZooKeeper. What we write they must read
to the end, write back unchanged, and take for what we meant, field by field.
"""

from __future__ import annotations

import base64
import json
import math
from functools import cache
from typing import Any

import pytest

from fencepost.wire.message import Field, Message, Struct
from fencepost.wire.types import Primitive, Uuid

from ..wire.catalogue import RELEASED, extreme, version_id
from ..wire.test_peers import typical
from .apache import KAFKA
from .conftest import jars_or_skip
from .maven import JarSet
from .oracle import PROGRAMS, ask

pytestmark = [pytest.mark.interop, pytest.mark.slow]

OLD_CLIENTS = JarSet(
    "kafka-clients-3.9.1",
    (
        "org.apache.kafka:kafka-clients:3.9.1",
        "com.fasterxml.jackson.core:jackson-databind:2.16.2",
        "com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.16.2",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
)
UNSTABLE_THEN = {("ReadShareGroupStateSummaryResponse", OLD_CLIENTS.name)}
"""Early access in that release, and changed afterwards."""

RECORDS_NAMES = {"records", "recordsSizeInBytes", "unalignedRecords", "unalignedRecordsSizeInBytes"}
IN_NEITHER = {
    "ShareGroupPartitionMetadataKey 0",  # between the two
    "ShareGroupPartitionMetadataValue 0",
}

KINDS_WITH_SUFFIX = {"request", "response", "header"}


@cache
def questions() -> list[tuple[Any, int, bytes, Any]]:
    """Every class at every version: ordinary values, nulls, the least and the most of all."""
    found = []
    for cls in RELEASED:
        for version in range(cls.min_version, cls.max_version + 1):
            flexible = cls.is_flexible(version)
            for message in (
                typical(cls, version, nulls=False),
                typical(cls, version, nulls=True),
                extreme(cls, version, flexible, most=False),
                extreme(cls, version, flexible, most=True),
            ):
                found.append((cls, version, message.encode(version), message))
    return found


def java_name(cls: type[Message]) -> str:
    """What Kafka calls the class it generates for the message."""
    return cls.kafka_name + ("Data" if cls.kind in KINDS_WITH_SUFFIX else "")


def answers_of(jars: JarSet, asked: list[tuple[Any, int, bytes, Any]]) -> list[str]:
    """The oracle's answers, one per question."""
    lines = [f"{java_name(cls)} {version} {body.hex()}" for cls, version, body, _ in asked]
    said = ask(PROGRAMS / "MessageOracle.java", jars=jars, questions=lines).splitlines()
    assert len(said) == len(asked)
    return said


def meant(struct: Struct, version: int) -> dict[str, Any]:
    """The object as Kafka's own JSON has it: tagged fields only where they say something."""
    found: dict[str, Any] = {}
    for field in type(struct).fields:
        if not field.versions.holds(version):
            continue
        value = getattr(struct, field.name)
        if field.tag is not None and field.tagged.holds(version) and field.is_default(value):
            continue
        if field.primitive is Primitive.RECORDS and value is not None:
            continue  # Kafka writes an empty string, or their size
        name = field.kafka_name[0].lower() + field.kafka_name[1:]
        if field.is_array and value is not None:
            found[name] = [plain(field, element, version) for element in value]
        else:
            found[name] = plain(field, value, version)
    return found


def plain(field: Field, value: Any, version: int) -> Any:
    """One value, or one element of an array, in JSON."""
    if value is None:
        return None
    if isinstance(value, Struct):
        return meant(value, version)
    if isinstance(value, Uuid):
        return str(value)
    if field.primitive is Primitive.BYTES:
        return base64.b64encode(value).decode()
    if field.primitive is Primitive.FLOAT64 and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def without_records(said: Any) -> Any:
    """Kafka's JSON without what it says about records."""
    if isinstance(said, list):
        return [without_records(element) for element in said]
    if isinstance(said, dict):
        return {
            name: without_records(value)
            for name, value in said.items()
            if value is None or name not in RECORDS_NAMES
        }
    return said


def without_names(said: Any) -> Any:
    """Values in order: an older release may have had another name for a field."""
    if isinstance(said, dict):
        return [without_names(value) for value in said.values()]
    return [without_names(element) for element in said] if isinstance(said, list) else said


@pytest.fixture(scope="module")
def answers(kafka_jars: JarSet) -> dict[str, list[str]]:
    """What each release says to `questions`."""
    releases = (kafka_jars, jars_or_skip(OLD_CLIENTS))
    return {jars.name: answers_of(jars, questions()) for jars in releases}


@pytest.mark.parametrize("cls", RELEASED, ids=version_id)
def test_kafkas_classes_agree(cls: Any, answers: dict[str, list[str]]) -> None:
    known = 0
    for release, said in answers.items():
        for (asked, version, body, message), answer in zip(questions(), said, strict=True):
            if asked is not cls or answer == "NONE" or (cls.kafka_name, release) in UNSTABLE_THEN:
                continue
            known += 1
            verdict, _, rest = answer.partition(" ")
            assert verdict == "OK", (version, answer)
            written, _, seen = rest.partition(" ")
            assert written == body.hex(), version
            theirs, ours = without_records(json.loads(seen)), meant(message, version)
            if release != KAFKA.name:
                theirs, ours = without_names(theirs), without_names(ours)
            assert theirs == ours, version
    if not known:
        pytest.skip(f"neither {' nor '.join(answers)} has any version of it")


def test_what_neither_release_knows(answers: dict[str, list[str]]) -> None:
    unknown = {
        f"{cls.kafka_name} {version}"
        for (cls, version, _, _), *said in zip(questions(), *answers.values(), strict=True)
        if set(said) == {"NONE"}
    }
    assert unknown == IN_NEITHER
