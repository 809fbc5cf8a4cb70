"""`fencepost wire apis`: every API with its versions and headers."""

from __future__ import annotations

from fencepost.wire import api

from .wire_command import Wire


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
