"""Headers: what stands between the length of a frame and its message.

    request    api_key i16 | api_version i16 | correlation_id i32 | client_id | [tags]
    response   correlation_id i32 | [tags]

| header | goes with | what it has |
|---|---|---|
| request v0 | ControlledShutdown v0 alone | no client id |
| request v1 | versions that are not flexible | client id: int16 length, -1 for null |
| request v2 | flexible versions | the same, and tagged fields |
| response v0 | versions that are not flexible, and ApiVersions always | correlation id |
| response v1 | flexible versions | the same, and tagged fields |

Traps:

* The client id is never compact, also not in the flexible v2 (KIP-482), so that a server can read
  it even from a request whose version it does not know.
* ApiVersions is answered under v0 at every version, because the client cannot know yet what the
  server understands (KIP-511); requests follow the common rule all the same.

Kafka has no tagged fields in headers so far. Those of strangers are kept in `unknown_tags`, as in
any other struct. `frame` chooses the version of a header and reads and writes whole frames.
"""

from __future__ import annotations

from typing import Final

from fencepost.wire.message import Message, field
from fencepost.wire.types import Int16, Int32, String

API_VERSIONS_KEY: Final = 18
CONTROLLED_SHUTDOWN_KEY: Final = 7


class RequestHeader(Message, kind="header", versions="0-2", flexible="2+"):
    """What stands before every request.

    v1 adds the client id, v2 is flexible, but for the client id (KIP-482). v0 went with Kafka 4.0.
    """

    request_api_key: Int16 = field(doc="Number of the API that is called.")
    request_api_version: Int16 = field(doc="Version of it that the request is written in.")
    correlation_id: Int32 = field(doc="Any number; the response has the same.")
    client_id: String | None = field(
        "1+",
        flexible="none",
        doc="How the client calls itself, for logs and quotas; null for nothing.",
    )


class ResponseHeader(Message, kind="header", versions="0-1", flexible="1+"):
    """What stands before every response; v1 is flexible (KIP-482)."""

    correlation_id: Int32 = field(doc="The number of the request that is answered.")


def request_header_version(api_key: int, api_version: int, *, is_flexible: bool) -> int:
    """The version of the header before a request; `is_flexible` is about the request's own."""
    if api_key == CONTROLLED_SHUTDOWN_KEY and api_version == 0:
        return 0
    return 2 if is_flexible else 1


def response_header_version(api_key: int | None, *, is_flexible: bool) -> int:
    """The version of the header before a response; `is_flexible` is about the response's own."""
    return 1 if is_flexible and api_key != API_VERSIONS_KEY else 0


def request_header_of(cls: type[Message], version: int) -> int:
    """The version of the header before requests of `cls`' API at `version`."""
    assert cls.api_key is not None
    return request_header_version(cls.api_key, version, is_flexible=cls.is_flexible(version))


def response_header_of(cls: type[Message], version: int) -> int:
    """The version of the header before responses of `cls`' API at `version`."""
    assert cls.api_key is not None
    return response_header_version(cls.api_key, is_flexible=cls.is_flexible(version))
