"""Regular expressions of subscriptions: what is taken as by RE2/J, and whole names alone match."""

from __future__ import annotations

import sys

import pytest

from fencepost.machines.group.consumer.regexes import (
    LENGTH_MAX,
    InvalidRegexError,
    compile_regex,
    resolve_regexes,
)

pytest.importorskip("re2")

TAKEN = [
    *("", "|", "()", "(?:)", "a{1000}", "(?i)a", "(?s).", "(?U)a+", "\\A", "\\z", "\\pN"),
    *(
        "\\p{Greek}",
        "[[:alpha:]]",
        "\\x{10FFFF}",
        "\\Qabc",
        "\\\\C",
        "\\Q\\C\\E",
        "^topic",
        "topic$",
    ),
    *("(?P<a>x)", "(?<a>x)", "(?P<a>x)(?<b>y)", "(?P<1a>x)", "(?P<a>x)\\(?P<a>y\\)"),
    *("\\Q(?P<a>x)(?P<a>y)\\E", "\\Q(?P<a>x)\\E(?P<a>y)", "[(?P<a>x)(?P<a>y)]"),
    *("(?P<a>[[:alpha:](?P<a>])", "[]\\](?P<a>x](?P<a>y)"),
]
"""Both RE2/J 1.8 and we take these."""

REFUSED = [
    *("a\\C", "\\C", "[\\C]", "\\\\\\C", "\\Qa\\E\\C", "(?P<a>x)(?P<a>y)", "(?<a>x)(?<a>y)"),
    *("(?<a>x)(?P<a>y)", "(?P<a>x)|(?P<a>y)", "((?P<a>x)(?P<b>(?P<a>y)))", "(?P<é>x)", "(?<ä>x)"),
    *("[", "(", "[^a", "a{1001}", ".{2,1}", "x**", "a++", "(?=a)", "(?!a)", "(?<=a)b", "\\1"),
    *("\\h", "\\R", "\\Z", "\\8", "\\k<a>", "(?x)a", "(?i", "(?P<n", "\\p{Foo}", "[[:foo:]]"),
    *("[z-a]", "[a-\\d]", "*", "+a", "a|*", "\\", "\\x{110000}"),
]
"""Neither does."""


@pytest.mark.parametrize("text", TAKEN)
def test_an_expression_of_re2j_is_taken(text: str) -> None:
    assert compile_regex(text).text == text


@pytest.mark.parametrize("text", REFUSED)
def test_what_re2j_refuses_is_refused_in_words_for_the_client(text: str) -> None:
    with pytest.raises(InvalidRegexError) as refused:
        compile_regex(text)
    assert text in str(refused.value)
    assert not str(refused.value).endswith("'"), "words, not the text of bytes"


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("topic", {"topic"}),
        ("^topic", {"topic"}),
        ("topic$", {"topic"}),
        ("topic.*", {"topic", "topic-2"}),
        ("t", set()),
        ("", set()),
        (".*", {"topic", "topic-2", "other"}),
        ("topic|other", {"topic", "other"}),
        ("(?i)TOPIC(-\\d)?", {"topic", "topic-2"}),
        ("a\\C", set()),
    ],
)
def test_an_expression_matches_whole_names(text: str, matched: set[str]) -> None:
    names = ["topic", "topic-2", "other"]
    assert resolve_regexes([text], names) == {text: matched}


def test_all_expressions_are_resolved_in_one_go_and_a_stored_one_may_be_invalid() -> None:
    names = iter(["a", "b"])
    assert resolve_regexes(["a", "[", "."], names) == {"a": {"a"}, "[": set(), ".": {"a", "b"}}
    assert resolve_regexes([], ["a"]) == {}


@pytest.mark.parametrize(
    "text",
    [
        "a" * (LENGTH_MAX + 1),
        "((a{100}){100}){10}",
        "(((((a{10}){10}){10}){10}){10}){10}",
        r"(\pL{100}){2}",
        "\ud800",
    ],
    ids=["long", "repetitions", "nested", "classes", "surrogate"],
)
def test_an_expression_that_would_take_too_much_is_refused(text: str) -> None:
    with pytest.raises(InvalidRegexError):
        compile_regex(text)


def test_time_is_linear_in_the_name() -> None:
    """A matcher that goes back over the name would not end before the test's time limit."""
    assert not compile_regex("(a*)*(a|aa)*b").matches("a" * 249)


def test_without_google_re2_no_expression_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(InvalidRegexError, match="not available"):
        compile_regex("a")
    assert resolve_regexes(["a"], ["a"]) == {"a": frozenset()}
