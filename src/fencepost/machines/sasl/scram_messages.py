"""The messages of SCRAM that a client sends (RFC 5802, section 7), as bytes that were received.

Kafka's grammar: everything is ASCII without NUL, there is no channel binding, and extensions have
names of letters. The pieces that both sides sign are kept as they came, so that what is signed is
what was sent. Stricter than Kafka, as the RFC has it: an extension that must be understood (`m=`)
is refused.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from typing import Final

from msgspec import Struct

MESSAGE_BYTES_MAX: Final = 16 * 1024
"""Of one message; what a connection that is not logged in yet makes the server keep."""
_SASL_NAME: Final = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE: Final = rb"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE: Final = rb"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS: Final = rb"(?:,[A-Za-z]+=" + _VALUE + rb")*"
_BASE64: Final = rb"[A-Za-z0-9/+]+={0,2}"
_FIRST: Final = re.compile(
    rb"(?P<header>n,(?:a=(?P<identity>" + _SASL_NAME + rb"))?,)"
    rb"(?P<bare>n=(?P<name>" + _SASL_NAME + rb"),r=(?P<nonce>" + _PRINTABLE + rb")"
    rb"(?P<extensions>" + _EXTENSIONS + rb"))"
)
_FINAL: Final = re.compile(
    rb"(?P<signed>c=(?P<binding>" + _BASE64 + rb"),r=(?P<nonce>" + _PRINTABLE + rb")"
    rb"" + _EXTENSIONS + rb"),p=(?P<proof>" + _BASE64 + rb")"
)


class ScramMessageError(ValueError):
    """Bytes that are no such message; the text does not repeat them."""


class ClientFirst(Struct, frozen=True):
    """What a client begins with."""

    header: bytes
    """The GS2 header, which the client repeats in its last message."""
    bare: bytes
    """The message without the header; it is signed."""
    identity: str
    """Who the client wants to act as; empty for the user itself."""
    user: str
    nonce: bytes
    extensions: dict[str, str]


class ClientFinal(Struct, frozen=True):
    """What a client ends with."""

    signed: bytes
    """The message without its proof; it is signed."""
    binding: bytes
    """The GS2 header again."""
    nonce: bytes
    proof: bytes


def read_client_first(message: bytes) -> ClientFirst:
    """Read the first message. ScramMessageError."""
    found = _match(_FIRST, message, "client-first-message")
    pairs = [one.partition(b"=") for one in found["extensions"].split(b",") if one]
    return ClientFirst(
        found["header"],
        found["bare"],
        _name(found["identity"] or b""),
        _name(found["name"]),
        found["nonce"],
        {key.decode(): value.decode() for key, _, value in pairs},
    )


def read_client_final(message: bytes) -> ClientFinal:
    """Read the last message. ScramMessageError."""
    found = _match(_FINAL, message, "client-final-message")
    binding, proof = _decoded(found["binding"]), _decoded(found["proof"])
    return ClientFinal(found["signed"], binding, found["nonce"], proof)


def _decoded(text: bytes) -> bytes:
    """Base64 in its one form: no bits are left over."""
    with contextlib.suppress(binascii.Error):
        decoded = base64.b64decode(text, validate=True)
        if base64.b64encode(decoded) == text:
            return decoded
    raise ScramMessageError("the client-final-message has base64 that is none")


def _match(pattern: re.Pattern[bytes], message: bytes, name: str) -> re.Match[bytes]:
    if len(message) > MESSAGE_BYTES_MAX:
        raise ScramMessageError(f"the {name} is over {MESSAGE_BYTES_MAX} bytes")
    found = pattern.fullmatch(message)
    if found is None:
        raise ScramMessageError(f"this is no {name}")
    return found


def _name(sasl_name: bytes) -> str:
    return sasl_name.decode().replace("=2C", ",").replace("=3D", "=")
