"""Our classes against the schema files that come with kafka-python, which are Kafka's own.

They are of one 4.x release, and of what a client needs. They are always at hand, so this proof runs
wherever the tests do, also where `test_schema_conformance` finds no files of whole releases.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fencepost.wire.message import VersionRange

from ..in_turn import in_turn
from .catalogue import RELEASED
from .schema_comparison import comparable, ranges_agree

resources = pytest.importorskip("kafka.protocol.schemas.resources")
schemas = pytest.importorskip("kafka.protocol.schemas")

pytestmark = pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")

NAMES = sorted(path.stem for path in Path(resources.__file__).parent.glob("*.json"))
CLASSES: dict[str, Any] = {cls.kafka_name: cls for cls in RELEASED}


def test_there_are_schemas() -> None:
    assert len(NAMES) > 100
    assert {"FetchRequest", "OffsetForLeaderEpochResponse", "RequestHeader"} <= set(NAMES)


@in_turn("name", NAMES)
def test_key_kind_and_ranges(name: str) -> None:
    schema, cls = schemas.load_json(name), CLASSES[name]
    assert cls.kind == schema["type"]
    assert ranges_agree(cls, schema)


@in_turn("name", NAMES)
def test_fields_of_every_version(name: str) -> None:
    schema, cls = schemas.load_json(name), CLASSES[name]
    valid = VersionRange.parse(schema["validVersions"])
    assert valid.last is not None
    for version in range(valid.first, valid.last + 1):
        # A later version may have changed what is ignorable in all of them.
        exactly = valid.last == cls.max_version
        mine, kafkas = comparable(cls, schema, version, exactly=exactly)
        assert mine == kafkas, version


def test_a_difference_is_found_out() -> None:
    cls, schema = CLASSES["FetchRequest"], schemas.load_json("FetchRequest")
    assert not ranges_agree(cls, {**schema, "flexibleVersions": "11+"})
    (waiting,) = [field for field in schema["fields"] if field["name"] == "MaxWaitMs"]
    waiting["type"] = "int64"
    mine, kafkas = comparable(cls, schema, 12, exactly=False)
    assert mine != kafkas
