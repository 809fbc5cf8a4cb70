"""What `help`, the command line and the documentation say of a message class."""

import inspect
import json
import pydoc
import subprocess
import sys

import pytest

from fencepost.wire import describe
from fencepost.wire.api import (
    FetchRequest,
    HeartbeatRequest,
    MetadataRequest,
    MetadataResponse,
)
from fencepost.wire.api.fetch import FetchTopic, ReplicaState
from fencepost.wire.errors import UnsupportedVersionError
from fencepost.wire.layout import layout_of
from fencepost.wire.message import Message, Struct, field
from fencepost.wire.records.group import OffsetCommitKey, OffsetCommitValue
from fencepost.wire.records.metadata import PartitionChangeRecord, TopicRecord
from fencepost.wire.schema import MISSING
from fencepost.wire.types import Bool, Bytes, Float64, Int32, Records, String, Uuid

from ..in_turn import in_turn
from .catalogue import MESSAGES, subclasses
from .every_version import at_every_version

CLASSES = [cls for cls in subclasses(Struct) if cls.__module__.startswith("fencepost.wire.")]
MODULES = sorted({cls.__module__ for cls in CLASSES})


class Inner(Struct):
    """A part."""

    number: Int32 = field(doc="A number.")


class Everything(Message, kind="data", versions="0-2", flexible="1+"):
    """One field of each kind.

    And a second paragraph.
    """

    yes: Bool = field(default=True)
    ratio: Float64 = field()
    name: String | None = field("0+", nullable="1+", default=None)
    word: String = field(default='say "so"')
    data: Bytes = field(ignorable=True)
    rows: Records | None = field(nullable="2+")
    id: Uuid = field(name="TheId")
    numbers: list[Int32] = field()
    words: list[String] | None = field(default=None)
    inner: Inner = field(doc="The part. " * 20)
    inners: list[Inner] = field("1+", tag=1, tagged="2+")
    first: Inner | None = field("2+", tag=0, default=None)


def row(name: str, version: int | None = None) -> describe.Row:
    (found,) = (
        entry
        for entry in describe.rows(Everything, version)
        if (entry.name, entry.depth) == (name, 0)
    )
    return found


@in_turn("module", MODULES)
def test_a_row_for_every_field_of_every_class(module):
    for cls in (cls for cls in CLASSES if cls.__module__ == module):
        own = [entry for entry in describe.rows(cls) if entry.depth == 0]
        assert [entry.name for entry in own] == [entry.name for entry in cls.fields]
        for entry, declared in zip(own, cls.fields):
            assert entry.struct == cls.__name__
            assert entry.type == declared.type
            assert entry.doc == declared.doc != ""
            assert describe.VersionRange.parse(entry.versions) == declared.versions
            assert describe.VersionRange.parse(entry.nullable or "none") == declared.nullable
            assert describe.VersionRange.parse(entry.tagged or "none") == declared.tagged


@in_turn("module", MODULES)
def test_defaults_are_what_one_would_write(module):
    """Each evaluates to the default, with the names that a user of the class has at hand."""
    names = {**vars(sys.modules[module]), "Uuid": Uuid}
    for cls in (cls for cls in CLASSES if cls.__module__ == module):
        for entry, declared in zip(describe.rows(cls), cls.fields):
            if entry.depth or entry.struct != cls.__name__:
                break
            value = eval(entry.default, dict(names))
            assert value == declared.fresh_default(), (cls, entry)
            assert type(value) is type(declared.fresh_default()), (cls, entry)


@at_every_version
def test_rows_of_a_version_follow_the_wire(cls, version):
    layout = layout_of(cls, version, cls.is_flexible(version))
    own = [entry for entry in describe.rows(cls, version) if entry.depth == 0]
    assert [entry.name for entry in own] == [
        slot.field.name for slot in layout.plain + layout.tagged
    ]
    everything = {(entry.struct, entry.name) for entry in describe.rows(cls)}
    assert everything >= {(entry.struct, entry.name) for entry in describe.rows(cls, version)}


def test_values_are_plain_enough_for_json():
    for cls in MESSAGES:
        shown = json.loads(json.dumps([entry._asdict() for entry in describe.rows(cls)]))
        assert [describe.Row(**entry) for entry in shown] == describe.rows(cls)


def test_nested_fields_stand_behind_the_field_that_holds_them():
    shown = [(entry.depth, entry.struct, entry.name) for entry in describe.rows(FetchRequest)]
    at = shown.index((0, "FetchRequest", "replica_state"))
    assert shown[at + 1 : at + 4] == [
        (1, "ReplicaState", "replica_id"),
        (1, "ReplicaState", "replica_epoch"),
        (0, "FetchRequest", "max_wait_ms"),
    ]
    assert (2, "FetchPartition", "fetch_offset") in shown


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("yes", "True"),
        ("ratio", "0.0"),
        ("name", "None"),
        ("word", "'say \"so\"'"),
        ("data", 'b""'),
        ("rows", 'b""'),
        ("id", "Uuid.ZERO"),
        ("numbers", "[]"),
        ("words", "None"),
        ("inner", "Inner()"),
        ("inners", "[]"),
        ("first", "None"),
    ],
)
def test_a_default_of_each_kind(name, default):
    assert row(name).default == default
    declared = next(entry for entry in Everything.fields if entry.name == name)
    assert declared.default is MISSING or eval(default) == declared.default


def test_types_at_a_version_are_exact():
    assert row("name").type == "string"
    assert row("name", 0).type == "string"
    assert row("name", 1).type == "compact nullable string"
    assert row("words", 0).type == "nullable []string"
    assert row("words", 1).type == "compact nullable []string"
    assert row("rows", 1).type == "compact records"
    assert row("rows", 2).type == "compact nullable records"
    assert row("yes", 2).type == "bool"
    assert row("id", 2).type == "uuid"
    assert row("inner", 2).type == "Inner"
    assert row("first", 2).type == "nullable Inner"
    assert [entry.name for entry in describe.rows(Everything, 2) if entry.tag is not None] == [
        "first",
        "inners",
    ]


def test_text_says_all_there_is_to_know():
    lines = describe.text(Everything).splitlines()
    assert lines[0] == "Everything, versions 0-2, flexible 1+"
    assert "yes: bool = True (versions 0+)" in lines
    assert "name: string = None (versions 0+, null in 1+)" in lines
    assert 'data: bytes = b"" (versions 0+, ignorable)' in lines
    assert "id: uuid = Uuid.ZERO (versions 0+, Kafka: TheId)" in lines
    assert "inners: []Inner = [] (versions 1+, tag 1 in 2+)" in lines
    assert "first: Inner = None (versions 2+, null in 2+, tag 0)" in lines
    assert "    number: int32 = 0 (versions 0+)" in lines
    assert "        A number." in lines
    assert all(len(line) <= describe.TEXT_WIDTH for line in lines)
    assert "inners" not in describe.text(Everything, 0)


@pytest.mark.parametrize(
    ("cls", "version", "expected"),
    [
        (FetchRequest, None, "Fetch request, API key 1, versions 0-18, flexible 12+"),
        (FetchRequest, 12, "Fetch request, API key 1, version 12 of 0-18, flexible"),
        (FetchRequest, 11, "Fetch request, API key 1, version 11 of 0-18"),
        (MetadataResponse, None, "Metadata response, API key 3, versions 0-13, flexible 9+"),
        (TopicRecord, None, "TopicRecord metadata record, id 2, versions 0, flexible 0+"),
        (
            OffsetCommitKey,
            None,
            "OffsetCommitKey coordinator key, id 1, versions 0, never flexible",
        ),
        (
            OffsetCommitValue,
            None,
            "OffsetCommitValue coordinator value, id 1, versions 0-4, flexible 4+",
        ),
        (FetchTopic, None, "FetchTopic struct"),
    ],
)
def test_heading(cls, version, expected):
    assert describe.heading(cls, version) == expected


def test_a_version_must_be_one_of_the_message():
    with pytest.raises(UnsupportedVersionError, match="no version 99"):
        describe.rows(HeartbeatRequest, 99)
    with pytest.raises(TypeError, match="ask the message around it"):
        describe.rows(FetchTopic, 3)


# What Python's own tools show


@pytest.mark.parametrize(
    "cls", [FetchRequest, MetadataRequest, ReplicaState, PartitionChangeRecord]
)
def test_help_shows_every_field(cls):
    shown = pydoc.plain(pydoc.render_doc(cls))
    assert describe.heading(cls) in shown
    for entry in describe.rows(cls):
        assert f"{entry.name}: {entry.type} = {entry.default} (versions {entry.versions}" in shown
        assert entry.doc.split()[0] in shown


def test_help_begins_with_the_docstring_of_the_class():
    assert inspect.getdoc(Everything).startswith(
        "One field of each kind.\n\nAnd a second paragraph.\n\nEverything, versions 0-2"
    )


def test_a_member_tells_its_meaning():
    assert inspect.getdoc(FetchRequest.max_bytes) == (
        "max_bytes: int32 = 2147483647 (versions 3+, ignorable)\n"
        "Limit of all partitions together; the first batch found may exceed it."
    )


def test_the_signature_is_the_constructor():
    parameters = inspect.signature(FetchRequest).parameters
    assert list(parameters) == [*(entry.name for entry in FetchRequest.fields), "unknown_tags"]
    assert str(parameters["cluster_id"]) == "cluster_id: String | None = None"
    assert str(inspect.signature(ReplicaState)).startswith("(*, replica_id: Int32 = -1, ")


def test_base_classes_keep_their_own_words():
    assert Message.__doc__.startswith("A message of the protocol")
    assert Struct.__doc__.startswith("A group of fields")
    assert type(Struct).__doc__.startswith("Collects")
    assert type(Message).__doc__.startswith("Reads")


@pytest.mark.slow
def test_nothing_of_it_is_imported_before_its_first_use():
    program = """
import sys
from fencepost.wire.api import FetchRequest
FetchRequest.decode(FetchRequest().encode(12), 12)
assert "fencepost.wire.describe" not in sys.modules
assert FetchRequest.__doc__
assert "fencepost.wire.describe" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_a_class_says_of_itself_is_in_dir_and_help() -> None:
    asked = {"fields", "api_key", "min_version", "max_version", "flexible_from", "kind"}
    assert asked <= set(dir(FetchRequest))
    assert "fields" in dir(FetchTopic)
    shown = pydoc.render_doc(FetchRequest, renderer=pydoc.plaintext)
    for name in (
        "api_key = 1",
        "max_version = 18",
        "flexible_from = 12",
        "The fields in schema order",
        "json_form.to_json",
    ):
        assert name in shown
