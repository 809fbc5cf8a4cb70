"""Our classes against digests of Kafka's schema files, where the files themselves are not at hand.

It always runs, and says that something differs but not what: `test_schema_conformance` does, with
`FENCEPOST_REFERENCE`. There, too, the digests are held against the files; `FENCEPOST_REWRITE=1`
rewrites them.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from fencepost.wire.message import VersionRange

from ..in_turn import in_turn
from .catalogue import RELEASED
from .schema_digests import SchemaLine, digest_of_class, digest_of_schema, keep, kept_lines
from .test_schema_conformance import COMPARED, REFERENCE, compared, schemas, settled_versions

LINES = kept_lines()
CLASSES: dict[str, Any] = {cls.kafka_name: cls for cls in RELEASED}


def test_every_message_has_its_digest() -> None:
    assert LINES.keys() == {cls.kafka_name for cls in COMPARED}
    assert all(line.versions for line in LINES.values())


@in_turn("cls", COMPARED)
def test_every_version_is_as_in_kafkas_schema(cls: Any) -> None:
    line = LINES[cls.kafka_name]
    assert cls.min_version <= line.first_version
    assert line.last_version <= cls.max_version
    assert digest_of_class(cls, line.versions) == line.digest, f"see {line.release}"


FIELD = {"name": "MaxWaitMs", "type": "int32", "versions": "0+"}


@pytest.mark.parametrize(
    "change",
    [
        {"name": "MaxWait"},
        {"type": "int64"},
        {"versions": "1+"},
        {"default": "-1"},
        {"ignorable": True},
        {"nullableVersions": "0+"},
        {"tag": 0, "taggedVersions": "0+"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_changed_field_changes_the_digest(change: dict[str, Any]) -> None:
    def digest(field: dict[str, Any]) -> str:
        schema = {"apiKey": 1, "type": "request", "fields": [field]}
        return digest_of_schema(schema, [], 1, range(2))

    assert digest(FIELD | change) != digest(FIELD)


def test_a_digest_is_over_the_versions_it_names() -> None:
    cls = CLASSES["FetchRequest"]
    digests = {digest_of_class(cls, range(first, 13)) for first in range(4, 13)}
    assert len(digests) == 9


@pytest.mark.skipif(REFERENCE is None, reason="FENCEPOST_REFERENCE does not name Kafka's schemas")
def test_the_digests_are_those_of_kafkas_files() -> None:
    lines = [_line_of_schema(cls) for cls in COMPARED]
    if os.environ.get("FENCEPOST_REWRITE"):
        keep(lines)
    assert kept_lines() == {line.name: line for line in lines}


def _line_of_schema(cls: Any) -> SchemaLine:
    release = compared(cls)[-1]
    schema = schemas(release)[cls.kafka_name]
    versions = settled_versions(cls.kafka_name, release)
    flexible = VersionRange.parse(schema["flexibleVersions"])
    digest = digest_of_schema(
        schema,
        [version for version in versions if flexible.holds(version)],
        cls.record_id if cls.api_key is None else cls.api_key,
        versions,
    )
    return SchemaLine(cls.kafka_name, release, versions.start, versions.stop - 1, digest)
