"""`fencepost wire apis`: every API with its versions and headers."""

from __future__ import annotations

import pytest

from fencepost.cli.wire import apis
from fencepost.wire import api
from fencepost.wire.api.facts import API_FACTS

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


def test_an_api_that_is_not_kafkas_is_listed(monkeypatch: pytest.MonkeyPatch):
    """One that a reader has added by CONTRIBUTING: nothing is known of who sends it."""
    monkeypatch.setattr(apis, "API_FACTS", {0: API_FACTS[0]})
    added = apis.describe_api(1)
    assert (added["name"], added["listeners"], added["senders"]) == ("Fetch", [], [])
    assert added["oldest_served"] == 0 and added["removed_in"] is None
    assert apis.describe_api(0)["senders"] == ["client"]
