"""Schemas as texts of JSON, read within bounds."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from fencepost.testing.registry.errors import SCHEMA_TOO_LARGE, RegistryError, invalid_schema

SCHEMA_BYTES_MAX: Final = 1 << 20
"""Confluent's registry refuses about as much by default: a record of its topic."""
DEPTH_MAX: Final = 100
"""Arrays and objects within each other."""


def check_size(text: str) -> None:
    """RegistryError for a schema of more than SCHEMA_BYTES_MAX."""
    size = len(text.encode(errors="surrogatepass"))
    if size > SCHEMA_BYTES_MAX:
        raise RegistryError(
            SCHEMA_TOO_LARGE, f"The schema has {size} bytes, more than {SCHEMA_BYTES_MAX}"
        )


def read_json(text: str) -> Any:
    """The value. RegistryError for no JSON, or values more than DEPTH_MAX deep in each other."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise invalid_schema(f"no JSON: {type(error).__name__}: {error}") from error
    level: list[Any] = [value]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return value
    raise invalid_schema(f"values are more than {DEPTH_MAX} deep in each other")


def compact(value: Any, *, sort_keys: bool = False) -> str:
    """JSON text without white space."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=sort_keys)


def same_key(value: Any) -> str:
    """Equal for values that are equal by JSON Schema: 1 is 1.0, true is not 1."""
    return compact(_whole(value), sort_keys=True)


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _whole(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_whole(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is out of range")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
