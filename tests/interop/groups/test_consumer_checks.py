"""ConsumerGroupHeartbeat: what is refused before a group is looked at, and in which order."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from fencepost.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from fencepost.wire.errors import ErrorCode as E

from .conftest import Performance
from .consumer_words import beat, describe, join, owned_of
from .stage import Stage

pytestmark = [pytest.mark.interop, pytest.mark.slow]

INVALID = E.INVALID_REQUEST
JOINING = {"member_epoch": 0, "rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["t"]}
ROWS: list[tuple[str, int, dict[str, Any], int]] = [
    ("v0-without-member-id", 0, {**JOINING, "member_id": ""}, 0),
    ("v0-with-member-id", 0, JOINING, 0),
    ("v1-without-member-id", 1, {**JOINING, "member_id": ""}, INVALID),
    ("v0-epoch-1-without-member-id", 0, {"member_epoch": 1, "member_id": ""}, INVALID),
    ("v0-epoch-minus-1-without-member-id", 0, {"member_epoch": -1, "member_id": ""}, INVALID),
    ("v0-epoch-minus-2-without-member-id", 0, {"member_epoch": -2, "member_id": ""}, INVALID),
    ("long-member-id", 1, {**JOINING, "member_id": "m" * 37}, 0),
    ("no-group-id", 1, {**JOINING, "group_id": ""}, INVALID),
    ("blank-group-id", 1, {**JOINING, "group_id": "  "}, INVALID),
    ("blank-member-id", 1, {**JOINING, "member_id": "  "}, INVALID),
    ("empty-instance-id", 1, {**JOINING, "instance_id": ""}, INVALID),
    ("blank-instance-id", 1, {**JOINING, "instance_id": " "}, INVALID),
    ("empty-rack-id", 1, {**JOINING, "rack_id": ""}, INVALID),
    ("blank-rack-id", 1, {**JOINING, "rack_id": " "}, INVALID),
    ("epoch-0-without-rebalance-timeout", 1, {**JOINING, "rebalance_timeout_ms": -1}, INVALID),
    ("epoch-0-rebalance-timeout-0", 1, {**JOINING, "rebalance_timeout_ms": 0}, 0),
    ("epoch-0-rebalance-timeout-minus-2", 1, {**JOINING, "rebalance_timeout_ms": -2}, 0),
    ("epoch-0-without-partitions", 1, {**JOINING, "owned": None}, INVALID),
    ("epoch-0-with-partitions", 1, {**JOINING, "owned": [0]}, INVALID),
    ("epoch-0-without-subscription", 1, {**JOINING, "subscribed_topic_names": None}, INVALID),
    ("epoch-0-no-names", 1, {**JOINING, "subscribed_topic_names": []}, 0),
    (
        "epoch-0-regex-alone",
        1,
        {**JOINING, "subscribed_topic_names": None, "subscribed_topic_regex": "t.*"},
        0,
    ),
    (
        "epoch-0-empty-regex-alone",
        1,
        {**JOINING, "subscribed_topic_names": None, "subscribed_topic_regex": ""},
        0,
    ),
    ("epoch-0-names-and-regex", 1, {**JOINING, "subscribed_topic_regex": "t.*"}, 0),
    ("epoch-0-odd-names", 1, {**JOINING, "subscribed_topic_names": ["a b", "", "t", "t"]}, 0),
    ("epoch-minus-2-dynamic", 1, {"member_epoch": -2}, INVALID),
    ("epoch-minus-3", 1, {"member_epoch": -3}, INVALID),
    ("epoch-minus-3-static", 1, {"member_epoch": -3, "instance_id": "i"}, INVALID),
    ("unknown-assignor", 1, {**JOINING, "server_assignor": "sticky"}, E.UNSUPPORTED_ASSIGNOR),
    ("empty-assignor", 1, {**JOINING, "server_assignor": ""}, E.UNSUPPORTED_ASSIGNOR),
    ("assignor-in-capitals", 1, {**JOINING, "server_assignor": "RANGE"}, E.UNSUPPORTED_ASSIGNOR),
    ("range", 1, {**JOINING, "server_assignor": "range"}, 0),
    ("uniform", 1, {**JOINING, "server_assignor": "uniform"}, 0),
    (
        "bad-assignor-of-unknown-group",
        1,
        {"member_epoch": 1, "server_assignor": "sticky"},
        E.UNSUPPORTED_ASSIGNOR,
    ),
    (
        "bad-assignor-of-leaving-member",
        1,
        {"member_epoch": -1, "server_assignor": "sticky"},
        E.UNSUPPORTED_ASSIGNOR,
    ),
    ("leaving-with-empty-rack", 1, {"member_epoch": -1, "rack_id": ""}, INVALID),
    ("bad-regex", 1, {**JOINING, "subscribed_topic_regex": "(["}, E.INVALID_REGULAR_EXPRESSION),
    ("epoch-1-of-unknown-group", 1, {"member_epoch": 1}, E.GROUP_ID_NOT_FOUND),
    ("epoch-minus-1-of-unknown-group", 1, {"member_epoch": -1}, E.GROUP_ID_NOT_FOUND),
    (
        "epoch-minus-2-of-unknown-group",
        1,
        {"member_epoch": -2, "instance_id": "i"},
        E.GROUP_ID_NOT_FOUND,
    ),
    ("largest-epoch", 1, {"member_epoch": 2**31 - 1}, E.GROUP_ID_NOT_FOUND),
]


def refused(stage: Stage, version: int, said: dict[str, Any], error: int) -> None:
    said = {"group_id": stage.name("g"), "member_id": "m", "owned": [], **said}
    numbers = said.pop("owned")
    owned = {stage.topic("t"): numbers} if numbers else {}
    said["topic_partitions"] = None if numbers is None else owned_of(stage, owned)
    if said["member_id"]:
        stage.member(said["member_id"])
    stage.ask(ConsumerGroupHeartbeatRequest(**said), version, error=error)


@pytest.mark.parametrize(
    ("name", "version", "said", "error"), ROWS, ids=[name for name, *_ in ROWS]
)
def test_a_first_heartbeat(
    perform: Performance, name: str, version: int, said: dict[str, Any], error: int
) -> None:
    perform(f"first-{name}", partial(refused, version=version, said=said, error=error))


REGEXES: dict[str, int] = {
    "": 0,
    "a|b": 0,
    "^foo.*$": 0,
    "(?i)FOO": 0,
    "(?P<n>x)": 0,
    "(?<n>x)": 0,
    r"\p{Greek}": 0,
    r"\Qa.b\E": 0,
    "[[:alpha:]]+": 0,
    r"\Aabc\z": 0,
    "x{1000}": 0,
    "x{1001}": 1,
    "(?=x)": 1,
    "(?!x)": 1,
    "(?<=x)y": 1,
    r"(x)\1": 1,
    "x*+": 1,
    "(?>x)": 1,
    "*": 1,
    "[": 1,
    ")": 1,
    "(?P<n>x)(?P<n>y)": 1,
    r"\C": 1,
    r"\h": 1,
    r"\R": 1,
    r"\Z": 1,
    "x\\": 1,
    "(?P<>x)": 1,
    r"\pQ": 1,
    r"\x{110000}": 1,
    "[z-a]": 1,
    "(((((((((x{100}){100}){100}))))))": 1,
}


def regexes(stage: Stage) -> None:
    stage.topic("t")
    for number, (regex, is_refused) in enumerate(REGEXES.items()):
        error = E.INVALID_REGULAR_EXPRESSION if is_refused else 0
        join(stage, stage.name(f"g{number}"), "m", regex=regex, error=error)


def test_regexes_that_compile(perform: Performance) -> None:
    perform("regexes", regexes)


def unknown_groups_are_not_made(stage: Stage) -> None:
    group = stage.name("g")
    beat(stage, group, stage.member("m"), 1, error=E.GROUP_ID_NOT_FOUND)
    describe(stage, group, error=E.GROUP_ID_NOT_FOUND)
    join(stage, group, "m", "t", regex="([", error=E.INVALID_REGULAR_EXPRESSION)
    describe(stage, group, error=E.GROUP_ID_NOT_FOUND)
    describe(stage, group, error=E.GROUP_ID_NOT_FOUND, version=0)


def test_a_refused_heartbeat_makes_no_group(perform: Performance) -> None:
    perform("no-group", unknown_groups_are_not_made)
