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

from fencepost.wire.message import Message, Struct, VersionRange
from fencepost.wire.types import Primitive, Uuid

from .catalogue import RELEASED, version_id

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


def theirs(fields: list[Any], version: int, structs: dict[str, Any]) -> list[Any]:
    """What a schema says about one version, in comparable form."""
    rows = []
    for field in fields:
        versions = field.get("versions", field.get("taggedVersions"))
        if not VersionRange.parse(versions).holds(version):
            continue
        type_name = field["type"]
        element = type_name.removeprefix("[]")
        is_struct = element[0].isupper()
        nullable = VersionRange.parse(field.get("nullableVersions", "none")).holds(version)
        is_tagged = VersionRange.parse(field.get("taggedVersions", "none")).holds(version)
        row = {
            "name": field["name"],
            "type": type_name,
            "nullable": nullable,
            "tag": int(field["tag"]) if is_tagged else None,
            "default": their_default(field, is_struct),
            "ignorable": field.get("ignorable", False),
            "flexible": VersionRange.parse(field.get("flexibleVersions", "0+")).holds(version),
        }
        if is_struct:
            inner = field.get("fields") or structs[element]
            row["fields"] = theirs(inner, version, structs)
        rows.append(row)
    return rows


def their_default(field: Any, is_struct: bool) -> Any:
    default, kind = field.get("default", MISSING), field["type"]
    if default in ("null", None):
        return None
    if kind.startswith("[]") or is_struct:
        assert default is MISSING
        return "empty"
    if kind in ("string", "bytes", "records", "uuid"):
        zero = {"string": "", "uuid": bytes(16)}.get(kind, b"")
        return zero if default in (MISSING, "") else default
    if default is MISSING:
        return 0
    if kind == "bool":
        return str(default).lower() == "true"
    if kind == "float64":
        return float(default)
    return int(str(default), 0)


MISSING = object()


def ours(cls: Any, version: int) -> list[Any]:
    rows = []
    for field in cls.fields:
        if not field.versions.holds(version):
            continue
        is_tagged = field.tag is not None and field.tagged.holds(version)
        default = field.fresh_default()
        row = {
            "name": field.kafka_name,
            "type": field.type,
            "nullable": field.nullable.holds(version),
            "tag": field.tag if is_tagged else None,
            "default": "empty" if default == [] or isinstance(default, Struct) else default,
            "ignorable": field.ignorable,
            "flexible": field.flexible.holds(version),
        }
        if field.struct is not None:
            row["fields"] = ours(field.struct, version)
        rows.append(row)
    return rows


@pytest.mark.parametrize("cls", COMPARED, ids=version_id)
def test_every_class_is_one_of_kafkas(cls: Any) -> None:
    assert compared(cls), f"{cls.kafka_name} is in no release"


def test_the_exceptions_are_in_no_schema_file() -> None:
    known = {name for release in RELEASES for name in schemas(release)}
    assert not known & IN_NO_SCHEMA_FILE
    assert {cls.kafka_name for cls in RELEASED} >= IN_NO_SCHEMA_FILE


@pytest.mark.parametrize("cls", COMPARED, ids=version_id)
def test_key_kind_and_ranges(cls: Any) -> None:
    assert cls.kind == schemas(compared(cls)[-1])[cls.kafka_name]["type"]
    for release in compared(cls):
        schema = schemas(release)[cls.kafka_name]
        identifier = cls.record_id if cls.api_key is None else cls.api_key
        assert identifier == schema.get("apiKey", identifier)
        valid = VersionRange.parse(schema["validVersions"])
        assert cls.min_version <= valid.first
        assert valid.last <= cls.max_version
        flexible = VersionRange.parse(schema["flexibleVersions"])
        for version in range(valid.first, valid.last + 1):
            assert cls.is_flexible(version) == flexible.holds(version), version
    newest = schemas(compared(cls)[-1])[cls.kafka_name]
    if VersionRange.parse(newest["validVersions"]).last == cls.max_version:
        assert cls.latest_unstable == newest.get("latestVersionUnstable", False)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("cls", COMPARED, ids=version_id)
def test_fields_of_every_version(cls: Any, release: str) -> None:
    if release not in compared(cls):
        pytest.skip(f"not in {release}")
    schema = schemas(release)[cls.kafka_name]
    structs = {common["name"]: common["fields"] for common in schema.get("commonStructs", [])}

    def collect(fields: Any) -> None:
        for field in fields:
            if "fields" in field:
                structs[field["type"].removeprefix("[]")] = field["fields"]
                collect(field["fields"])

    collect(schema["fields"])
    is_newest = release == compared(cls)[-1]
    for version in settled_versions(cls.kafka_name, release):
        mine, kafkas = ours(cls, version), theirs(schema["fields"], version, structs)
        if not is_newest:
            mine, kafkas = on_the_wire(mine, kafkas), on_the_wire(kafkas, kafkas)
        assert mine == kafkas, version


def on_the_wire(rows: list[Any], known: list[Any]) -> list[Any]:
    """What bytes show of `rows`, without tagged fields that the older release `known` lacks."""
    plain = [row for row in known if row["tag"] is None]
    by_tag = {row["tag"]: row for row in known if row["tag"] is not None}
    kept = []
    for row in rows:
        if row["tag"] is None:
            counterpart = plain.pop(0) if plain else {}
        elif row["tag"] in by_tag:
            counterpart = by_tag[row["tag"]]
        else:
            continue
        seen = {key: row[key] for key in ("nullable", "tag", "flexible")}
        seen["type"] = row["type"].startswith("[]") if "fields" in row else row["type"]
        if row["tag"] is not None:
            seen["default"] = row["default"]
        if "fields" in row:
            seen["fields"] = on_the_wire(row["fields"], counterpart.get("fields", []))
        kept.append(seen)
    return kept


def test_zero_of_a_uuid_is_kafkas() -> None:
    assert their_default({"type": "uuid"}, False) == Uuid.ZERO
    assert {primitive.value for primitive in Primitive} >= {"uuid", "records", "uint16"}
