"""ACLs are added and removed; codes and messages are those that Apache Kafka 4.4 gives."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.controller.acls import MAX_ACLS, SCANS_MAX, TOLD_MAX
from fencepost.machines.image import persistent
from fencepost.wire.api.create_acls import AclCreation, CreateAclsRequest
from fencepost.wire.api.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from fencepost.wire.records.metadata import FeatureLevelRecord, RemoveAccessControlEntryRecord

from .controller_fixtures import Bench

TOLD_MAX_OF_A_THOUSAND = TOLD_MAX // 1_000


def creation(**fields: Any) -> AclCreation:
    chosen = {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
        **fields,
    }
    return AclCreation(**chosen)


def any_acl(**fields: Any) -> DeleteAclsFilter:
    chosen = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "principal_filter": None,
        "host_filter": None,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
        **fields,
    }
    return DeleteAclsFilter(**chosen)


class Acls:
    """A controller, and what becomes of its ACLs."""

    def __init__(self, level: int = 33) -> None:
        self.bench = Bench()
        self.bench.apply([FeatureLevelRecord(name="metadata.version", feature_level=level)])

    def create(self, *creations: AclCreation) -> list[tuple[int, str | None]]:
        request = CreateAclsRequest(creations=list(creations))
        reply = self.bench.do(
            self.bench.controller.security.decide_create_acls(request, self.bench.ids)
        )
        return [(one.error_code, one.error_message) for one in reply.results]

    def delete(self, *filters: DeleteAclsFilter) -> list[tuple[int, str | None, list[str]]]:
        request = DeleteAclsRequest(filters=list(filters))
        reply = self.bench.do(self.bench.controller.security.decide_delete_acls(request))
        return [
            (one.error_code, one.error_message, [acl.resource_name for acl in one.matching_acls])
            for one in reply.filter_results
        ]

    @property
    def names(self) -> list[str]:
        return sorted(acl.resource_name for acl in self.bench.image.acls.values())


def test_an_acl_is_added_once():
    acls = Acls()
    assert acls.create(creation(), creation(), creation(resource_name="u")) == [(0, "")] * 3
    assert acls.names == ["t", "u"]
    assert acls.create(creation()) == [(0, "")]
    assert acls.names == ["t", "u"]


def test_an_acl_that_was_removed_is_added_again():
    acls = Acls()
    acls.create(creation())
    acls.create(creation(resource_name="u"))
    ((code, _, removed),) = acls.delete(any_acl(resource_name_filter="t"))
    assert (code, removed, acls.names) == (0, ["t"], ["u"])
    acls.create(creation(resource_name="v"))
    acls.create(creation())
    assert acls.names == ["t", "u", "v"]


def test_of_an_acl_with_two_ids_one_is_enough():
    """Kafka wrote such logs before KAFKA-19347."""
    acls = Acls()
    acls.create(creation())
    (twin,) = acls.bench.image.acls.values()
    acls.bench.apply([twin.to_record(next(acls.bench.ids))])
    acls.create(creation())
    assert acls.names == ["t", "t"]
    acls.bench.apply([RemoveAccessControlEntryRecord(id=min(acls.bench.image.acls))])
    acls.create(creation())
    assert acls.names == ["t"]


def test_another_acl_costs_no_look_at_all_that_there_are(monkeypatch: pytest.MonkeyPatch):
    acls, seen = Acls(), 0
    acls.create(*(creation(resource_name=f"t{n}") for n in range(3_000)))
    acls.create(creation())
    entries = persistent._entries

    def counting(node: Any) -> Any:
        nonlocal seen
        for entry in entries(node):
            seen += 1
            yield entry

    monkeypatch.setattr(persistent, "_entries", counting)
    acls.create(creation(resource_name="one more"))
    assert seen < 300


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"resource_type": 4, "resource_name": "c", "principal": "a"},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        ({"resource_name": "", "resource_type": 99}, "Invalid empty resource name"),
        ({"resource_type": 99, "resource_pattern_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": 99, "operation": 99}, "Invalid patternType UNKNOWN"),
        ({"operation": 99, "permission_type": 99}, "Invalid operation UNKNOWN"),
        ({"permission_type": 99, "principal": "a"}, "Invalid permissionType UNKNOWN"),
        (
            {"principal": "a", "host": ""},
            "Could not parse principal from `a` (no colon is present separating the principal type"
            " from the principal name)",
        ),
        ({"host": ""}, "Host pattern cannot be null or empty"),
        ({"host": "10.0.0/8"}, "Invalid CIDR notation '10.0.0/8': Could not parse [10.0.0/8]"),
        (
            {"host": "10.0.0.0/33"},
            "Invalid CIDR notation '10.0.0.0/33': Value [33] not in range [0,32]",
        ),
        (
            {"host": "::/129"},
            "Invalid CIDR notation '::/129': Could not parse [::/129] - prefix length must be"
            " between 0 and 128",
        ),
    ],
)
def test_what_is_refused_is_refused_alone_and_in_this_order(fields: dict[str, Any], message: str):
    acls = Acls()
    answers = acls.create(creation(resource_name="x"), creation(**fields), creation())
    assert answers == [(0, ""), (42, message), (0, "")]
    assert acls.names == ["t", "x"]


@pytest.mark.parametrize(
    "fields",
    [
        {"principal": "User:"},
        {"host": "no such host"},
        {"host": "010.0.0.7/08"},
        {"host": "::/+5"},
        {"resource_type": 4, "resource_name": "kafka-cluster", "operation": 15},
    ],
)
def test_what_looks_odd_and_is_taken(fields: dict[str, Any]):
    assert Acls().create(creation(**fields)) == [(0, "")]


def test_a_code_for_filters_fails_the_request():
    for field, code in (
        ("resource_type", 1),
        ("resource_pattern_type", 1),
        ("resource_pattern_type", 2),
        ("operation", 1),
        ("permission_type", 1),
    ):
        acls = Acls()
        assert acls.create(creation(), creation(**{field: code})) == [(-1, None)] * 2
        assert acls.names == []


def test_ranges_need_their_metadata_version():
    acls = Acls(level=31)
    refused = (35, "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher.")
    answers = acls.create(creation(host="10.0.0.0/8"), creation(host="/"), creation(host=""))
    assert answers == [refused, refused, (42, "Host pattern cannot be null or empty")]
    assert Acls(level=32).create(creation(host="10.0.0.0/8")) == [(0, "")]


def test_too_many_are_refused_as_a_whole():
    acls = Acls()
    many = [creation(resource_name=f"t{number}") for number in range(MAX_ACLS + 1)]
    assert set(acls.create(*many)) == {(44, "Unable to perform excessively large batch operation.")}
    assert acls.names == []
    assert set(acls.create(*many[:-1])) == {(0, "")}
    assert acls.create(many[-1]) == [(0, "")]
    message = "Cannot remove more than 10000 acls in a single delete operation."
    first = any_acl(resource_name_filter="t1")
    assert acls.delete(first, any_acl()) == [(42, message, [])] * 2
    assert len(acls.names) == MAX_ACLS + 1
    assert acls.delete(first) == [(0, None, ["t1"])]
    assert len(acls.delete(any_acl())[0][2]) == MAX_ACLS
    assert acls.names == []


def test_a_request_of_filters_is_bounded():
    acls = Acls()
    acls.create(*(creation(resource_name=f"t{number}") for number in range(1_001)))
    refused = 42, "Cannot remove more than 10000 acls in a single delete operation.", []
    everything = [any_acl(operation=3)] * TOLD_MAX_OF_A_THOUSAND
    assert acls.delete(*everything) == [refused] * len(everything)
    elsewhere = [any_acl(host_filter="elsewhere")] * (SCANS_MAX + 1)
    assert acls.delete(*elsewhere) == [refused] * len(elsewhere)
    assert acls.delete(*elsewhere[:-1]) == [(0, None, [])] * SCANS_MAX
    assert len(acls.names) == 1_001


def test_filters_that_match_the_same_acl_both_tell_it():
    acls = Acls()
    acls.create(creation(), creation(resource_name="u"))
    by_name = any_acl(resource_name_filter="t")
    answers = acls.delete(by_name, any_acl(principal_filter="User:a"), any_acl(host_filter="x"))
    assert answers == [(0, None, ["t"]), (0, None, ["t", "u"]), (0, None, [])]
    assert acls.names == []


def test_a_filter_with_an_unknown_code_is_refused_alone():
    acls = Acls()
    acls.create(creation())
    answers = acls.delete(
        any_acl(resource_type_filter=77),
        any_acl(pattern_type_filter=9),
        any_acl(operation=88),
        any_acl(permission_type=9),
        any_acl(principal_filter=""),
    )
    assert answers == [
        *[(42, "Unknown patternFilter.", [])] * 2,
        *[(42, "Unknown entryFilter.", [])] * 2,
        (0, None, []),
    ]
    assert acls.names == ["t"]


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        (1, None, ["*", "t", "to", "top"]),
        (3, None, ["*", "t", "top"]),
        (4, None, ["to"]),
        (3, "t", ["t"]),
        (4, "t", []),
        (1, "to", ["to"]),
        (2, "top", ["*", "to", "top"]),
        (2, "t", ["*", "t"]),
        (2, "other", ["*"]),
        (2, None, ["*", "t", "to", "top"]),
    ],
)
def test_patterns_of_filters(pattern: int, name: str | None, found: list[str]):
    acls = Acls()
    acls.create(
        *(creation(resource_name=one) for one in ("t", "top", "*")),
        creation(resource_name="to", resource_pattern_type=4),
    )
    ((_, _, names),) = acls.delete(any_acl(pattern_type_filter=pattern, resource_name_filter=name))
    assert names == found
