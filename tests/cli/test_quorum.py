"""`fencepost quorum` with options that cannot be: said in one line, before anybody is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest

from fencepost.cli.main import main
from fencepost.client.errors import BrokerError
from fencepost.client.quorum import QuorumDescription, QuorumReplica
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

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
        (add(listener="CONTROLLER://127.0.0.1:0"), "with a port from 1 to 65535"),
        (add(listener="CONTROLLER://127.0.0.1:65536"), "with a port from 1 to 65535"),
        (add()[:3], "give --config, or"),
        ([*add(), "--config", "x"], "--config says what"),
        (["remove-voter", "--id", "1.5"], "a node id is a number"),
        (["remove-voter", "--id", "1", "--directory-id", ""], "--directory-id ''"),
        (["describe", "--bootstrap-controller", ""], "must not be empty"),
        (["describe", "--bootstrap-controller", "nowhere"], "HOST:PORT"),
    ],
)
def test_wrong_options_are_named_before_anybody_is_asked(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
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


class LosingAdmin:
    """A quorum whose leader does what it is asked, and goes before it has answered.

    The client asks the next leader again, which has heard of it: what that says is told. `voters`
    are directories by node id, as `fencepost.client.quorum.QuorumAdmin` finds them.
    """

    voters: ClassVar[dict[int, str]] = {}
    does: ClassVar[bool] = True

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> LosingAdmin:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def connect(self, limit_ms: float) -> None:
        pass

    def describe(self) -> QuorumDescription:
        replicas = [
            QuorumReplica(node_id, Uuid.from_string(directory), 5, 5, 5)
            for node_id, directory in self.voters.items()
        ]
        return QuorumDescription(1, 3, 5, replicas, [], {})

    def add_voter(self, node_id: int, directory_id: Uuid, listeners: object) -> None:
        if self.does:
            self.voters[node_id] = str(directory_id)
        raise BrokerError.of(ErrorCode.DUPLICATE_VOTER, f"node {node_id} was not added")

    def remove_voter(self, node_id: int, directory_id: Uuid) -> None:
        if self.does:
            del self.voters[node_id]
        raise BrokerError.of(ErrorCode.VOTER_NOT_FOUND, f"node {node_id} was not removed")


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> type[LosingAdmin]:
    monkeypatch.setattr("fencepost.client.quorum.QuorumAdmin", LosingAdmin)
    monkeypatch.setattr(LosingAdmin, "voters", {1: DIRECTORY})
    return LosingAdmin


OTHER = "JEXY6aqzQY-32P5TStzaFg"


def test_a_voter_whose_removal_was_not_answered_is_removed(
    losing: type[LosingAdmin], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["quorum", "remove-voter", "--id", "1"]) == 0
    assert capsys.readouterr().out == "node 1 does not vote any more\n"


@pytest.mark.parametrize("others", [{}, {2: OTHER}])
def test_a_voter_that_the_leader_keeps_is_not_said_to_be_removed(
    losing: type[LosingAdmin],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    others: dict[int, str],
) -> None:
    """Kafka answers VOTER_NOT_FOUND also where it would remove the only one."""
    monkeypatch.setattr(losing, "does", False)
    losing.voters.update(others)
    assert main(["quorum", "remove-voter", "--id", "1"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert ("it is the only voter" in printed.err) is (not others)
    assert "[VOTER_NOT_FOUND]" in printed.err


def test_a_voter_whose_addition_was_not_answered_is_added(
    losing: type[LosingAdmin], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["quorum", *add(directory=OTHER)]) == 0
    assert capsys.readouterr().out == f"node 9 votes, with {OTHER}\n"


def test_the_log_end_of_a_voter_without_a_fetch_is_unknown(
    losing: type[LosingAdmin], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unheard = QuorumReplica(2, Uuid.ZERO, -1, -1, -1)
    behind = QuorumReplica(3, Uuid.ZERO, 4, 5, 5)
    leader = QuorumReplica(1, Uuid.from_string(DIRECTORY), 5, 5, 5)
    found = QuorumDescription(1, 3, 5, [leader, unheard, behind], [], {})
    monkeypatch.setattr(losing, "describe", lambda _: found)
    assert main(["quorum", "describe", "--json"]) == 0
    replicas = json.loads(capsys.readouterr().out)["replicas"]
    assert [(one["log_end_offset"], one["lag"]) for one in replicas] == [
        (5, 0),
        (None, None),
        (4, 1),
    ]
    assert main(["quorum", "describe"]) == 0
    row = capsys.readouterr().out.splitlines()[3]
    assert row.split()[:6] == ["2", "-", "follower", "-", "-", "-"]


@pytest.mark.parametrize("since", [False, True])
def test_a_voter_with_another_directory_id_is_not_said_to_be_added(
    losing: type[LosingAdmin],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    since: bool,
) -> None:
    """Whether it was a voter before, or another operator has added it since."""
    monkeypatch.setattr(losing, "does", False)
    if since:
        described = losing.describe

        def describe(self: LosingAdmin) -> QuorumDescription:
            found = described(self)
            self.voters[9] = DIRECTORY
            return found

        monkeypatch.setattr(losing, "describe", describe)
    else:
        losing.voters[9] = DIRECTORY
    assert main(["quorum", *add(directory=OTHER)]) == 1
    assert f"votes with another directory, {DIRECTORY}" in capsys.readouterr().err
