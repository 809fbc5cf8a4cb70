"""Texts that are not UTF-8: an error, or on request what Java makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.wire.api import ApiVersionsRequest
from fencepost.wire.errors import (
    DecodeError,
    TextDecodeError,
    TooManyElementsError,
    UnsupportedVersionError,
)
from fencepost.wire.frame import encode_request, read_request_header
from fencepost.wire.types import MAX_STRING_BYTES, ReplacedText

from ..in_turn import in_turn
from .catalogue import CODECS, MESSAGES, codec, extreme
from .samples import Leaf, Sample

MARK = "\N{REPLACEMENT CHARACTER}"
BY_JAVA = {
    # what is sent: what `new String(bytes, UTF_8)` of Java 17 makes of it
    b"caf\xe9": f"caf{MARK}",
    b"\xff\xfe": 2 * MARK,
    b"\x80": MARK,
    b"\xc0\x80": 2 * MARK,
    b"\xe2\x82": MARK,
    b"\xe2\x28\xa1": f"{MARK}({MARK}",
    b"\xf0\x9f\x92": MARK,
    b"\xf0\x80\x80": 3 * MARK,
    b"\xf5\x80\x80\x80": 4 * MARK,
    b"\xed\xa0\x80": MARK,
    b"\xed\xa0": MARK,
    b"\xed\xa0A": f"{MARK}A",
    b"\xed\xa0\xbd\xed\xb2\xa9": 2 * MARK,
    b"a\xe1\x80\xed\xb0\x80b": f"a{2 * MARK}b",
    "gr\u00fc\u00df \U0001f4a9".encode() + b"\xff": f"gr\u00fc\u00df \U0001f4a9{MARK}",
}


PLACE = "\x7f" * 20
"""Stands for what is to be there instead, up to the last of its letters."""


def spoiled(version: int, text: bytes) -> bytes:
    """A `Sample` with this text wherever the version has one."""
    place = PLACE[: len(text)]
    leaf = Leaf(name=place)
    values = {"label": place, "names": [place, "good"], "late": place, "early": leaf, "leaf": leaf}
    held = {one.name for one in Sample.fields if one.versions.holds(version)}
    message = Sample(**{name: value for name, value in values.items() if name in held})
    return message.encode(version).replace(place.encode(), text)


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("text", BY_JAVA)
def test_texts_become_what_java_makes_of_them(text, version):
    data = spoiled(version, text)
    for kind in (bytes, bytearray, memoryview):
        message, end = Sample.read_replacing(kind(data), 0, version)
        assert end == len(data)
        texts = [message.label]
        if version >= 1:
            assert message.names[1] == "good" and type(message.names[1]) is str
            texts.append(message.names[0])
        if version >= 2:
            texts.append(message.early.name)
        if version >= 3:
            texts += [message.late, message.leaf.name]
        assert texts == [BY_JAVA[text]] * len(texts)
        assert all(type(one) is ReplacedText for one in texts)


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("version", range(4))
def test_unless_asked_they_are_an_error(name, version):
    data = spoiled(version, b"caf\xe9")
    for read in (codec(name, Sample, version).decode, lambda one: Sample.decode(one, version)):
        with pytest.raises(TextDecodeError, match="label: not UTF-8"):
            read(data)


@pytest.mark.parametrize("name", CODECS)
def test_what_was_replaced_is_written_as_utf8(name):
    message, _ = Sample.read_replacing(spoiled(0, b"caf\xe9"), 0, 0)
    assert codec(name, Sample, 0).encode(message) == Sample(label=f"caf{MARK}").encode(0)


def test_a_text_that_grows_too_long_is_cut():
    data = Sample(label="A" * MAX_STRING_BYTES).encode(0).replace(b"A", b"\xff")
    message, _ = Sample.read_replacing(data, 0, 0)
    assert message.label == MARK * (MAX_STRING_BYTES // 3)
    message.encode(0)


def test_what_is_malformed_is_an_error_all_the_same():
    data = spoiled(3, b"\xff")
    _, end = Sample.read_replacing(data, 0, 3)
    for size in range(end):
        with pytest.raises(DecodeError) as caught:
            Sample.read_replacing(data[:size], 0, 3)
        assert "UTF-8" not in str(caught.value)
    with pytest.raises(TooManyElementsError):
        Sample.read_replacing(data, 0, 3, max_elements=1)
    with pytest.raises(UnsupportedVersionError):
        Sample.read_replacing(data, 0, 4)


@in_turn("cls", MESSAGES)
def test_good_texts_are_read_as_ever(cls: Any):
    version = cls.max_version
    message = extreme(cls, version, cls.is_flexible(version), most=True)
    data = message.encode(version)
    assert cls.read_replacing(data, 0, version) == cls.read(data, 0, version)


def test_a_header_is_read_so_on_request():
    frame = encode_request(ApiVersionsRequest(), 3, 7, "caf?")[4:].replace(b"?", b"\xe9")
    with pytest.raises(DecodeError, match=r"header\.client_id: not UTF-8"):
        read_request_header(frame)
    header, _ = read_request_header(frame, replaces_text=True)
    assert header.client_id == f"caf{MARK}"
