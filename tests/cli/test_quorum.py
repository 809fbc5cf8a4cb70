"""`fencepost quorum` with options that cannot be: said in one line, before anybody is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.cli.main import main

ID, DIRECTORY, LISTENER = "9", "lnnLXmBzSSOJWn5hTmk93g", "CONTROLLER://127.0.0.1:9093"


def add(id_: str = ID, directory: str = DIRECTORY, listener: str = LISTENER) -> list[str]:
    return ["add-voter", "--id", id_, "--directory-id", directory, "--listener", listener]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (add(id_="-1"), "a node id is a number"),
        (add(id_="2147483648"), "a node id is a number"),
        (add(id_="x"), "a node id is a number"),
        (add(directory="xx"), "--directory-id 'xx'"),
        (add(directory="AAAAAAAAAAAAAAAAAAAAAA"), "no directory's"),
        (add(listener="127.0.0.1:9093"), "NAME://HOST:PORT"),
        (add(listener="CONTROLLER://127.0.0.1:0"), "a port is a number"),
        (add(listener="CONTROLLER://127.0.0.1:65536"), "a port is a number"),
        (add()[:3], "give --config, or"),
        ([*add(), "--config", "x"], "--config says what"),
        (["remove-voter", "--id", "1.5"], "a node id is a number"),
        (["remove-voter", "--id", "1", "--directory-id", ""], "--directory-id ''"),
        (["describe", "--bootstrap-controller", ""], "must not be empty"),
        (["describe", "--bootstrap-controller", "nowhere"], "HOST:PORT"),
    ],
)
def test_what_cannot_be(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["quorum", *words])
    except SystemExit as error:  # argparse's way to say that the command line is wrong
        code = int(error.code or 0)
    printed = capsys.readouterr()
    assert code == 2 and printed.out == ""
    last = printed.err.splitlines()[-1]
    assert last.startswith("fencepost quorum") and says in last


def test_a_configuration_that_is_not_there_is_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "missing")
    assert main(["quorum", "add-voter", "--config", path]) == 2
    assert capsys.readouterr().err.count(path) == 1
