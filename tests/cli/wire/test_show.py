"""`fencepost wire show`: the fields of messages and structs."""

from __future__ import annotations

import pytest

from fencepost.cli.wire.lookup.names import message_names
from fencepost.wire.api import HeartbeatRequest

from ...in_turn import in_turn
from .wire_command import Wire


@pytest.mark.parametrize("name", ["fetch", "Fetch", "1"])
def test_show_an_api(wire: Wire, name: str):
    request, response = wire("show", name, "--json").json
    assert (request["name"], response["name"]) == ("FetchRequest", "FetchResponse")
    assert [field["name"] for field in request["fields"]][:3] == [
        "cluster_id", "replica_id", "replica_state",
    ]  # fmt: skip
    text = wire("show", name).out
    assert "Fetch request, API key 1" in text and "\n\nFetch response, API key 1" in text


@in_turn("name", message_names())
def test_show_knows_every_message(wire: Wire, name: str):
    ran = wire("show", name.upper())
    assert (ran.code, ran.err) == (0, "")
    shown = wire("show", name, "--json").json
    assert shown["name"] == name
    version = str(shown["max_version"])
    at_version = wire("show", name, "--version", version)
    assert at_version.code == 0
    for field in shown["fields"]:
        assert field["name"] in ran.out
    for field in wire("show", name, "--version", version, "--json").json["fields"]:
        assert field["encoding"] and field["name"] in at_version.out


def test_show_one_version_says_how_it_is_written(wire: Wire):
    fields = {f["name"]: f for f in wire("show", "FetchRequest", "--version", "12", "--json").json[
        "fields"
    ]}  # fmt: skip
    assert "topic_id" not in fields  # of version 13
    assert fields["topic"]["encoding"] == "uvarint length + 1, UTF-8"
    assert fields["topics"]["encoding"] == "uvarint count + 1"
    assert fields["cluster_id"]["tag"] == 0
    plain = {f["name"]: f for f in wire("show", "FetchRequest", "--version", "4", "--json").json[
        "fields"
    ]}  # fmt: skip
    assert plain["topic"]["encoding"] == "int16 length, UTF-8"
    assert plain["topics"]["encoding"] == "int32 count"
    text = wire("show", "FetchRequest", "--version", "12").out
    assert text.count("tagged section") == 4
    assert text.index("\n(tags)") < text.index("\ncluster_id")
    assert "tagged section" not in wire("show", "FetchRequest", "--version", "4").out


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_meaning_is_wrapped(wire: Wire, monkeypatch: pytest.MonkeyPatch, columns: int):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = wire("show", "HeartbeatRequest").out.splitlines()
    text = " ".join(" ".join(lines).split())
    for field in HeartbeatRequest.fields:
        assert field.name in text
    beside = [line for line in lines[2:] if not line.startswith(" ")]
    assert len(beside) == len(HeartbeatRequest.fields)
    if columns >= 80:
        assert max(map(len, lines)) <= columns


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("Fecth", "no message is called 'Fecth'; did you mean Fetch?"),
        ("OffsetCommitValu", "did you mean OffsetCommitValue"),
        ("PartitionDat", "did you mean PartitionData"),
        ("xyzzy", "no message is called 'xyzzy'\n"),
        ("30000", "no API has the number 30000"),
    ],
)
def test_show_does_not_know_it(wire: Wire, name: str, error: str):
    ran = wire("show", name)
    assert ran.code == 1 and ran.err.count("\n") == 1
    assert error in ran.err


@pytest.mark.parametrize("name", ["PartitionData", "partitiondata"])
def test_show_structs_of_every_message(wire: Wire, name: str):
    shown = {one["message"]: one for one in wire("show", name, "--json").json}
    assert {"FetchResponse", "AlterPartitionRequest", "AlterPartitionResponse"} <= shown.keys()
    fetch = shown["FetchResponse"]
    assert (fetch["name"], fetch["kind"], fetch["api_key"]) == ("PartitionData", "struct", 1)
    assert fetch["paths"] == ["responses.partitions"]
    names = {row["name"]: row["depth"] for row in fetch["fields"]}
    assert names["partition_index"] == 0 and names["producer_id"] == 1 and "topic" not in names
    text = wire("show", name).out
    assert (
        "PartitionData in Fetch response, API key 1, versions 0-18, flexible 12+: "
        "responses.partitions\n" in text
    )
    assert text.count("PartitionData in ") + text.count("(Kafka: PartitionData) in ") == len(shown)


def test_show_structs_of_one_version(wire: Wire):
    ran = wire("show", "PartitionData", "--version", "12")
    (heading,) = [line for line in ran.out.splitlines() if line.startswith("PartitionData in F")]
    assert "version 12 of 0-18" in heading and "AlterPartition" not in ran.out
    assert ran.out.count("tagged section") >= 2
    before = wire("show", "ReplicaState", "--version", "14")
    assert before.code == 1 and before.err.count("\n") == 1
    assert "ReplicaState is not in version 14 of FetchRequest" in before.err
    (state,) = [
        one
        for one in [wire("show", "ReplicaState", "--version", "15", "--json").json]
        if one["message"] == "FetchRequest"
    ]
    assert [field["name"] for field in state["fields"]] == ["replica_id", "replica_epoch"]
    assert all(field["encoding"] for field in state["fields"])


def test_show_refuses_versions_that_do_not_exist(wire: Wire):
    assert wire("show", "Fetch", "--version", "99").code == 1
    assert wire("show", "Fetch", "--version", "-1").code == 2
    assert wire("show").code == 2
