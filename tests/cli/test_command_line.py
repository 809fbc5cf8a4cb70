"""Names that are mistyped, options before the action, and the list of commands."""

from __future__ import annotations

import re

import pytest

from fencepost.cli.command_line import cluster_options_last
from fencepost.cli.commands import COMMANDS, GROUPS
from fencepost.cli.main import main
from fencepost.client.cluster import Cluster

from .commands import Fencepost


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What is printed about a wrong command line."""
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("topcis", "list"), "there is no command 'topcis': did you mean topics?"),
        (("groups", "ofsets"), "there is no action 'ofsets': did you mean offsets?"),
        (("groups", "reset-offsets"), "no action 'reset-offsets': did you mean offsets?"),
        (("cluster", "pauze"), "there is no action 'pauze': did you mean pause?"),
        (("-b", "127.0.0.1:1", "topic"), "there is no command 'topic': did you mean topics?"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], hint: str
):
    err = refused(capsys, *words)
    assert hint in err
    assert "choose from" not in err


def test_a_name_that_is_near_none_is_answered_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
):
    assert "`fencepost --help` lists them" in refused(capsys, "zzzzzz")
    err = refused(capsys, "groups", "zzzzzz")
    assert "there is no action 'zzzzzz'; there are list, describe," in err


@pytest.mark.parametrize(
    ("words", "usage", "told"),
    [
        (("consume", "t", "--isolaton", "x"), "fencepost consume", "did you mean --isolation?"),
        (("topics", "create", "t", "--partitons=3"), "fencepost topics create", "--partitions?"),
        (("topics", "list", "--qqq"), "fencepost topics list", "--qqq; see --help"),
        (("topics", "list", "more", "words"), "fencepost topics list", "arguments: more words"),
        (("console", "--listn", "x"), "fencepost console", "did you mean --listen?"),
    ],
)
def test_an_unknown_option_is_answered_with_the_usage_of_its_command(
    words: tuple[str, ...], usage: str, told: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"usage: {usage} [")
    assert told in printed.splitlines()[-1]


@pytest.mark.parametrize("option", ["-b", "--bootstrap-server"])
def test_the_cluster_is_named_before_the_action_as_well_as_after(
    served: str, option: str, capsys: pytest.CaptureFixture[str]
):
    with Cluster(served) as cluster:
        cluster.describe()
    given = ["-X", "client.id=me", "--timeout", "20", option, served]
    for words in (
        ["topics", "list", *given],
        ["topics", *given, "list"],
        [*given, "topics", "list"],
        ["topics", *given[:2], "list", *given[2:]],
    ):
        assert main(words) == 0, words
    assert main(["topics", f"--bootstrap-server={served}", f"-b{served}", "list"]) == 0
    assert main(["-b", served, "configs", "-X", "no.such.key=1", "describe", "--topic", "t"]) == 2
    assert "no.such.key" in capsys.readouterr().err


def test_words_behind_the_action_stay_where_they_are():
    words = ["groups", "-b", "h:1", "offsets", "g", "-X", "k=v", "--to", "1"]
    assert cluster_options_last(words) == [
        *("groups", "offsets", "-b", "h:1", "g", "-X", "k=v", "--to", "1")
    ]
    assert cluster_options_last(["consume", "-b", "h:1", "t"]) == ["consume", "t", "-b", "h:1"]
    for same in ([], ["--version"], ["topics"], ["serve", "-o", "k=v"], ["topics", "-b"]):
        assert cluster_options_last(same) == same


def test_help_lists_every_command_once_in_its_group(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    listed = re.findall(r"^  ([a-z][a-z-]+)  ", out, re.MULTILINE)
    assert listed == [command.name for command in COMMANDS]
    headings = [group for group in GROUPS if f"\n{group}:\n" in out]
    assert headings == list(GROUPS) == list(dict.fromkeys(one.group for one in COMMANDS))
    assert main([]) == 2
    assert "\n  serve  " in capsys.readouterr().err


def test_actions_are_still_found_by_fencepost_itself(run: Fencepost):
    assert run("topics", "list", "--json").code == 0


def test_a_group_type_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]):
    assert "--type: invalid choice: 'shar'" in refused(capsys, "groups", "list", "--type", "shar")
