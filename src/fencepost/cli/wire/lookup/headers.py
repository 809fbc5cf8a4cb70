"""Which version of the header stands before a message."""

from __future__ import annotations

from fencepost.wire.header import request_header_version, response_header_version
from fencepost.wire.message import Message


def request_header_of(cls: type[Message], version: int) -> int:
    """The version of the header before requests of `cls`' API at `version`."""
    assert cls.api_key is not None
    return request_header_version(cls.api_key, version, is_flexible=cls.is_flexible(version))


def response_header_of(cls: type[Message], version: int) -> int:
    """The version of the header before responses of `cls`' API at `version`."""
    assert cls.api_key is not None
    return response_header_version(cls.api_key, is_flexible=cls.is_flexible(version))
