"""What an X.509 certificate says of its subject, as Java writes it.

Principals, ACLs and `super.users` name the subject of a certificate in the form of Java's
`X500Principal.getName()`, which is RFC 2253 with choices of its own: relative names in reverse
order, nine attributes by their words and every other as `oid=#hex`, strings read as UTF-8 whatever
their type says. So it is written here from the certificate's bytes; OpenSSL's text has lost what
that takes. The bytes come from a peer whose certificate OpenSSL has verified, but nothing is
believed of them: each length is held against what is there.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

CERTIFICATE_BYTES_MAX: Final = 64 * 1024
"""No certificate that is read is longer."""

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OID: Final = 0x06
_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_OCTETS: Final = 0x04
_TIMES: Final = {0x17: 13, 0x18: 15}
"""UTCTime and GeneralizedTime, and how long they are in a certificate (RFC 5280, 4.1.2.5)."""
_SUBJECT_ALT_NAME: Final = bytes.fromhex("551d11")
_STRINGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString."""
_WORDS: Final = {
    bytes.fromhex("550403"): "CN",
    bytes.fromhex("550406"): "C",
    bytes.fromhex("550407"): "L",
    bytes.fromhex("550408"): "ST",
    bytes.fromhex("550409"): "STREET",
    bytes.fromhex("55040a"): "O",
    bytes.fromhex("55040b"): "OU",
    bytes.fromhex("0992268993f22c640119"): "DC",
    bytes.fromhex("0992268993f22c640101"): "UID",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')


class CertificateError(ValueError):
    """The bytes are no certificate that can be read."""


class Subject(Struct, frozen=True):
    """Whose certificate it is."""

    distinguished_name: str
    """As Java writes it; empty if the certificate has none."""
    alternative_names: frozenset[bytes]
    """The subject alternative names, each as the bytes of its type and value."""
    good_until: datetime
    """When the certificate expires."""


def read_subject(certificate: bytes) -> Subject:
    """The subject of a certificate in DER. CertificateError."""
    if len(certificate) > CERTIFICATE_BYTES_MAX:
        raise CertificateError(f"a certificate of {len(certificate)} bytes")
    fields = _children(_inside(_inside(certificate)))
    at = 1 if fields and fields[0][0] == _VERSION else 0
    if len(fields) < at + 6:
        raise CertificateError("a certificate without all its fields")
    tag, subject, _ = fields[at + 4]
    if tag != _SEQUENCE:
        raise CertificateError("a subject that is no sequence")
    good_until = _end_of(fields[at + 3][1])
    names: frozenset[bytes] = frozenset()
    for tag, content, _ in fields[at + 6 :]:
        if tag == _EXTENSIONS:
            names = _alternative_names(content)
    return Subject(distinguished_name(subject), names, good_until)


def _end_of(validity: bytes) -> datetime:
    times = _children(validity)
    if len(times) != 2 or _TIMES.get(times[1][0]) != len(times[1][1]):
        raise CertificateError("a validity without an end")
    text = times[1][1].decode("ascii", "replace")
    if len(text) == 13:  # years of two digits are 1950 to 2049
        text = ("19" if text >= "5" else "20") + text
    try:
        return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise CertificateError("a time that is none") from None


def distinguished_name(rdns: bytes) -> str:
    """A name in RFC 2253 as Java writes it; `rdns` is the content of its sequence.

    CertificateError.
    """
    parts = []
    for tag, content, _ in _children(rdns):
        if tag != _SET:
            raise CertificateError("a name with something that is no set")
        pairs = [_attribute(pair) for tag, pair, _ in _children(content) if tag == _SEQUENCE]
        if not pairs:
            raise CertificateError("an empty set in a name")
        parts.append("+".join(pairs))
    return ",".join(reversed(parts))


def _attribute(pair: bytes) -> str:
    fields = _children(pair)
    if len(fields) != 2 or fields[0][0] != _OID:
        raise CertificateError("an attribute that is no pair")
    (_, oid, _), (tag, value, whole) = fields
    word = _WORDS.get(oid)
    if word is None or tag not in _STRINGS:
        return f"{word or _dotted(oid)}=#{whole.hex()}"
    return f"{word}={_escaped(value.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    inner = text.strip(" \r")
    lead = len(text) - len(text.lstrip(" \r"))
    trail = lead + len(inner)
    written = []
    for at, character in enumerate(text):
        if character in _ESCAPED or not lead <= at < trail:
            written.append("\\" + character)
        else:
            written.append("\\00" if character == "\0" else character)
    return "".join(written)


def _dotted(oid: bytes) -> str:
    if not oid or oid[-1] & 0x80:
        raise CertificateError("an attribute's type that ends early")
    numbers: list[int] = []
    number = 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _alternative_names(extensions: bytes) -> frozenset[bytes]:
    for tag, extension, _ in _children(_inside(extensions)):
        fields = _children(extension)
        if tag != _SEQUENCE or len(fields) < 2 or fields[0][:2] != (_OID, _SUBJECT_ALT_NAME):
            continue
        tag, value, _ = fields[-1]
        if tag != _OCTETS:
            raise CertificateError("an extension that is no octet string")
        return frozenset(whole for _, _, whole in _children(_inside(value)))
    return frozenset()


_Element = tuple[int, bytes, bytes]
"""Tag, content, and both with the length between them."""


def _children(content: bytes) -> list[_Element]:
    """The elements that follow each other in `content`, up to its end. CertificateError."""
    found: list[_Element] = []
    at = 0
    while at < len(content):
        element, at = _element(content, at)
        found.append(element)
    return found


def _inside(content: bytes, tag: int = _SEQUENCE) -> bytes:
    """The content of the first element of `content`, which has the tag. CertificateError."""
    (found, inner, _), _ = _element(content, 0)
    if found != tag:
        raise CertificateError(f"a tag {found:#x} in the place of {tag:#x}")
    return inner


def _element(content: bytes, at: int) -> tuple[_Element, int]:
    """The element at a place, and where the next is. CertificateError."""
    if len(content) < at + 2:
        raise CertificateError("an element that ends early")
    tag, length, start = content[at], content[at + 1], at + 2
    if tag & 0x1F == 0x1F:
        raise CertificateError("a tag of several bytes")
    if length & 0x80:
        count = length & 0x7F
        if not 1 <= count <= 4 or len(content) < start + count:
            raise CertificateError("a length that cannot be")
        length = int.from_bytes(content[start : start + count], "big")
        start += count
    end = start + length
    if end > len(content):
        raise CertificateError("an element that ends early")
    return (tag, content[start:end], content[at:end]), end
