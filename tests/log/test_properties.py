"""Java properties files: written as Java reads them, read as Java writes them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from fencepost.log.errors import CorruptFileError
from fencepost.log.properties import (
    decode_properties,
    encode_properties,
    parse_properties,
    read_properties,
)


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=5))
def test_properties_give_back_what_was_written(entries):
    entries = {
        key.encode("utf-16", "replace").decode("utf-16"): value.encode("utf-16", "replace").decode(
            "utf-16"
        )
        for key, value in entries.items()
    }
    assert decode_properties("file", encode_properties(entries)) == entries


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a=b", {"a": "b"}),
        (b"a b", {"a": "b"}),
        (b"a\tb c", {"a": "b c"}),
        (b"a", {"a": ""}),
        (b"a==b", {"a": "=b"}),
        (b"a\\ b=c", {"a b": "c"}),
        (b"a=b\\\n   c", {"a": "bc"}),
        (b"a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        (b"a=\\u0041\\t\\x", {"a": "A\tx"}),
        (b"\n\n # no\n!no\n", {}),
        (b"a=1\na=2", {"a": "2"}),
        (b"a=\\", {"a": ""}),
    ],
)
def test_properties_are_read_as_java_does(text, expected):
    assert decode_properties("file", text) == expected


def test_entries_have_the_number_of_the_line_they_begin_in():
    text = "# a comment\na=1\\\n  2\n\nb=3\n"
    assert list(parse_properties("file", text)) == [(2, "a", "12"), (5, "b", "3")]


def test_bytes_are_latin_1_and_text_is_what_it_is():
    assert list(read_properties("file", b"a=\xe9")) == [(1, "a", "\u00e9")]
    assert list(parse_properties("file", "a=\u20ac")) == [(1, "a", "\u20ac")]


def test_a_bad_escape_names_the_line():
    with pytest.raises(CorruptFileError, match=r"bad escape .* in line 2"):
        decode_properties("file", b"a=1\nb=\\u00zz\n")


def test_a_file_that_is_too_large_is_refused_before_it_is_read():
    with pytest.raises(CorruptFileError, match="more than"):
        read_properties("file", b"a" * ((1 << 20) + 1))
