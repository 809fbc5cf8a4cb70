"""`throttle_time_ms` in a response that is encoded already.

Responses that are made as bytes (Fetch, Produce, Metadata) have 0 there. The field is the first of
the body, or the last in Produce's, so its place is known without decoding what is in between.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from fencepost.broker.net.writer import Buffer
from fencepost.wire.frame import response_head_bytes
from fencepost.wire.message import Message

_TIME: Final = Struct(">i")
_FIELD: Final = "throttle_time_ms"


def with_throttle_time(
    kind: type[Message], version: int, parts: list[Buffer], throttle_time_ms: int
) -> list[Buffer]:
    """The frame of a response of this kind in parts, length included, with the time filled in, in
    milliseconds, if the version has the field. ValueError if that is neither first nor last.

    Records are copied only where they share a part with the field.
    """
    names = [one.name for one in kind.fields if one.tag is None and one.versions.holds(version)]
    if _FIELD not in names:
        return parts
    if names[0] == _FIELD:
        at = response_head_bytes(kind, version)
        first = _merged(parts, at + _TIME.size)
        _TIME.pack_into(first, at, throttle_time_ms)
        return [first, *parts[_count_until(parts, at + _TIME.size) :]]
    if names[-1] == _FIELD:
        behind = int(kind.is_flexible(version))
        whole = _merged(parts, sum(map(len, parts)))
        if behind and whole[-1]:
            raise ValueError(f"{kind.__name__} v{version} ends with tagged fields")
        _TIME.pack_into(whole, len(whole) - behind - _TIME.size, throttle_time_ms)
        return [whole]
    raise ValueError(f"{kind.__name__} v{version} has its throttle time in between")


def _count_until(parts: list[Buffer], size_bytes: int) -> int:
    """How many parts have the first so many bytes."""
    count = 0
    while size_bytes > 0:
        size_bytes -= len(parts[count])
        count += 1
    return count


def _merged(parts: list[Buffer], size_bytes: int) -> bytearray:
    """The parts that have the first so many bytes, as one."""
    return bytearray().join(parts[: _count_until(parts, size_bytes)])
