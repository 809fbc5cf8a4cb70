"""The codecs that the benchmark compares, each found by the name of the message."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.codec import java
from benchmarks.codec.messages import Case
from fencepost.wire.generated import GeneratedCodec
from fencepost.wire.layout import layout_of

try:
    from fencepost.wire._codec import CompiledCodec
except ImportError:
    CompiledCodec = None

BASE = "kafka-python"
"""The contestant whose time the others' are divided into."""

NAMES = [BASE, "kio", "aiokafka", "fencepost python", "fencepost c", java.NAME]

OURS = {
    "fencepost python": GeneratedCodec,
    **({} if CompiledCodec is None else {"fencepost c": CompiledCodec}),
}


class Contestant(NamedTuple):
    """One codec, ready to read and write one message; the calls are those of a program."""

    name: str
    prepare: Callable[[], None]
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], Any]


def kio_reader() -> str:
    """Which decoder kio uses here; its encoder is Python in any case."""
    serial = importlib.import_module("kio.serial")
    try:
        native = importlib.import_module("kio._kio_native")
    except ImportError:
        return "Python"
    return "Rust" if serial.entity_reader is native.entity_reader else "Python"


def contestants(case: Case) -> list[Contestant]:
    """Those that know the message at its version, in the order of `NAMES`."""
    others = (_kafka_python(case), _kio(case), _aiokafka(case))
    found = [contestant for contestant in others if contestant is not None]
    found += [_ours(name, codec, case) for name, codec in OURS.items()]
    return found


def _nothing() -> None:
    pass


def _kafka_python(case: Case) -> Contestant | None:
    name = type(case.message).__name__
    for area in ("metadata", "producer", "consumer", "admin"):
        theirs = getattr(importlib.import_module(f"kafka.protocol.{area}"), name, None)
        if theirs is not None and theirs.min_version <= case.version <= theirs.max_version:
            break
    else:
        return None

    def encode(message: Any) -> Any:
        return message.encode()  # at the version it was decoded with

    return Contestant(
        BASE, _nothing, lambda data: theirs.decode(data, version=case.version), encode
    )


def _kio(case: Case) -> Contestant | None:
    cls: Any = type(case.message)
    module = cls.__module__.rpartition(".")[2]
    try:
        schema = importlib.import_module(f"kio.schema.{module}.v{case.version}.{cls.kind}")
    except ModuleNotFoundError:
        return None
    serial = importlib.import_module("kio.serial")
    theirs = getattr(schema, cls.__name__)
    read, write = serial.entity_reader(theirs), serial.entity_writer(theirs)

    def encode(message: Any) -> bytes:
        buffer = io.BytesIO()
        write(buffer, message)
        return buffer.getvalue()

    return Contestant("kio", _nothing, lambda data: read(data, 0)[0], encode)


def _aiokafka(case: Case) -> Contestant | None:
    name = type(case.message).__name__.replace("ApiVersions", "ApiVersion")
    for module in ("metadata", "produce", "fetch", "group", "commit", "admin"):
        protocol = importlib.import_module(f"aiokafka.protocol.{module}")
        theirs = getattr(protocol, f"{name}_v{case.version}", None)
        if theirs is not None:
            return Contestant("aiokafka", _nothing, theirs.decode, lambda message: message.encode())
    return None


def _ours(name: str, codec: Any, case: Case) -> Contestant:
    cls: Any = type(case.message)
    made = codec(layout_of(cls, case.version, cls.is_flexible(case.version)))

    def prepare() -> None:
        cls._codecs[case.version] = made

    return Contestant(
        name,
        prepare,
        lambda data: cls.decode(data, case.version),
        lambda message: message.encode(case.version),
    )
