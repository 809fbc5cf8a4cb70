"""Configs of brokers beside each other, and what is never shown of them."""

from __future__ import annotations

from typing import Any

from fencepost.client.config_descriptions import DescribedConfig, _config
from fencepost.views.config_comparison import (
    ConfigAgainstDefault,
    compared_configs,
    properties_text,
)
from fencepost.views.rendering import document_of
from fencepost.wire.api.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsSynonym,
)

SECRET = "hunter2"


def entry(name: str, value: str | None, source: int = 5, **fields: Any) -> DescribedConfig:
    """A config as a broker's answer is read."""
    synonyms = [
        DescribeConfigsSynonym(name=n, value=v, source=s) for n, v, s in fields.pop("synonyms", ())
    ]
    return _config(
        DescribeConfigsResourceResult(
            name=name,
            value=value,
            read_only=False,
            config_source=source,
            is_sensitive=fields.pop("sensitive", False),
            synonyms=synonyms,
        )
    )


def test_only_what_differs_or_is_set_is_listed():
    brokers = {
        1: [entry("a", "1"), entry("b", "1", 4, synonyms=[("b", "1", 4), ("b", "0", 5)])],
        2: [entry("a", "1"), entry("b", "0"), entry("c", "x")],
    }
    found = {one.name: one for one in compared_configs(brokers)}
    assert list(found) == ["b", "c"]
    assert (found["b"].differs, found["b"].set_on, found["b"].default) == (True, [1], "0")
    assert (found["c"].differs, found["c"].values) == (True, {2: "x"})
    assert [one.name for one in compared_configs(brokers, all_of_them=True)] == ["a", "b", "c"]


def test_no_rendering_has_a_sensitive_value_or_says_that_two_differ():
    """A broker that does not mark a password as sensitive is not believed."""
    ours = [
        entry(name, SECRET, 4, sensitive=sensitive, synonyms=[(name, SECRET, 4), (name, SECRET, 5)])
        for name, sensitive in (
            ("ssl.keystore.password", False),
            ("listener.name.x.plain.sasl.jaas.config", False),
            ("anything", True),
        )
    ]
    theirs = [entry("anything", "other", 4, sensitive=True)]
    compared = compared_configs({1: ours, 2: theirs, 3: ours})
    alone = [ConfigAgainstDefault.of(one) for one in ours]
    assert SECRET not in f"{document_of(compared)}{document_of(alone)}"
    assert SECRET not in properties_text(alone)
    assert "# anything is set, and (hidden)" in properties_text(alone)
    assert not any(one.differs for one in compared)


def test_text_to_copy_is_a_properties_file():
    configs = [
        entry("a", " b\\c\nd", 1),
        entry("default.one", "5"),
        entry("none", None, 1),
        entry("space", "\tx\r\ty ", 1),
        entry("unicode", "ü=1", 1),
    ]
    text = properties_text([ConfigAgainstDefault.of(one) for one in configs])
    lines = ["a=\\ b\\\\c\\nd", "space=\\tx\\r\\ty ", "unicode=ü=1"]
    assert text.split("\n") == lines


def test_what_is_behind_a_value_has_the_name_that_gives_it():
    found = entry(
        "retention.ms",
        "5",
        1,
        synonyms=[("retention.ms", "5", 1), ("log.retention.ms", "7", 4), ("log.hours", "1", 5)],
    )
    assert (found.inherited, found.default) == ("log.retention.ms=7", "log.hours=1")
    old = entry("retention.ms", "5", 1)
    assert (old.inherited, old.default) == (None, None), "version 0 has no synonyms"
