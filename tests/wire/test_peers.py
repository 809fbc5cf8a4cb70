"""The same bytes, read and written back by kio and by kafka-python.

Both know most requests and responses from schemas of their own. What we write, they must read to
the end and write back unchanged, at every version that both sides have.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.wire import api
from fencepost.wire.message import Field, Message, Struct
from fencepost.wire.types import RANGES, Primitive, Uuid

from .every_version import at, versions

kio_serial = pytest.importorskip("kio.serial")
kafka_api_message = pytest.importorskip("kafka.protocol.api_message")

CLASSES = [
    cls
    for key in sorted(api.API_NAMES)
    for cls in (api.request_class(key), api.response_class(key))
]
PAIRS = [(cls, version) for cls in CLASSES for version in versions(cls)]


def typical(cls: type[Struct], version: int, *, nulls: bool) -> Any:
    """An object with every field set to something ordinary; no tags that peers may not keep."""
    return cls(
        **{
            field.name: _value(field, version, nulls)
            for field in cls.fields
            if field.versions.holds(version)
        }
    )


def _value(field: Field, version: int, nulls: bool) -> Any:
    if nulls and field.nullable.holds(version):
        return None
    if field.is_array:
        return [_single(field, version, nulls) for _ in range(2)]
    return _single(field, version, nulls)


def _single(field: Field, version: int, nulls: bool) -> Any:
    if field.struct is not None:
        return typical(field.struct, version, nulls=nulls)
    assert field.primitive is not None
    if field.primitive in RANGES:
        return 3
    return {
        Primitive.BOOL: True,
        Primitive.FLOAT64: 0.5,
        Primitive.UUID: Uuid(bytes(range(16))),
        Primitive.STRING: "text",
        Primitive.BYTES: b"\x00\xff",
        Primitive.RECORDS: bytes(61),
    }[field.primitive]


def kio_class(cls: Any, version: int) -> Any:
    """None where kio does not have it."""
    module = cls.__module__.rpartition(".")[2]
    try:
        found = importlib.import_module(f"kio.schema.{module}.v{version}.{cls.kind}")
    except ModuleNotFoundError:
        return None
    return getattr(found, cls.__name__)


def for_each_known(
    find: Callable[[type[Message], int], Any], check: Callable[[Any, Any, int], None]
) -> None:
    """Check every message at each version that a peer has; it may not have all of them."""
    known = 0
    for cls in CLASSES:
        for version in versions(cls):
            if theirs := find(cls, version):
                known += 1
                with at(version, cls):
                    check(theirs, cls, version)
    assert known > len(PAIRS) / 2


def test_kio_agrees() -> None:
    for_each_known(kio_class, check_kio_agrees)


def check_kio_agrees(theirs: Any, cls: Any, version: int) -> None:
    read, write = kio_serial.entity_reader(theirs), kio_serial.entity_writer(theirs)
    for nulls in (False, True):
        data = typical(cls, version, nulls=nulls).encode(version)
        message, size = read(data, 0)
        assert size == len(data)
        buffer = io.BytesIO()
        write(buffer, message)
        assert buffer.getvalue() == data


def kafka_python_class(cls: Any, version: int) -> Any:
    """None where kafka-python does not have it."""
    for area in ("metadata", "producer", "consumer", "admin", "sasl"):
        module = importlib.import_module(f"kafka.protocol.{area}")
        if hasattr(module, cls.__name__):
            theirs = getattr(module, cls.__name__)
            return theirs if theirs.min_version <= version <= theirs.max_version else None
    return None


def test_kafka_python_agrees() -> None:
    for_each_known(kafka_python_class, check_kafka_python_agrees)


def check_kafka_python_agrees(theirs: Any, cls: Any, version: int) -> None:
    for nulls in (False, True):
        ours = typical(cls, version, nulls=nulls)
        if cls is api.ApiVersionsResponse:
            ours.error_code = 0  # with an error it reads any version as version 0, rightly
        data = ours.encode(version)
        message = theirs.decode(data, version=version)
        message._header = None  # which decoding without a header forgets, and encoding looks for
        assert bytes(message.encode()) == data
