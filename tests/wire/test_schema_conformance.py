"""Our classes against Kafka's own schema files, version by version, for every declared class.

Our version ranges are the union of all releases; a release knows a part of them. For every version
a release knows, the fields that exist at that version must agree down to the last nested struct:
with the newest release that has the message in order, name, type, nullability, tag, default and
ignorability; with older ones in what is seen on the wire. Between releases Kafka has changed names
and what is ignorable, and given tagged fields to old versions.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fencepost.wire.message import Message, VersionRange
from fencepost.wire.types import Primitive, Uuid

from ..in_turn import in_turn
from .catalogue import RELEASED
from .schema_comparison import comparable, default_of_schema, ranges_agree

REFERENCE = os.environ.get("FENCEPOST_REFERENCE")
RELEASES = ("2024-10", "4.3", "trunk")
RENAMED = {
    f"ListClientMetricsResources{kind}": f"ListConfigResources{kind}"
    for kind in ("Request", "Response")
}
"""Names that are gone, and what Kafka calls the message since (KIP-1142)."""

IN_NO_SCHEMA_FILE = {
    "ProducerSnapshot",
    "RemoteLogSegmentMetadataRecord",
    "RemoteLogSegmentMetadataSnapshotRecord",
    "RemoteLogSegmentMetadataUpdateRecord",
    "RemotePartitionDeleteMetadataRecord",
}
"""Kafka declares these in its storage module, which the schema files at hand do not come from.
`test_classes_without_schema` has what is known of them."""

COMPARED = [cls for cls in RELEASED if cls.kafka_name not in IN_NO_SCHEMA_FILE]

pytestmark = pytest.mark.skipif(
    REFERENCE is None, reason="FENCEPOST_REFERENCE does not name Kafka's schema files"
)


@cache
def schemas(release: str) -> dict[str, Any]:
    """Schema by message name; `#` comments of Kafka's files are already gone from these."""
    assert REFERENCE is not None
    found = {}
    for path in sorted((Path(REFERENCE) / "schemas" / release).rglob("*.json")):
        schema = json.loads(path.read_text())
        if path.parent.name == "coordinator" and schema["type"] == "data":
            schema = with_record_type(schema)
        if schema["validVersions"] != "none":
            found[RENAMED.get(schema["name"], schema["name"])] = schema
    assert len(found) > 150
    return found


def with_record_type(schema: dict[str, Any]) -> dict[str, Any]:
    """A record of a coordinator's log from before 2025, as a later release would declare it.

    Until then the type of a record was written as the version of its key.
    """
    if schema["name"].endswith("Value"):
        return {**schema, "type": "coordinator-value"}
    record_type = VersionRange.parse(schema["validVersions"]).last
    assert record_type is not None
    fields = [
        {**field, "versions": "0"}
        for field in schema["fields"]
        if VersionRange.parse(field["versions"]).holds(record_type)
    ]
    kind = {"type": "coordinator-key", "apiKey": record_type, "validVersions": "0"}
    return {**schema, **kind, "fields": fields}


CHANGED_IN_PLACE = {
    "ShareGroupMetadataValue",
    "ShareGroupStatePartitionMetadataValue",
    "ShareSnapshotValue",
    "ShareUpdateValue",
}
"""Records of share groups, which were early access in 2024 and changed without a new version."""


def compared(cls: type[Message]) -> list[str]:
    """The releases to compare a class with."""
    releases = RELEASES[1:] if cls.kafka_name in CHANGED_IN_PLACE else RELEASES
    return [release for release in releases if cls.kafka_name in schemas(release)]


def settled_versions(name: str, release: str) -> range:
    """The versions of a message whose layout is final in a release.

    One that is still unstable may change before it is released. It is final after all when no later
    release has it: early access of share groups was numbered 0, and what was released begins at 1.
    """
    valid = VersionRange.parse(schemas(release)[name]["validVersions"])
    assert valid.last is not None
    request = schemas(release).get(f"{name.removesuffix('Response')}Request", {})
    unstable = {**request, **schemas(release)[name]}.get("latestVersionUnstable", False)
    later = [schemas(later) for later in RELEASES[RELEASES.index(release) + 1 :]]
    is_kept = any(
        VersionRange.parse(found[name]["validVersions"]).holds(valid.last)
        for found in later
        if name in found
    )
    return range(valid.first, valid.last + (not (unstable and is_kept)))


def test_every_class_is_one_of_kafkas() -> None:
    assert not [cls.kafka_name for cls in COMPARED if not compared(cls)]


def test_the_exceptions_are_in_no_schema_file() -> None:
    known = {name for release in RELEASES for name in schemas(release)}
    assert not known & IN_NO_SCHEMA_FILE
    assert {cls.kafka_name for cls in RELEASED} >= IN_NO_SCHEMA_FILE


@in_turn("cls", COMPARED)
def test_key_kind_and_ranges(cls: Any) -> None:
    assert cls.kind == schemas(compared(cls)[-1])[cls.kafka_name]["type"]
    for release in compared(cls):
        assert ranges_agree(cls, schemas(release)[cls.kafka_name]), release
    newest = schemas(compared(cls)[-1])[cls.kafka_name]
    if VersionRange.parse(newest["validVersions"]).last == cls.max_version:
        assert cls.latest_unstable == newest.get("latestVersionUnstable", False)


@in_turn("cls", COMPARED)
def test_fields_of_every_version(cls: Any) -> None:
    for release in compared(cls):
        schema = schemas(release)[cls.kafka_name]
        for version in settled_versions(cls.kafka_name, release):
            exactly = release == compared(cls)[-1]
            mine, kafkas = comparable(cls, schema, version, exactly=exactly)
            assert mine == kafkas, (release, version)


def test_zero_of_a_uuid_is_kafkas() -> None:
    assert default_of_schema({"type": "uuid"}, False) == Uuid.ZERO
    assert {primitive.value for primitive in Primitive} >= {"uuid", "records", "uint16"}
