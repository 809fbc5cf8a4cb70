"""Group ids to partitions, as Java does it."""

from __future__ import annotations

import pytest

from fencepost.machines.group.partitioner import java_string_hash, partition_for, utf16_length


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("ab", 97 * 31 + 98),
        ("hello", 99162322),
        ("Hello, World!", 1498789909),
        ("polygenelubricants", -2147483648),  # a known string with the least int for its hash
        ("é", 233),
        ("日本", 26085 * 31 + 26412),
        ("😀", 0xD83D * 31 + 0xDE00),  # two code units, not one code point
        ("\ud800", 0xD800),  # half a pair is a code unit like any other
    ],
)
def test_the_hash_is_javas(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_the_least_int_has_no_absolute_value_and_counts_as_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0


@pytest.mark.parametrize(
    ("group", "partition"),
    [("hello", 22), ("", 0), ("console-consumer-12345", None), ("g", 3)],
)
def test_partitions_of_fifty(group: str, partition: int | None) -> None:
    found = partition_for(group, 50)
    assert 0 <= found < 50
    if partition is not None:
        assert found == partition


def test_negative_hashes_give_positive_partitions() -> None:
    names = [f"group-{number}" for number in range(500)]
    negative = [name for name in names if java_string_hash(name) < 0]
    assert len(negative) > 100
    assert all(partition_for(name, 50) == -java_string_hash(name) % 50 for name in negative)


def test_lengths_count_code_units() -> None:
    assert [utf16_length(text) for text in ("", "abc", "é", "😀")] == [0, 3, 1, 2]
