"""The table of facts about APIs: whole, free of contradictions, and the same as Kafka's list."""

from __future__ import annotations

import csv
import hashlib
import json
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


KAFKAS_TABLE = "d98441b585f545a6"
"""A digest of what `kafkas_rows` makes of Kafka's list, which is not part of this project."""


def test_the_table_has_the_digest_of_kafkas() -> None:
    assert digest(dict(API_FACTS)) == KAFKAS_TABLE
    some = API_FACTS[1]
    for changed in (
        some._replace(forwardable=not some.forwardable),
        some._replace(oldest_served=5),
        some._replace(senders=some.senders[1:]),
    ):
        assert digest(dict(API_FACTS) | {1: changed}) != KAFKAS_TABLE


@pytest.mark.skipif(REFERENCE is None, reason="FENCEPOST_REFERENCE does not name Kafka's list")
def test_the_table_is_kafkas() -> None:
    rows = kafkas_rows()
    assert rows.keys() == API_FACTS.keys()
    for key, row in rows.items():
        assert spelled(row) == spelled(API_FACTS[key]), api.api_name(key)
    assert digest(rows) == KAFKAS_TABLE


def spelled(facts: ApiFacts) -> list[object]:
    """Facts in which the order of listeners and senders makes no difference."""
    sets = {"listeners": sorted(facts.listeners), "senders": sorted(facts.senders)}
    return list((facts._asdict() | sets).values())


def digest(table: dict[int, ApiFacts]) -> str:
    """One short hash over a whole table."""
    rows = json.dumps([spelled(table[key]) for key in sorted(table)])
    return hashlib.sha256(rows.encode()).hexdigest()[:16]


def kafkas_rows() -> dict[int, ApiFacts]:
    """Kafka's list in the form of our table, with its marks where we follow them."""
    assert REFERENCE is not None
    with (Path(REFERENCE) / "apis.csv").open(newline="") as lines:
        rows = {int(row["api_key"]): row for row in csv.DictReader(lines)}
    for key, row in rows.items():
        assert api.API_NAMES.get(key, row["name"]) == row["name"]
    return {key: _facts(key, row) for key, row in rows.items()}


def _facts(key: int, row: dict[str, str]) -> ApiFacts:
    name, removed = row["name"], re.fullmatch(r"\(removed in (.+)\)", row["listeners"])
    columns = [row[column] for column in ("ak_4_1", "ak_4_2", "ak_4_3", "ak_trunk_aug2026")]
    oldest = {int(found[0]) for column in columns if (found := re.match(r"\d+", column))}
    assert len(oldest) <= 1, name
    marked = row["cluster_action"] == "yes"
    return ApiFacts(
        api_key=key,
        listeners=() if removed else tuple(row["listeners"].split(";")),
        senders=tuple(dict.fromkeys(who.partition("(")[0] for who in row["sender"].split(";"))),
        forwardable=row["forwardable"] == "yes",
        cluster_action=(marked and name not in MARKED_WITHOUT_NEED) or name in UNMARKED_BUT_NEEDED,
        oldest_served=None if row["ak_trunk_aug2026"] == "none" else min(oldest, default=None),
        removed_in=removed[1] if removed else None,
    )
