"""Who sent a request, as one node tells another: Kafka's built-in form of a principal.

Layout: an int16 version, then the message in its flexible form. The bytes travel in
`EnvelopeRequest.request_principal`, when a broker forwards what a client asked to the controller
(KIP-590). Delegation tokens name their owner by the same two strings.

Traps: the version stands before the message, and is no field of it; a cluster may run a principal
builder of its own, whose bytes are anything else.
"""

from __future__ import annotations

from struct import Struct as Layout

from fencepost.wire.errors import DecodeError
from fencepost.wire.message import Message, field
from fencepost.wire.types import Bool, Buffer, String

_VERSION = Layout(">h")


class DefaultPrincipalData(Message, kind="data", versions="0", flexible="0+"):
    """An authenticated client (KIP-590)."""

    type: String = field(doc="Kind of principal; `User` unless a custom principal builder made it.")
    name: String = field(doc="Its name; `ANONYMOUS` for clients that did not authenticate.")
    token_authenticated: Bool = field(
        doc="Whether it showed a delegation token, with which no further token can be had.",
    )


def encode_principal(principal: DefaultPrincipalData, version: int = 0) -> bytes:
    """The principal behind its version. EncodeError, UnsupportedVersionError."""
    body = principal.encode(version)  # first: it refuses what is no version
    return _VERSION.pack(version) + body


def decode_principal(data: Buffer) -> DefaultPrincipalData:
    """The principal in `data`; DecodeError for other versions, damage and bytes left over."""
    if len(data) < _VERSION.size:
        raise DecodeError(f"a principal of {len(data)} bytes has no version")
    (version,) = _VERSION.unpack_from(data)
    if not DefaultPrincipalData.min_version <= version <= DefaultPrincipalData.max_version:
        raise DecodeError(f"DefaultPrincipalData has no version {version}")
    principal, end = DefaultPrincipalData.read(data, _VERSION.size, version)
    if end != len(data):
        raise DecodeError(f"{len(data) - end} bytes follow a principal", position=end)
    return principal
