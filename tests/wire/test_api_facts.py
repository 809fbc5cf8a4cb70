"""The table of facts about APIs: whole, free of contradictions, and the same as Kafka's list."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import pytest

from fencepost.wire import api
from fencepost.wire.api import envelope
from fencepost.wire.api.facts import API_FACTS, ApiFacts

REFERENCE = os.environ.get("FENCEPOST_REFERENCE")
MARKED_WITHOUT_NEED = {"DescribeQuorum", "UpdateFeatures"}
UNMARKED_BUT_NEEDED = {
    "FetchSnapshot",
    "ControllerRegistration",
    "AssignReplicasToDirs",
    "UpdateRaftVoter",
}
"""Where the permission differs from Kafka's mark `clusterAction`; see the module's docstring."""


def test_every_api_has_its_row() -> None:
    assert set(api.API_NAMES) <= set(API_FACTS)
    assert list(API_FACTS) == list(range(len(API_FACTS)))


@pytest.mark.parametrize("facts", API_FACTS.values(), ids=lambda facts: api.api_name(facts[0]))
def test_a_row_does_not_contradict_itself(facts: ApiFacts) -> None:
    gone = facts.removed_in is not None
    assert gone == (facts.oldest_served is None) == (not facts.listeners)
    assert facts.senders
    for names in (facts.listeners, facts.senders):
        assert len(set(names)) == len(names)
    if facts.forwardable:
        assert "controller" in facts.listeners
    if facts.cluster_action:
        assert "client" not in facts.senders


@pytest.mark.parametrize("key", sorted(api.API_NAMES), ids=api.api_name)
def test_the_oldest_version_is_one_we_have(key: int) -> None:
    cls, oldest = api.request_class(key), API_FACTS[key].oldest_served
    assert oldest is None or cls.min_version <= oldest <= cls.max_version


def test_the_envelope_names_what_goes_into_it() -> None:
    named = re.findall(r"(\d+) ([A-Z]\w+)", str(envelope.__doc__))
    assert [int(key) for key, _ in named] == [
        facts.api_key for facts in API_FACTS.values() if facts.forwardable
    ]
    for key, name in named:
        assert api.API_NAMES.get(int(key), name) == name


@pytest.mark.skipif(REFERENCE is None, reason="FENCEPOST_REFERENCE does not name Kafka's list")
def test_the_table_is_kafkas() -> None:
    assert REFERENCE is not None
    with (Path(REFERENCE) / "apis.csv").open(newline="") as lines:
        rows = {int(row["api_key"]): row for row in csv.DictReader(lines)}
    assert rows.keys() == API_FACTS.keys()
    for key, row in rows.items():
        facts, name = API_FACTS[key], row["name"]
        removed = re.fullmatch(r"\(removed in (.+)\)", row["listeners"])
        assert facts.removed_in == (removed[1] if removed else None), name
        assert set(facts.listeners) == (set() if removed else set(row["listeners"].split(";")))
        assert set(facts.senders) == {who.partition("(")[0] for who in row["sender"].split(";")}
        assert facts.forwardable == (row["forwardable"] == "yes"), name
        marked = row["cluster_action"] == "yes"
        assert facts.cluster_action == (
            (marked and name not in MARKED_WITHOUT_NEED) or name in UNMARKED_BUT_NEEDED
        ), name
        for column in ("ak_4_1", "ak_4_2", "ak_4_3", "ak_trunk_aug2026"):
            if oldest := re.match(r"\d+", row[column]):
                assert facts.oldest_served == int(oldest[0]), (name, column)
        assert (facts.oldest_served is None) == (row["ak_trunk_aug2026"] == "none"), name
        assert api.API_NAMES.get(key, name) == name
