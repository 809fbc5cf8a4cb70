"""The same bytes, read and written back by kio and by kafka-python.

Both know most requests and responses from schemas of their own. What we write, they must read to
the end and write back unchanged, at every version that both sides have.
"""

from __future__ import annotations

import importlib
import io
from typing import Any

import pytest

from fencepost.wire import api
from fencepost.wire.message import Field, Struct
from fencepost.wire.types import RANGES, Primitive, Uuid

from .catalogue import version_id

kio_serial = pytest.importorskip("kio.serial")
kafka_api_message = pytest.importorskip("kafka.protocol.api_message")

PAIRS = [
    (cls, version)
    for key in sorted(api.API_NAMES)
    for cls in (api.request_class(key), api.response_class(key))
    for version in range(cls.min_version, cls.max_version + 1)
]


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
    module = cls.__module__.rpartition(".")[2]
    try:
        found = importlib.import_module(f"kio.schema.{module}.v{version}.{cls.kind}")
    except ModuleNotFoundError:
        pytest.skip("not in kio")
    return getattr(found, cls.__name__)


@pytest.mark.parametrize(("cls", "version"), PAIRS, ids=version_id)
def test_kio_agrees(cls: Any, version: int) -> None:
    theirs = kio_class(cls, version)
    read, write = kio_serial.entity_reader(theirs), kio_serial.entity_writer(theirs)
    for nulls in (False, True):
        data = typical(cls, version, nulls=nulls).encode(version)
        message, size = read(data, 0)
        assert size == len(data)
        buffer = io.BytesIO()
        write(buffer, message)
        assert buffer.getvalue() == data


def kafka_python_class(cls: Any, version: int) -> Any:
    for area in ("metadata", "producer", "consumer", "admin", "sasl"):
        module = importlib.import_module(f"kafka.protocol.{area}")
        if hasattr(module, cls.__name__):
            theirs = getattr(module, cls.__name__)
            if version > theirs.max_version or version < theirs.min_version:
                pytest.skip("version not in kafka-python")
            return theirs
    return pytest.skip("not in kafka-python")


@pytest.mark.parametrize(("cls", "version"), PAIRS, ids=version_id)
def test_kafka_python_agrees(cls: Any, version: int) -> None:
    theirs = kafka_python_class(cls, version)
    for nulls in (False, True):
        ours = typical(cls, version, nulls=nulls)
        if cls is api.ApiVersionsResponse:
            ours.error_code = 0  # with an error it reads any version as version 0, rightly
        data = ours.encode(version)
        message = theirs.decode(data, version=version)
        message._header = None  # which decoding without a header forgets, and encoding looks for
        assert bytes(message.encode()) == data
