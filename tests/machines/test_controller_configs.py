"""Configs in the controller: single changes (KIP-339), and all of a resource at once (KIP-133)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fencepost.log.configdef import ConfigError
from fencepost.machines.controller.configs import APPEND, DELETE, SET, SUBTRACT
from fencepost.machines.image import RESOURCE_BROKER, RESOURCE_GROUP, RESOURCE_TOPIC
from fencepost.wire.api.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig as Change,
    AlterConfigsResource as ChangedResource,
    IncrementalAlterConfigsRequest,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.metadata import ConfigRecord

from .controller_fixtures import Bench, cluster

Given = list[tuple[str, str | None]]


def check_group(texts: Mapping[str, str]) -> None:
    """All configs of a group: one that is a number, and one that is not longer than that."""
    for name, text in texts.items():
        if name not in ("size", "text") or (name == "size" and not text.isdecimal()):
            raise ConfigError(name, text, "not allowed")
    if len(texts.get("text", "")) > int(texts.get("size", "3")):
        raise ConfigError("text", texts["text"], "longer than size")


CHECKS = {RESOURCE_GROUP: check_group}


# -- IncrementalAlterConfigs -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "changes", "error"),
    [
        (RESOURCE_TOPIC, "t", [(SET, "retention.ms", "1")], ErrorCode.NONE),
        (RESOURCE_TOPIC, "t", [(SET, "retention.ms", "x")], ErrorCode.INVALID_CONFIG),
        (RESOURCE_TOPIC, "t", [(SET, "nope", "1")], ErrorCode.INVALID_CONFIG),
        (RESOURCE_TOPIC, "t", [(DELETE, "nope", None)], ErrorCode.NONE),
        (RESOURCE_TOPIC, "t", [(SET, "retention.ms", None)], ErrorCode.INVALID_REQUEST),
        (RESOURCE_TOPIC, "t", [(9, "retention.ms", "1")], ErrorCode.INVALID_REQUEST),
        (RESOURCE_TOPIC, "t", [(APPEND, "retention.ms", "1")], ErrorCode.INVALID_CONFIG),
        (RESOURCE_TOPIC, "t", [(SUBTRACT, "retention.ms", "1")], ErrorCode.INVALID_CONFIG),
        (RESOURCE_TOPIC, "", [(APPEND, "retention.ms", "1")], ErrorCode.INVALID_CONFIG),
        (RESOURCE_TOPIC, "t", [(APPEND, "cleanup.policy", "foo")], ErrorCode.INVALID_CONFIG),
        (
            RESOURCE_TOPIC,
            "t",
            [(SET, "retention.ms", "1"), (DELETE, "retention.ms", None)],
            ErrorCode.INVALID_REQUEST,
        ),
        (
            RESOURCE_TOPIC,
            "t",
            [(SET, "retention.ms", "1"), (SET, "nope", "1")],
            ErrorCode.INVALID_CONFIG,
        ),
        (RESOURCE_TOPIC, "t", [(SET, "compression.type", "x" * 40_000)], ErrorCode.INVALID_CONFIG),
        (RESOURCE_TOPIC, "zz", [(SET, "retention.ms", "1")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (RESOURCE_TOPIC, "", [(SET, "retention.ms", "1")], ErrorCode.INVALID_REQUEST),
        (RESOURCE_TOPIC, "a b", [(SET, "retention.ms", "1")], ErrorCode.INVALID_TOPIC_EXCEPTION),
        (RESOURCE_BROKER, "", [(SET, "log.retention.ms", "1")], ErrorCode.NONE),
        (RESOURCE_BROKER, "1", [(SET, "anything", "1")], ErrorCode.NONE),
        (RESOURCE_BROKER, "77", [(SET, "anything", "1")], ErrorCode.BROKER_ID_NOT_REGISTERED),
        (RESOURCE_BROKER, "x", [(SET, "log.retention.ms", "1")], ErrorCode.INVALID_REQUEST),
        (RESOURCE_BROKER, "-1", [(SET, "log.retention.ms", "1")], ErrorCode.INVALID_REQUEST),
        (RESOURCE_BROKER, str(2**31), [(SET, "a", "1")], ErrorCode.INVALID_REQUEST),
        (RESOURCE_BROKER, "1", [(SET, "a", "x" * 32_768)], ErrorCode.INVALID_CONFIG),
        (RESOURCE_BROKER, "1", [(APPEND, "a", "x")], ErrorCode.INVALID_CONFIG),
        (RESOURCE_GROUP, "g", [(SET, "size", "5")], ErrorCode.NONE),
        (RESOURCE_GROUP, "g", [(SET, "size", "x")], ErrorCode.INVALID_CONFIG),
        (RESOURCE_GROUP, "g", [(SET, "nope", "5")], ErrorCode.INVALID_CONFIG),
        (RESOURCE_GROUP, "g", [(DELETE, "nope", None)], ErrorCode.NONE),
        (RESOURCE_GROUP, "g", [(APPEND, "text", "a")], ErrorCode.INVALID_CONFIG),
        (RESOURCE_GROUP, "g", [(SET, "text", "abcd")], ErrorCode.INVALID_CONFIG),
        (RESOURCE_GROUP, "", [(SET, "size", "5")], ErrorCode.INVALID_REQUEST),
        (8, "1", [(SET, "logger", "DEBUG")], ErrorCode.INVALID_REQUEST),
        (99, "x", [(SET, "a", "1")], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_config_changes_are_checked(
    kind: int, name: str, changes: Any, error: ErrorCode, validate_only: bool
) -> None:
    bench = cluster(1, resource_checks=CHECKS)
    bench.create("t")
    before = len(bench.log)
    result = bench.alter_config(kind, name, *changes, validate=validate_only)
    assert result.error_code == error
    assert (result.error_message is None) is (error is ErrorCode.NONE)
    if error is not ErrorCode.NONE or validate_only:
        assert len(bench.log) == before
    elif changes[0][0] == SET:
        assert bench.image.configs_of(kind, name) == {key: value for _, key, value in changes}


def test_lists_grow_and_shrink() -> None:
    bench = cluster(1, resource_checks=CHECKS)
    bench.create("t")
    policy = "cleanup.policy"

    def after(operation: int, value: str) -> str:
        assert bench.alter_config(RESOURCE_TOPIC, "t", (operation, policy, value)).error_code == 0
        return bench.image.topic_configs("t")[policy]

    assert after(APPEND, "compact") == "delete,compact", "to the default"
    assert after(APPEND, "compact,compact") == "delete,compact"
    assert after(SUBTRACT, "delete") == "compact"
    assert after(SUBTRACT, "delete") == "compact"
    assert after(SUBTRACT, "compact") == ""
    assert after(APPEND, "delete") == "delete"


def test_all_configs_of_a_group_are_checked_together() -> None:
    bench = cluster(1, resource_checks=CHECKS)
    assert bench.alter_config(RESOURCE_GROUP, "g", (SET, "size", "4")).error_code == 0
    assert bench.alter_config(RESOURCE_GROUP, "g", (SET, "text", "abcd")).error_code == 0
    refused = bench.alter_config(RESOURCE_GROUP, "g", (DELETE, "size", None))
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert bench.image.configs_of(RESOURCE_GROUP, "g") == {"size": "4", "text": "abcd"}


THROTTLED = "leader.replication.throttled.replicas"


@pytest.mark.parametrize(
    ("key", "present", "operation", "value", "after"),
    [
        ("cleanup.policy", "compact", APPEND, "", None),
        ("cleanup.policy", "compact", APPEND, " ", None),
        ("cleanup.policy", "compact", APPEND, "delete,,", "compact,delete"),
        ("cleanup.policy", "compact", APPEND, ",", "compact"),
        ("cleanup.policy", "compact", APPEND, ",delete", None),
        ("cleanup.policy", "compact", APPEND, "delete,delete", "compact,delete"),
        ("cleanup.policy", "", APPEND, "compact", "compact"),
        ("cleanup.policy", "compact", SUBTRACT, "", "compact"),
        (THROTTLED, "0:1", APPEND, "*", None),
        (THROTTLED, "*", APPEND, "0:1", None),
        (THROTTLED, "*", APPEND, "*", "*"),
        (THROTTLED, "", APPEND, "*", "*"),
        (THROTTLED, "0:1", APPEND, "", "0:1,"),
        (THROTTLED, "0:1,", APPEND, "0:2", "0:1,0:2"),
        (THROTTLED, "*", SUBTRACT, "*", ""),
    ],
)
def test_a_list_that_is_wrong_after_it_has_grown_is_refused(
    key: str, present: str, operation: int, value: str, after: str | None
) -> None:
    bench = cluster(1, resource_checks=CHECKS)
    bench.create("t", configs={key: present})
    result = bench.alter_config(RESOURCE_TOPIC, "t", (operation, key, value))
    expected = ErrorCode.INVALID_CONFIG if after is None else ErrorCode.NONE
    assert result.error_code == expected
    assert bench.image.topic_configs("t") == {key: present if after is None else after}


def test_unchanged_topic_configs_are_not_written_but_broker_configs_are() -> None:
    bench = cluster(1)
    bench.create("t", configs={"retention.ms": "5"})
    before = len(bench.log)
    bench.alter_config(RESOURCE_TOPIC, "t", (SET, "retention.ms", "5"))
    assert len(bench.log) == before
    for _ in range(2):
        bench.alter_config(RESOURCE_BROKER, "1", (SET, "ssl.keystore.location", "/k"))
    assert len(bench.log) == before + 2
    bench.alter_config(RESOURCE_TOPIC, "t", (DELETE, "retention.ms", None))
    assert bench.image.topic_configs("t") == {}


def test_a_resource_named_twice_is_not_changed_at_all() -> None:
    bench = cluster(1)
    bench.create("t")
    twice = ChangedResource(resource_type=RESOURCE_TOPIC, resource_name="t")
    request = IncrementalAlterConfigsRequest(resources=[twice, twice])
    reply = bench.do(bench.controller.decide_incremental_alter_configs(request))
    assert [r.error_code for r in reply.responses] == [ErrorCode.INVALID_REQUEST] * 2


def test_what_is_stored_of_a_resource_is_bounded() -> None:
    """Keys that no broker has may have any name: a stranger could fill the metadata with them."""
    bench = cluster(1, resource_checks=CHECKS)

    def code(*changes: tuple[int, str, str | None]) -> ErrorCode:
        return ErrorCode(bench.alter_config(RESOURCE_BROKER, "", *changes).error_code)

    too_many, long = ErrorCode.INVALID_CONFIG, "x" * 32_000
    assert code(*((SET, f"k{number}", "1") for number in range(1_001))) == too_many
    assert bench.image.broker_configs() == {}
    assert code(*((SET, f"k{number:03}", "1") for number in range(1_000))) == ErrorCode.NONE
    assert code((SET, "another", "1")) == too_many
    assert code((SET, "another", "1"), (DELETE, "k000", None)) == ErrorCode.NONE
    assert code(*((SET, f"k{number:03}", long) for number in range(1, 34))) == too_many
    assert code(*((SET, f"k{number:03}", long) for number in range(1, 33))) == ErrorCode.NONE
    assert code((SET, "k040", long), (DELETE, "k001", None)) == ErrorCode.NONE
    assert code((SET, "k041", "x" * 30_000)) == too_many


def test_a_request_comes_to_a_limited_number_of_records() -> None:
    changes = [(SET, f"k{number:03}", "1") for number in range(1_000)]
    resources = [
        ChangedResource(
            resource_type=RESOURCE_BROKER,
            resource_name=str(number) if number else "",
            configs=[
                Change(name=name, config_operation=operation, value=value)
                for operation, name, value in (changes if number < 10 else changes[:1])
            ],
        )
        for number in range(11)
    ]
    bench = cluster(*range(1, 11), resource_checks=CHECKS)
    request = IncrementalAlterConfigsRequest(resources=resources)
    written = len(bench.log)
    reply = bench.do(bench.controller.decide_incremental_alter_configs(request))
    too_many = "Unable to perform excessively large batch operation."
    assert {(r.error_code, r.error_message) for r in reply.responses} == {
        (ErrorCode.POLICY_VIOLATION, too_many)
    }
    assert len(reply.responses) == 11 and len(bench.log) == written
    request.resources.pop()
    reply = bench.do(bench.controller.decide_incremental_alter_configs(request))
    assert {r.error_code for r in reply.responses} == {0}
    assert len(bench.log) == written + 10_000


def test_a_resource_that_has_too_much_may_shrink() -> None:
    """Apache Kafka's controllers have no such bound, and their metadata is taken as it is."""
    bench = cluster(1, resource_checks=CHECKS)
    bench.apply(
        [
            ConfigRecord(resource_type=RESOURCE_BROKER, resource_name="", name=f"k{n}", value="1")
            for n in range(1_500)
        ]
    )
    changed: list[tuple[int, str, str | None]] = [(SET, "k1", "2"), (DELETE, "k2", None)]
    assert bench.alter_config(RESOURCE_BROKER, "", *changed).error_code == ErrorCode.NONE
    more: list[tuple[int, str, str | None]] = [(SET, "one", "1"), (SET, "more", "1")]
    assert bench.alter_config(RESOURCE_BROKER, "", *more).error_code == ErrorCode.INVALID_CONFIG


# -- AlterConfigs -------------------------------------------------------------------------------


def resource(kind: int, name: str, given: Given) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=key, value=value) for key, value in given],
    )


def replace(bench: Bench, *resources: AlterConfigsResource, validate: bool = False) -> list[Any]:
    request = AlterConfigsRequest(resources=list(resources), validate_only=validate)
    responses: list[Any] = bench.do(bench.controller.decide_alter_configs(request)).responses
    return responses


def written(bench: Bench, since: int) -> list[tuple[str, str | None]]:
    return [(r.name, r.value) for r in bench.log[since:] if isinstance(r, ConfigRecord)]


def test_what_is_not_named_is_deleted() -> None:
    bench = cluster(1)
    bench.create("t", configs={"retention.ms": "5", "segment.ms": "6", "flush.ms": "7"})
    before = len(bench.log)
    given: Given = [("retention.ms", "50"), ("segment.ms", "6"), ("max.message.bytes", "9")]
    [result] = replace(bench, resource(RESOURCE_TOPIC, "t", given))
    assert (result.error_code, result.error_message) == (0, None)
    assert bench.image.topic_configs("t") == dict(given)
    assert written(bench, before) == [
        ("retention.ms", "50"),
        ("max.message.bytes", "9"),
        ("flush.ms", None),
    ], "what changes is written, then what is gone"


def test_nothing_named_deletes_everything() -> None:
    bench = cluster(1)
    bench.create("t", configs={"retention.ms": "5", "segment.ms": "6"})
    [result] = replace(bench, resource(RESOURCE_TOPIC, "t", []))
    assert result.error_code == 0
    assert bench.image.topic_configs("t") == {}


def test_values_that_do_not_go_together_only_with_what_is_deleted_are_fine() -> None:
    """The result is what counts: the value that would not go with the new one goes away."""
    bench = cluster(1)
    bench.create("t", configs={"min.compaction.lag.ms": "100"})
    given: Given = [("max.compaction.lag.ms", "50")]
    assert replace(bench, resource(RESOURCE_TOPIC, "t", given))[0].error_code == 0
    assert bench.image.topic_configs("t") == dict(given)


def test_broker_configs_are_written_even_if_they_are_the_same() -> None:
    bench = cluster(1)
    given: Given = [("ssl.keystore.location", "/k")]
    for _ in range(2):
        before = len(bench.log)
        assert replace(bench, resource(RESOURCE_BROKER, "1", given))[0].error_code == 0
        assert written(bench, before) == given


@pytest.mark.parametrize("validate", [False, True])
@pytest.mark.parametrize(
    ("kind", "name", "given", "error"),
    [
        (RESOURCE_TOPIC, "t", [("retention.ms", "1")], ErrorCode.NONE),
        (RESOURCE_TOPIC, "t", [("retention.ms", "x")], ErrorCode.INVALID_CONFIG),
        (RESOURCE_TOPIC, "t", [("nope", "1")], ErrorCode.INVALID_CONFIG),
        (RESOURCE_TOPIC, "t", [("retention.ms", None)], ErrorCode.INVALID_REQUEST),
        (RESOURCE_TOPIC, "t", [("flush.ms", "1"), ("flush.ms", "1")], ErrorCode.INVALID_REQUEST),
        (RESOURCE_TOPIC, "t", [("compression.type", "x" * 40_000)], ErrorCode.INVALID_CONFIG),
        (RESOURCE_TOPIC, "zz", [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (RESOURCE_TOPIC, "", [], ErrorCode.INVALID_REQUEST),
        (RESOURCE_TOPIC, "a b", [], ErrorCode.INVALID_TOPIC_EXCEPTION),
        (RESOURCE_BROKER, "", [("log.retention.ms", "1")], ErrorCode.NONE),
        (RESOURCE_BROKER, "77", [], ErrorCode.BROKER_ID_NOT_REGISTERED),
        (RESOURCE_BROKER, "x", [], ErrorCode.INVALID_REQUEST),
        (RESOURCE_GROUP, "g", [("size", "5")], ErrorCode.NONE),
        (RESOURCE_GROUP, "g", [("size", "x")], ErrorCode.INVALID_CONFIG),
        (8, "1", [("logger", "DEBUG")], ErrorCode.INVALID_REQUEST),
        (16, "m", [("interval.ms", "1")], ErrorCode.INVALID_REQUEST),
        (99, "x", [], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_replacements_are_checked(
    kind: int, name: str, given: Given, error: ErrorCode, validate: bool
) -> None:
    bench = cluster(1, resource_checks=CHECKS)
    bench.create("t", configs={"segment.ms": "6"})
    before = len(bench.log)
    [result] = replace(bench, resource(kind, name, given), validate=validate)
    assert result.error_code == error
    assert (result.error_message is None) is (error is ErrorCode.NONE)
    if error is not ErrorCode.NONE or validate:
        assert len(bench.log) == before
    else:
        assert bench.image.configs_of(kind, name) == dict(given)


def test_resources_stand_or_fall_alone_and_none_may_be_named_twice() -> None:
    bench = cluster(1)
    bench.create("t")
    bench.create("u", configs={"flush.ms": "7"})
    results = replace(
        bench,
        resource(RESOURCE_TOPIC, "t", [("retention.ms", "1")]),
        resource(RESOURCE_TOPIC, "u", []),
        resource(RESOURCE_TOPIC, "t", []),
        resource(RESOURCE_TOPIC, "v", []),
    )
    assert [(r.resource_name, r.error_code) for r in results] == [
        ("t", ErrorCode.INVALID_REQUEST),
        ("u", 0),
        ("t", ErrorCode.INVALID_REQUEST),
        ("v", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert bench.image.topic_configs("t") == {}
    assert bench.image.topic_configs("u") == {}
