"""What must hold for any bytes given to any message class, as one function for a fuzzer.

The two backends and the slow interpreter have to agree on whether the bytes are a message, on which
message they are, and on how it is written. Nothing but DecodeError may come out of a decoder.
"""

from __future__ import annotations

from typing import Any

from fencepost.wire.errors import DecodeError
from fencepost.wire.message import Message

from ..wire import interpreter
from ..wire.catalogue import CODECS, VERSIONS, codec, extreme
from ..wire.test_hostile import same
from ..wire.test_peers import typical

INDEX_BYTES = 2
LONGEST_SEED_BYTES = 1500
BY_NAME = {(cls.__name__, version): (cls, version) for cls, version in VERSIONS}


def chosen(data: bytes) -> tuple[type[Message], int, bytes]:
    """The class and version that the first two bytes pick, and the rest."""
    index = int.from_bytes(data[:INDEX_BYTES], "big") % len(VERSIONS)
    return *VERSIONS[index], data[INDEX_BYTES:]


def as_input(message: Message, version: int) -> bytes:
    """What `chosen` takes for the message."""
    index = VERSIONS.index((type(message), version))
    return index.to_bytes(INDEX_BYTES, "big") + message.encode(version)


def check(cls: type[Message], version: int, body: bytes) -> Message | None:
    """AssertionError when something does not hold; else the message, if the bytes are one.

    Any other exception is a mistake just as well.
    """
    expected = _outcome(interpreter.read_message, cls, body, version)
    for name in CODECS:
        machine = codec(name, cls, version)
        for source in (body, memoryview(bytearray(body))):
            got = _outcome(machine.decode, source)
            assert same(got, expected), (name, cls.__name__, version)
        if expected is not None:
            written = machine.encode(got)
            assert written == interpreter.write_message(expected, version), name
            assert same(machine.decode(written), expected), name
    return expected


def _outcome(decode: Any, *arguments: Any) -> Any:
    try:
        return decode(*arguments)
    except (DecodeError, interpreter.Bad):
        return None


def seeds() -> list[bytes]:
    """Short inputs for the first and the last version of each class: ordinary, nulls, the most."""
    found = []
    for cls, version in VERSIONS:
        if version not in (cls.min_version, cls.max_version):
            continue
        for message in (
            typical(cls, version, nulls=False),
            typical(cls, version, nulls=True),
            extreme(cls, version, cls.is_flexible(version), most=True),
        ):
            data = as_input(message, version)
            if len(data) <= LONGEST_SEED_BYTES:
                found.append(data)
    return found
