"""Arguments of reads: what is refused, and what becomes of the rest."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
import pytest

import fencepost.arrow
from fencepost.arrow import ArgumentError
from fencepost.arrow.arguments import client_of, subscription_of
from fencepost.arrow.options import Subscription
from fencepost.client.config import ClientConfig
from fencepost.client.errors import ConfigError
from fencepost.client.metadata import TopicPartition

NOWHERE = "127.0.0.1:1"


def test_servers_are_addresses_properties_or_a_clients_settings():
    assert client_of("a:1,b:2", None).bootstrap_servers == "a:1,b:2"
    given = client_of({"bootstrap.servers": "a:1", "client.id": "me"}, "read_committed")
    assert (given.client_id, given.isolation_level) == ("me", "read_committed")
    assert client_of("a:1", None).client_id == "fencepost-arrow"
    config = ClientConfig(bootstrap_servers="a:1", isolation_level="read_committed")
    assert client_of(config, None) is config
    assert client_of(config, "read_uncommitted").isolation_level == "read_uncommitted"


def test_subscriptions():
    assert subscription_of("t", None, None) == Subscription(topics=("t",))
    assert subscription_of(["b", "a", "b"], None, None) == Subscription(topics=("b", "a"))
    assert subscription_of(None, "o.*", None) == Subscription(pattern="o.*")
    assert subscription_of(None, None, {"t": range(2), "a": [5, 5]}) == Subscription(
        assigned=(TopicPartition("a", 5), TopicPartition("t", 0), TopicPartition("t", 1))
    )


@pytest.mark.parametrize(
    ("argument", "given"),
    [
        ("topics", {"topics": None}),
        ("topics", {"topics": []}),
        ("topics", {"topics": 5}),
        ("topics", {"topics": [b"t"]}),
        ("topics", {"topics": ""}),
        ("topics", {"topics": "t" * 250}),
        ("pattern", {"pattern": "t.*"}),
        ("pattern", {"topics": None, "pattern": "("}),
        ("pattern", {"topics": None, "pattern": ""}),
        ("pattern", {"topics": None, "pattern": 5}),
        ("pattern", {"topics": None, "pattern": "a" * 10_001}),
        ("assign", {"topics": None, "assign": {}}),
        ("assign", {"topics": None, "assign": {"t": []}}),
        ("assign", {"topics": None, "assign": {"t": "01"}}),
        ("assign", {"topics": None, "assign": {"t": [-1]}}),
        ("assign", {"topics": None, "assign": {"t": [2**31]}}),
        ("assign", {"topics": None, "assign": {"t": [True]}}),
        ("assign", {"topics": None, "assign": ["t"]}),
        ("start", {"start": "soon"}),
        ("end", {"end": "earliest"}),
        ("end", {"end": {"t": {0: "earliest"}}}),
        ("columns", {"columns": []}),
        ("columns", {"columns": "value"}),
        ("columns", {"columns": ["Value"]}),
        ("columns", {"columns": ["value", "value"]}),
        ("columns", {"columns": [5]}),
        ("text", {"text": "topic"}),
        ("text", {"text": 5}),
        ("text", {"text": ["key", "offset"]}),
        ("on_data_loss", {"on_data_loss": "ignore"}),
        ("on_data_loss", {"on_data_loss": False}),
        ("on_data_loss", {"on_data_loss": []}),
        ("threads", {"threads": 0}),
        ("threads", {"threads": None}),
        ("threads", {"threads": 1.5}),
        ("min_partitions", {"min_partitions": 0}),
        ("stall_timeout_ms", {"stall_timeout_ms": 0}),
        ("stall_timeout_ms", {"stall_timeout_ms": None}),
        ("filters", {"filters": []}),
        ("filters", {"filters": [[]]}),
        ("filters", {"filters": "offset > 5"}),
        ("filters", {"filters": ("offset", ">", 5)}),
        ("filters", {"filters": [("offset", ">")]}),
        ("filters", {"filters": [("offset", "~", 5)]}),
        ("filters", {"filters": [("ofset", ">", 5)]}),
        ("filters", {"filters": [("headers", "=", 5)]}),
        ("filters", {"filters": [("offset", ">", "5")]}),
        ("filters", {"filters": [("offset", ">", True)]}),
        ("filters", {"filters": [("offset", ">", 2**63)]}),
        ("filters", {"filters": [("offset", "in", 5)]}),
        ("filters", {"filters": [("topic", "in", "t")]}),
        ("filters", {"filters": [("topic", "=", None)]}),
        ("filters", {"filters": [("value", "=", 5)]}),
        ("filters", {"filters": [("timestamp", ">", 5)]}),
        ("filters", {"filters": [("offset", ">", 5), [("offset", ">", 5)]]}),
        ("filters", {"filters": [("topic", "=", "\ud800")]}),
        ("filters", {"filters": [("key", "in", ["\ud800"])]}),
        ("filters", {"filters": [("offset", "!=", n) for n in range(1001)]}),
        ("filters", {"filters": [[("offset", "=", n)] for n in range(1001)]}),
        ("filters", {"filters": pc.field("nothing") > 5}),
        ("filters", {"filters": pc.field("offset") + 5}),
        ("filters", {"filters": pc.field("offset") > "x"}),
    ],
    ids=lambda given: str(given)[:60],
)
def test_wrong_arguments_are_refused_before_a_broker_is_asked(argument: str, given: Any):
    with pytest.raises(ArgumentError, match=f"^{argument}=") as raised:
        fencepost.arrow.scan(NOWHERE, **{"topics": "t", **given})
    assert raised.value.parameters["argument"] == argument
    assert isinstance(raised.value, ValueError)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("servers", [None, "", {}, {"client.id": "x"}, 5, ["a:1"]], ids=repr)
def test_servers_are_needed(servers: Any):
    with pytest.raises(ArgumentError, match=r"^servers="):
        fencepost.arrow.scan(servers, topics="t")


def test_wrong_properties_are_the_clients_to_refuse():
    for given, isolation in (({"isolation.level": "x"}, None), ({"no.such": 1}, None), ({}, "x")):
        with pytest.raises(ConfigError):
            client_of({"bootstrap.servers": NOWHERE, **given}, isolation)


def test_streams_refuse_what_is_theirs_alone():
    for argument, value in (("max_offsets", 0), ("max_offsets", "5")):
        with pytest.raises(ArgumentError, match=f"^{argument}="):
            fencepost.arrow.stream(NOWHERE, topics="t", **{argument: value})
    with pytest.raises(TypeError, match="end"):
        fencepost.arrow.stream(NOWHERE, topics="t", end="latest")
