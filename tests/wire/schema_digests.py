"""What Kafka's schema files say of a message, as one line that can be kept here.

The files themselves are not part of this project. A line names the message, the newest release that
has it, the versions whose layout is settled there, and a digest of everything the release says of
them: key, kind, flexible versions, and each field's name, type, nullability, tag, default and
ignorability, down to the last nested struct.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from .schema_comparison import rows_of_class, rows_of_schema

KEPT_IN = Path(__file__).with_name("kafka_schemas.tsv")


class SchemaLine(NamedTuple):
    """One message as one release knows it."""

    name: str
    release: str
    first_version: int
    last_version: int
    digest: str

    @property
    def versions(self) -> range:
        """The versions that the digest is over."""
        return range(self.first_version, self.last_version + 1)


def kept_lines() -> dict[str, SchemaLine]:
    """The lines of the file, by message."""
    lines = [line.split("\t") for line in KEPT_IN.read_text().splitlines()]
    return {
        name: SchemaLine(name, release, int(first), int(last), digest)
        for name, release, first, last, digest in lines
    }


def keep(lines: list[SchemaLine]) -> None:
    """Rewrite the file."""
    KEPT_IN.write_text("".join("\t".join(map(str, line)) + "\n" for line in sorted(lines)))


def digest_of_class(cls: Any, versions: range) -> str:
    """The digest as our class has it."""
    identifier = cls.record_id if cls.api_key is None else cls.api_key
    flexible = [version for version in versions if cls.is_flexible(version)]
    return _digest(identifier, cls.kind, flexible, [rows_of_class(cls, one) for one in versions])


def digest_of_schema(schema: Any, flexible: list[int], identifier: Any, versions: range) -> str:
    """The digest as a schema file has it, which may be silent about key and flexible versions."""
    rows = [rows_of_schema(schema, one) for one in versions]
    return _digest(schema.get("apiKey", identifier), schema["type"], flexible, rows)


def _digest(identifier: Any, kind: str, flexible: list[int], rows: list[Any]) -> str:
    facts = json.dumps([identifier, kind, flexible, _spelled(rows)], sort_keys=True)
    return hashlib.sha256(facts.encode()).hexdigest()[:16]


def _spelled(value: Any) -> Any:
    """What is equal is spelled alike: False and 0, a UUID and its bytes."""
    if isinstance(value, list):
        return [_spelled(one) for one in value]
    if isinstance(value, dict):
        return {key: _spelled(one) for key, one in value.items()}
    if isinstance(value, bytes):
        return bytes(value).hex()
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return int(value) if isinstance(value, bool) else value
