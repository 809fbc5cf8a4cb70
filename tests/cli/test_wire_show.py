"""`fencepost wire apis`, `show` and `errors`: what there is, told without any bytes."""

from __future__ import annotations

import pytest

from fencepost.cli.wire.names import message_names
from fencepost.wire import api
from fencepost.wire.api import HeartbeatRequest
from fencepost.wire.error_meanings import meaning
from fencepost.wire.errors import ErrorCode

from .wire_command import Wire, answered


def test_apis_lists_every_api(wire: Wire):
    ran = wire("apis", "--json")
    assert ran.code == 0
    listed = {entry["key"]: entry for entry in ran.json}
    assert list(listed) == sorted(api.API_NAMES)
    fetch = listed[1]
    assert (fetch["name"], fetch["min_version"], fetch["max_version"]) == ("Fetch", 0, 18)
    assert fetch["flexible_from"] == 12 and fetch["oldest_served"] == 4
    assert fetch["request_header"] == [{"from": 0, "header": 1}, {"from": 12, "header": 2}]
    assert fetch["response_header"] == [{"from": 0, "header": 0}, {"from": 12, "header": 1}]
    assert listed[18]["response_header"] == [{"from": 0, "header": 0}]
    assert listed[19]["forwardable"] and not fetch["forwardable"]
    for key, entry in listed.items():
        assert entry["max_version"] == api.request_class(key).max_version


def test_apis_as_a_table(wire: Wire):
    lines = wire("apis").out.splitlines()
    assert len(lines) == 1 + len(api.API_NAMES)
    assert lines[0].split() == [
        "key", "API", "versions", "served", "flexible", "headers", "to", "from", "forwarded",
    ]  # fmt: skip
    unstable = [line for line in lines if "InitProducerId" in line]
    assert unstable[0].split()[2:4] == ["0-6*", "0-5"]
    gone = [line for line in lines if "StopReplica" in line]
    assert gone[0].split()[3:5] == ["until", "4.0"]


@pytest.mark.parametrize("name", ["fetch", "Fetch", "1"])
def test_show_an_api(wire: Wire, name: str):
    request, response = wire("show", name, "--json").json
    assert (request["name"], response["name"]) == ("FetchRequest", "FetchResponse")
    assert [field["name"] for field in request["fields"]][:3] == [
        "cluster_id", "replica_id", "replica_state",
    ]  # fmt: skip
    text = wire("show", name).out
    assert "Fetch request, API key 1" in text and "\n\nFetch response, API key 1" in text


@pytest.mark.parametrize("name", message_names())
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


def test_errors_by_number_and_by_name(wire: Wire):
    listed = wire("errors", "--json").json
    assert [one["code"] for one in listed] == [int(code) for code in ErrorCode]
    assert all(one["meaning"] for one in listed)
    fenced = {
        "code": 74, "name": "FENCED_LEADER_EPOCH", "retriable": True, "meaning": meaning(74),
    }  # fmt: skip
    for name in ("74", "fenced_leader_epoch", "Fenced-Leader-Epoch"):
        assert wire("errors", name, "--json").json == fenced
    assert wire("errors", "-1", "--json").json["name"] == "UNKNOWN_SERVER_ERROR"
    lines = wire("errors").out.splitlines()
    assert lines[0].split() == ["code", "name", "retriable", "meaning"]
    assert len(lines) == 1 + len(ErrorCode)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("999", "no error has the code 999, only -1 to "),
        ("-7", "no error has the code -7"),
        ("fenced_leader", "did you mean FENCED_LEADER_EPOCH"),
        ("FENCED", "FENCED_INSTANCE_ID or PRODUCER_FENCED or FENCED_MEMBER_EPOCH"),
        ("xyzzy", "no error is called 'xyzzy'\n"),
        ("²", "no error is called '²'"),
    ],
)
def test_errors_that_are_not(wire: Wire, name: str, error: str):
    ran = wire("errors", name)
    assert ran.code == 1 and ran.err.count("\n") == 1 and error in ran.err


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


def test_api_takes_the_names_of_its_messages(wire: Wire):
    for name in ("Heartbeat", "heartbeatresponse", "HeartbeatRequest", "12"):
        ran = wire("decode", "--response", "--api", name, "--version", "4", stdin=answered())
        assert ran.json["response"] == "Heartbeat"


def test_show_versions_that_are_not(wire: Wire):
    assert wire("show", "Fetch", "--version", "99").code == 1
    assert wire("show", "Fetch", "--version", "-1").code == 2
    assert wire("show").code == 2
