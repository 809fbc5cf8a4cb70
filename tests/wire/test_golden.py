"""Messages written out by hand, byte for byte, with the meaning of every byte beside it.

The files in `golden/` were written from the layouts in Kafka's protocol, not by any codec. A line
holds bytes in hexadecimal and, behind `#`, either what they mean, as `path = value`, or a note.
The values make up the message that the bytes must decode to, and that must encode to them:

    == OffsetForLeaderEpochRequest v3
    00000002          # replica_id = 2
    00000001          # one topic
    0006 6f7264657273 # topics[0].topic = "orders"

Values are Python's; ids are in Kafka's text form. Fields that are not named have their default.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fencepost.wire import api, header
from fencepost.wire.draft import fetch_quorum_records
from fencepost.wire.message import Message, Struct
from fencepost.wire.types import Primitive, Uuid

from .catalogue import CODECS, codec

FOLDER = Path(__file__).parent / "golden"
TITLE = re.compile(r"== (\w+) v(\d+)")
ASSIGNMENT = re.compile(r"([a-z_]+(?:\[\d+\])?(?:\.[a-z_]+(?:\[\d+\])?)*) = (.*)")
STEP = re.compile(r"([a-z_]+)(?:\[(\d+)\])?")


class GoldenError(Exception):
    """A golden file that cannot be read; says where."""


@dataclass
class Golden:
    """One message of a golden file."""

    where: str
    cls: type[Message]
    version: int
    message: Message
    data: bytearray = field(default_factory=bytearray)

    def __str__(self) -> str:
        return f"{self.cls.__name__}-v{self.version}-{self.where.partition(':')[2]}"


def parse(text: str, name: str) -> Iterator[Golden]:
    """The messages of a file; GoldenError with its name and a line number."""
    current = None
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if line.startswith("=="):
                if current is not None:
                    yield current
                current = begun(line, f"{name}:{number}")
            elif line.strip() and not line.startswith("#"):
                if current is None:
                    raise GoldenError("bytes before the first title")
                read_line(current, line)
        except GoldenError as error:
            raise GoldenError(f"{name}:{number}: {error}") from None
    if current is not None:
        yield current


def begun(line: str, where: str) -> Golden:
    match = TITLE.fullmatch(line.rstrip())
    if match is None:
        raise GoldenError("a title looks like `== FetchRequest v12`")
    name, version = match[1], int(match[2])
    for module in (api, header, fetch_quorum_records):
        cls = getattr(module, name, None)
        if isinstance(cls, type) and issubclass(cls, Message):
            if cls.min_version <= version <= cls.max_version:
                return Golden(where, cls, version, cls())
            raise GoldenError(f"{name} has no version {version}")
    raise GoldenError(f"there is no message {name}")


def read_line(golden: Golden, line: str) -> None:
    """Add what a line has to the bytes and to the message."""
    digits, _, meaning = line.partition("#")
    try:
        golden.data += bytes.fromhex(digits)
    except ValueError:
        raise GoldenError(f"not hexadecimal: {digits.strip()!r}") from None
    if "=" not in meaning:
        return
    match = ASSIGNMENT.fullmatch(meaning.strip())
    if match is None:
        raise GoldenError(f"neither `path = value` nor a note: {meaning.strip()!r}")
    try:
        value = ast.literal_eval(match[2])
    except (ValueError, SyntaxError):
        raise GoldenError(f"not a value: {match[2]}") from None
    put(golden.message, match[1], value)


def put(target: Any, path: str, value: Any) -> None:
    """Set one field of the message, however deep; array elements are made as they are named."""
    *steps, last = path.split(".")
    for step in steps:
        match = STEP.fullmatch(step)
        assert match is not None
        target = inner(target, match[1], match[2])
    if last == "unknown_tags":
        target.unknown_tags = value
        return
    entry = entry_of(target, last)
    if entry.primitive is Primitive.UUID:
        value = Uuid.from_string(value)
    setattr(target, last, value)


def inner(target: Struct, name: str, index: str | None) -> Any:
    entry = entry_of(target, name)
    if entry.struct is None or entry.is_array != (index is not None):
        raise GoldenError(f"{name} is {entry.type}")
    found = getattr(target, name)
    if index is None:
        return found
    if int(index) == len(found):
        found.append(entry.struct())
    if int(index) != len(found) - 1:
        raise GoldenError(f"{name} has {len(found)} elements so far, and [{index}] is named")
    return found[int(index)]


def entry_of(target: Struct, name: str) -> Any:
    for entry in type(target).fields:
        if entry.name == name:
            return entry
    raise GoldenError(f"{type(target).__name__} has no field {name}")


GOLDEN = [
    one for path in sorted(FOLDER.glob("*.txt")) for one in parse(path.read_text(), path.name)
]


@pytest.mark.parametrize("name", sorted(CODECS))
@pytest.mark.parametrize("golden", GOLDEN, ids=str)
def test_bytes_and_meaning_agree(golden: Golden, name: str) -> None:
    machine = codec(name, golden.cls, golden.version)
    data = bytes(golden.data)
    assert machine.decode(data) == golden.message, golden.where
    assert machine.encode(golden.message) == data, golden.where
    assert b"".join(map(bytes, machine.encode_parts(golden.message))) == data, golden.where


FETCH = (0, 4, 7, 11, 12, 13, 15, 17, 18)
EXPECTED = {
    *(("RequestHeader", version) for version in range(3)),
    *(("ResponseHeader", version) for version in range(2)),
    *(
        (name + suffix, version)
        for name, versions in (
            ("OffsetForLeaderEpoch", range(5)),
            ("Fetch", FETCH),
            ("AlterPartition", range(4)),
            ("FetchQuorumRecords", range(2)),
        )
        for suffix in ("Request", "Response")
        for version in versions
    ),
}


def test_every_layout_is_there() -> None:
    assert {(golden.cls.__name__, golden.version) for golden in GOLDEN} == EXPECTED


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("00", "f.txt:1: bytes before the first title"),
        ("# note\n== Fetch 3", "f.txt:2: a title looks like"),
        ("== NoSuchRequest v3", "f.txt:1: there is no message NoSuchRequest"),
        ("== API_NAMES v3", "f.txt:1: there is no message API_NAMES"),
        ("== FetchRequest v99", "f.txt:1: FetchRequest has no version 99"),
        ("== FetchRequest v0\n\n0x00", "f.txt:3: not hexadecimal: '0x00'"),
        ("== FetchRequest v0\n000", "f.txt:2: not hexadecimal: '000'"),
        ("== FetchRequest v0\n00 # replica = 1", "f.txt:2: FetchRequest has no field replica"),
        ("== FetchRequest v0\n00 # Replica = 1", "f.txt:2: neither `path = value` nor a note"),
        ("== FetchRequest v0\n00 # replica_id = minus one", "f.txt:2: not a value: minus one"),
        ("== FetchRequest v0\n00 # replica_id =", "f.txt:2: neither"),
        ("== FetchRequest v0\n00 # topics[1].topic = 1", "topics has 0 elements so far, and [1]"),
        ("== FetchRequest v0\n00 # topics.topic = 1", "f.txt:2: topics is []FetchTopic"),
        ("== FetchRequest v0\n00 # replica_id.x = 1", "f.txt:2: replica_id is int32"),
    ],
)
def test_errors_in_a_file_say_where(text: str, reason: str) -> None:
    with pytest.raises(GoldenError) as caught:
        list(parse(text, "f.txt"))
    assert reason in str(caught.value)


def test_a_wrong_note_is_found_out() -> None:
    (golden,) = parse("== ResponseHeader v0\n00000009 # correlation_id = 8", "f.txt")
    with pytest.raises(AssertionError, match=r"f\.txt:1"):
        test_bytes_and_meaning_agree(golden, "python")
