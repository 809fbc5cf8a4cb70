"""A message class and one of Kafka's JSON schemas, brought into one form that can be compared.

A row per field, at one version: name, type, nullability, tag, default, whether it is ignorable and
flexible, and the rows of its struct. Kafka changes names, and what is ignorable, between releases;
`on_the_wire` keeps only what bytes show.
"""

from __future__ import annotations

from typing import Any

from fencepost.wire.message import Struct, VersionRange

MISSING = object()


def rows_of_schema(schema: Any, version: int) -> list[Any]:
    """What a schema says about one version."""
    structs = {common["name"]: common["fields"] for common in schema.get("commonStructs", [])}

    def collect(fields: Any) -> None:
        for field in fields:
            if "fields" in field:
                structs[field["type"].removeprefix("[]")] = field["fields"]
                collect(field["fields"])

    collect(schema["fields"])
    return _theirs(schema["fields"], version, structs)


def _theirs(fields: list[Any], version: int, structs: dict[str, Any]) -> list[Any]:
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
            "default": default_of_schema(field, is_struct),
            "ignorable": field.get("ignorable", False),
            "flexible": VersionRange.parse(field.get("flexibleVersions", "0+")).holds(version),
        }
        if is_struct:
            inner = field.get("fields") or structs[element]
            row["fields"] = _theirs(inner, version, structs)
        rows.append(row)
    return rows


def default_of_schema(field: Any, is_struct: bool) -> Any:
    """The default of a schema's field, as one of our classes would hold it."""
    default, kind = field.get("default", MISSING), field["type"]
    if default is None and is_struct and not kind.startswith("[]"):
        return "empty"  # JSON's null is no default to Kafka's generator; the text "null" is one
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


def rows_of_class(cls: Any, version: int) -> list[Any]:
    """What a class says about one version."""
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
            row["fields"] = rows_of_class(field.struct, version)
        rows.append(row)
    return rows


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


def comparable(cls: Any, schema: Any, version: int, *, exactly: bool) -> tuple[Any, Any]:
    """What class and schema say about a version, which must be equal; all of it, if `exactly`."""
    mine, kafkas = rows_of_class(cls, version), rows_of_schema(schema, version)
    if exactly:
        return mine, kafkas
    return on_the_wire(mine, kafkas), on_the_wire(kafkas, kafkas)


def ranges_agree(cls: Any, schema: Any) -> bool:
    """Whether key, versions and flexible versions agree; a class may have more versions."""
    identifier = cls.record_id if cls.api_key is None else cls.api_key
    valid = VersionRange.parse(schema["validVersions"])
    assert valid.last is not None
    flexible = VersionRange.parse(schema["flexibleVersions"])
    return (
        identifier == schema.get("apiKey", identifier)
        and cls.min_version <= valid.first
        and valid.last <= cls.max_version
        and all(
            cls.is_flexible(version) == flexible.holds(version)
            for version in range(valid.first, valid.last + 1)
        )
    )
