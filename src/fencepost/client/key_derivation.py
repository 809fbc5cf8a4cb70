"""How much work it is to open what a password protects: a private key in PEM, a PKCS#12 file.

The key of the encryption is derived from the password by a function that is repeated as often as
the file says: up to 2^31 times, which takes OpenSSL half an hour in which nothing can stop it. So
the numbers are read before anything is derived, out of the file's ASN.1, and a file that asks for
more than `ROUNDS_MAX` in all is refused. Java opens no PKCS#12 file with more, either.

What is read is what OpenSSL reads, and more: BER as well as DER, and lengths that are longer than
they need to be. What cannot be read here has no numbers, and OpenSSL refuses it. Not looked at is
what is inside an encrypted part: keys are encrypted once.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from typing import Final, NamedTuple

ROUNDS_MAX: Final = 5_000_000
"""Some seconds of one core. `openssl` writes 2,048, keytool 10,000."""
DEPTH_MAX: Final = 40
ELEMENTS_MAX: Final = 100_000

_SEQUENCE: Final = 0x30
_OCTETS: Final = 0x04
_OID: Final = 0x06
_INTEGER: Final = 0x02
_CONSTRUCTED: Final = 0x20
_PARTS: Final = _OCTETS | _CONSTRUCTED
"""An octet string in parts, as BER has it."""
_INDEFINITE: Final = 0x80
_PBKDF2: Final = bytes.fromhex("2a864886f70d01050c")
_SCRYPT: Final = bytes.fromhex("2b06010401da47040b")
_PKCS5: Final = bytes.fromhex("2a864886f70d0105")
_PKCS12: Final = bytes.fromhex("2a864886f70d010c01")
"""What the identifiers of PBES1 and of PKCS#12's own schemes begin with: one byte more follows."""
_MAC_ROUNDS_AT: Final = 2


class TooMuchWorkError(ValueError):
    """Opening it would take too long; the text says what it asks for."""


class _Element(NamedTuple):
    tag: int
    content: bytes
    """Empty where there are `children`."""
    children: list[_Element]

    @property
    def number(self) -> int:
        """The value of an integer."""
        return int.from_bytes(self.content, "big") if self.tag == _INTEGER else 0


def check_pem_key(key: str) -> None:
    """Refuse a private key in PEM that takes too long to decrypt. TooMuchWorkError.

    The older form, whose headers name a cipher, derives its key in one round.
    """
    lines = [line for line in key.splitlines() if line and "-----" not in line and ":" not in line]
    try:
        data = binascii.a2b_base64("".join(lines))
    except ValueError:
        return  # no key: OpenSSL says so
    _check(data)


def check_pkcs12(data: bytes) -> None:
    """Refuse a PKCS#12 file that takes too long to open. TooMuchWorkError."""
    _check(data)


def _check(data: bytes) -> None:
    reader = _Reader()
    elements = reader.elements(data, DEPTH_MAX)
    rounds = _mac_rounds(elements) + sum(map(_rounds_of, _all(elements)))
    if rounds > ROUNDS_MAX:
        raise TooMuchWorkError(
            f"at most {ROUNDS_MAX} iterations to derive keys from the password; this has {rounds}"
        )


class _Reader:
    """Reads elements, as far as there are any; what is behind them is not looked at."""

    def __init__(self) -> None:
        self._left = ELEMENTS_MAX

    def elements(self, data: bytes, depth: int) -> list[_Element]:
        """The elements that `data` begins with. TooMuchWorkError."""
        found, _ = self._elements(data, 0, len(data), depth)
        return found

    def _elements(self, data: bytes, at: int, end: int, depth: int) -> tuple[list[_Element], int]:
        """Those from `at` on, and where they end: behind the mark of an end, if there is one."""
        found: list[_Element] = []
        while at < end:
            if data[at : at + 2] == b"\0\0":
                return found, at + 2
            read = self._element(data, at, end, depth)
            if read is None:
                break
            element, at = read
            found.append(element)
        return found, at

    def _element(self, data: bytes, at: int, end: int, depth: int) -> tuple[_Element, int] | None:
        self._left -= 1
        if not depth or self._left < 0:
            raise TooMuchWorkError("a file of fewer elements, and not so deep in each other")
        tag = data[at]
        start = at + 1
        if tag & 0x1F == 0x1F:  # its number is in the bytes that follow
            while start < end and data[start] & 0x80:
                start += 1
            start += 1
        if start >= end:
            return None
        length, start = data[start], start + 1
        if length == _INDEFINITE:
            children, after = self._elements(data, start, end, depth - 1)
            return self._made(tag, b"", children, depth), after
        if length & 0x80:
            count = length & 0x7F
            length = int.from_bytes(data[start : start + count], "big")
            start += count
        after = start + length
        if after > end:
            return None
        if tag & _CONSTRUCTED:
            children, _ = self._elements(data, start, after, depth - 1)
            return self._made(tag, b"", children, depth), after
        return self._made(tag, data[start:after], [], depth), after

    def _made(self, tag: int, content: bytes, children: list[_Element], depth: int) -> _Element:
        """The element; what an octet string holds is read as well."""
        if tag == _PARTS:
            content = b"".join(one.content for one in children)
        if tag in (_OCTETS, _PARTS) and content[:1] == bytes([_SEQUENCE]):
            children = self.elements(content, depth - 1)
        return _Element(tag, content, children)


def _all(elements: list[_Element]) -> Iterator[_Element]:
    waiting = list(elements)
    while waiting:
        element = waiting.pop()
        yield element
        waiting += element.children


def _rounds_of(element: _Element) -> int:
    """How often a function is repeated, if the element names one that derives keys."""
    parts = element.children
    if element.tag != _SEQUENCE or len(parts) < 2 or parts[0].tag != _OID:
        return 0
    name, numbers = parts[0].content, [one.number for one in parts[1].children]
    if name == _SCRYPT and len(numbers) >= 4:
        return numbers[1] * numbers[2] * numbers[3]
    if len(numbers) >= 2 and (name == _PBKDF2 or name[:-1] in (_PKCS5, _PKCS12)):
        return numbers[1]
    return 0


def _mac_rounds(elements: list[_Element]) -> int:
    """How often PKCS#12 repeats the function that the key of its checksum is derived by."""
    parts = elements[0].children if elements else []
    mac = parts[_MAC_ROUNDS_AT].children if len(parts) > _MAC_ROUNDS_AT else []
    return mac[_MAC_ROUNDS_AT].number if len(mac) > _MAC_ROUNDS_AT else 0
