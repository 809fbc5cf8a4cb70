"""Format strings of `fencepost consume`."""

from __future__ import annotations

import re

import pytest

from fencepost.batch.records import Record
from fencepost.cli.record_format import FormatError, RecordFormat
from fencepost.client.metadata import TopicPartition

WHERE = TopicPartition("orders", 3)
RECORD = Record(7, 1_700_000_000_000, 0, b"k", b"v\xff", (("h", b"x"), ("n", None), ("h", b"")))
NULLS = Record(8, -1, 0, None, None, ())


@pytest.mark.parametrize(
    ("text", "shown", "nulls"),
    [
        ("%t-%p@%o", b"orders-3@7", b"orders-3@8"),
        ("%T", b"1700000000000", b"-1"),
        ("%k=%s", b"k=v\xff", b"-=-"),
        ("%K %S", b"1 2", b"-1 -1"),
        ("%R", b"\0\0\0\2", b"\xff\xff\xff\xff"),
        ("[%h]", b"[h=x,n=NULL,h=]", b"[]"),
        ("100%%%o\\n", b"100%7\n", b"100%8\n"),
        (r"\t\r\n\\ \q", b"\t\r\n\\ q", b"\t\r\n\\ q"),
        (r"\x41\x4\x042\0\010\65", b"A\4\x042\0\x08A", b"A\4\x042\0\x08A"),
        ("\u00e9\udcff%o", b"\xc3\xa9\xff7", b"\xc3\xa9\xff8"),
        ("", b"", b""),
    ],
)
def test_what_format_strings_print(text: str, shown: bytes, nulls: bytes):
    formatted = RecordFormat(text, null=b"-")
    assert formatted(WHERE, RECORD) == shown
    assert formatted(WHERE, NULLS) == nulls


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("%v", "%v is none of %t, %p, "),
        ("50%", "a % at the end is none of"),
        ("%\n", "%\n is none of"),
        ("\\", "nothing behind the last"),
        (r"\256", r"\256 is more than a byte"),
        (r"\08", r"\08 is no octal number"),
    ],
)
def test_wrong_format_strings_are_refused(text: str, complaint: str):
    with pytest.raises(FormatError, match=re.escape(complaint)):
        RecordFormat(text)
