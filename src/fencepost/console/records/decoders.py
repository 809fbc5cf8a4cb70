"""Keys and values as text: by the decoder that is asked for, or as what they look like.

A decoder makes text of bytes, or says why it cannot; bytes that cannot be decoded are shown in
hexadecimal, with the reason. What is shown never holds a character that a terminal or a browser
would act on.
"""

from __future__ import annotations

import json
import re
import struct
from codecs import getincrementaldecoder
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from fencepost.console.asked import BadQuery
from fencepost.views.view import View

LIST_BYTES_MAX: Final = 4 << 10
"""Of a key, a value or a header in a list."""
PAGE_BYTES_MAX: Final = 1 << 20
"""On the page of one record; a download has all of it."""
PRETTY_BYTES_MAX: Final = 256 << 10
"""JSON beyond this is shown as it is."""
AUTOMATIC: Final = "auto"
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Bytes that text seldom has and numbers often."""


class Undecodable(ValueError):
    """The bytes are not what they are to be read as; the text says why."""


Decode = Callable[[bytes, bytes | None], str]
"""Text of bytes; for a value, with the record's key. Raises Undecodable."""


class TopicDecoder(NamedTuple):
    """A decoder that only some topics or consoles have. It is used without being asked for where
    `claims` says that the bytes look like its own."""

    name: str
    decode: Decode
    claims: Callable[[bytes], bool]


class Shown(View, frozen=True):
    """Bytes as text. `text` is None for null. `as_` is the decoder that made it; `size_bytes` is
    of the whole, of which `is_cut` tells that not all is shown; `problem` says why the decoder that
    was asked for could not be used."""

    text: str | None
    as_: str
    size_bytes: int | None
    is_cut: bool = False
    problem: str | None = None

    @property
    def cell(self) -> str | None:
        """The text in a table's cell."""
        return None if self.text is None else self.text + ("…" if self.is_cut else "")


def _fixed(name: str, layout: str) -> Decode:
    one = struct.Struct(layout)

    def decode(data: bytes, _key: bytes | None) -> str:
        if len(data) != one.size:
            raise Undecodable(f"{name} has {one.size} bytes, not {len(data)}")
        return str(one.unpack(data)[0])

    return decode


def _uuid(data: bytes, _key: bytes | None) -> str:
    if len(data) != 16:
        raise Undecodable(f"uuid has 16 bytes, not {len(data)}")
    return str(UUID(bytes=data))


def _json(data: bytes, _key: bytes | None) -> str:
    try:
        text = data.decode()
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Undecodable(f"no JSON: {error}") from None
    return text


PLAIN: Final[Mapping[str, Decode]] = {
    "json": _json,
    "int": _fixed("int", ">i"),
    "long": _fixed("long", ">q"),
    "float": _fixed("float", ">f"),
    "double": _fixed("double", ">d"),
    "uuid": _uuid,
}
NAMES: Final = (AUTOMATIC, "utf-8", "hex", *PLAIN)


class Decoder:
    """Shows bytes by the decoder `name`, one of NAMES or of `more`. Raises BadQuery for the value
    of parameter `key`."""

    def __init__(self, name: str, key: str = "value", more: Sequence[TopicDecoder] = ()) -> None:
        self._decoders = {**PLAIN, **{one.name: one.decode for one in more}}
        self._more = more
        self.names = (*NAMES, *(one.name for one in more))
        """What may be chosen."""
        if name not in self.names:
            raise BadQuery(key, name, f"allowed are {', '.join(self.names)}")
        self.name = name

    def show(self, data: bytes | None, bytes_max: int, key: bytes | None = None) -> Shown:
        """`data` as text of `bytes_max` bytes at most (characters, once it is decoded); `key` is
        the record's, for its value."""
        if data is None:
            return Shown(None, self.name, None)
        if self.name == AUTOMATIC:
            return self._by_looks(data, bytes_max, key)
        if self.name == "utf-8":
            return _as_text(data, bytes_max) or _as_hex(data, bytes_max, "no UTF-8")
        if self.name == "hex":
            return _as_hex(data, bytes_max, None)
        try:
            return _cut(self._decoders[self.name](data, key), self.name, len(data), bytes_max)
        except Undecodable as error:
            return _as_hex(data, bytes_max, str(error))

    def text_of(self, data: bytes, key: bytes | None = None) -> str:
        """All of it as text, for filters."""
        for decode in self._tried(data):
            try:
                return decode(data, key)
            except Undecodable:
                continue
        return data.hex() if self.name == "hex" else data.decode(errors="replace")

    def _tried(self, data: bytes) -> list[Decode]:
        if self.name == AUTOMATIC:
            return [one.decode for one in self._more if one.claims(data)]
        return [self._decoders[self.name]] if self.name in self._decoders else []

    def _by_looks(self, data: bytes, bytes_max: int, key: bytes | None) -> Shown:
        problem = None
        for one in self._more:
            if not one.claims(data):
                continue
            try:
                return _cut(one.decode(data, key), one.name, len(data), bytes_max)
            except Undecodable as error:
                problem = str(error)
        text = _as_text(data, bytes_max)
        if text is None or _CONTROLS.search(data, 0, bytes_max):
            return _as_hex(data, bytes_max, problem)
        return msgspec.structs.replace(text, problem=problem)


def _as_text(data: bytes, bytes_max: int) -> Shown | None:
    """The beginning as text, None where it is no UTF-8. A character that is cut is left out."""
    is_cut = len(data) > bytes_max
    try:
        text = getincrementaldecoder("utf-8")().decode(data[:bytes_max], not is_cut)
    except UnicodeDecodeError:
        return None
    return Shown(visible(text), "utf-8", len(data), is_cut)


def _as_hex(data: bytes, bytes_max: int, problem: str | None) -> Shown:
    is_cut = 2 * len(data) > bytes_max
    return Shown(data[: bytes_max // 2].hex(), "hex", len(data), is_cut, problem)


def _cut(text: str, name: str, size_bytes: int, characters_max: int) -> Shown:
    return Shown(visible(text[:characters_max]), name, size_bytes, len(text) > characters_max)


def visible(text: str) -> str:
    """`text` with characters that would be acted on (but for line ends and tabs) as escapes."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode()
        for one in text
    )


def pretty(shown: Shown) -> str | None:
    """JSON of PRETTY_BYTES_MAX at most with a line for each value; None for what is none."""
    if shown.text is None or shown.is_cut or len(shown.text) > PRETTY_BYTES_MAX:
        return None
    try:
        document = json.loads(shown.text)
        if not isinstance(document, dict | list):
            return None
        return json.dumps(document, indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None


def hex_dump(data: bytes, bytes_max: int) -> str:
    """Lines of 16 bytes: position, hexadecimal digits, and the characters of ASCII."""
    lines = []
    for at in range(0, min(len(data), bytes_max), 16):
        part = data[at : min(at + 16, bytes_max)]
        letters = "".join(chr(one) if 32 <= one < 127 else "." for one in part)
        lines.append(f"{at:08x}  {part.hex(' '):<47}  {letters}")
    if len(data) > bytes_max:
        lines.append(f"… {len(data) - bytes_max} more bytes")
    return "\n".join(lines)
