"""How other terminals reach `fencepost cluster up`: strangers, damaged files, no `up` running."""

from __future__ import annotations

import json
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.cli.cluster import control
from fencepost.cli.cluster.control import FILE, LINE_BYTES_MAX, LOOPBACK, Control, ask
from fencepost.cli.failures import InputError
from fencepost.cli.main import main

from ..waiting import DEADLINE_S


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Control]:
    with Control(tmp_path) as made:
        yield made


def echoing(served: Control) -> threading.Thread:
    """A thread that answers one request with what was asked."""

    def run() -> None:
        asked = served.next(DEADLINE_S)
        assert asked is not None
        with asked:
            asked.answer({"asked": asked.request})

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def sent(directory: Path, data: bytes) -> bytes:
    """What comes back for raw bytes."""
    port = json.loads((directory / FILE).read_text())["port"]
    with socket.create_connection((LOOPBACK, port), DEADLINE_S) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(100)
        except OSError:
            return b""


def test_a_request_is_answered_and_its_secret_goes_no_further(served: Control, tmp_path: Path):
    thread = echoing(served)
    assert ask(tmp_path, {"action": "kill", "node": "broker-4"}) == {
        "asked": {"action": "kill", "node": "broker-4"}
    }
    thread.join()


def test_only_its_owner_can_read_the_secret(served: Control, tmp_path: Path):
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"{}\n",
        b"[]\n",
        b'{"action": "kill", "node": "1", "secret": "guess"}\n',
        b'{"action": "kill", "node": "1", "secret": ["a"]}\n',
        b'{"secret": "\xff"}\n',
        b"[" * 10_000 + b"\n",
        b"x" * (LINE_BYTES_MAX + 1) + b"\n",
        b'{"action": "kill", "no',
    ],
)
def test_strangers_are_not_answered_and_others_still_are(
    served: Control, tmp_path: Path, data: bytes
):
    assert sent(tmp_path, data) == b""
    assert served.next(0) is None
    thread = echoing(served)
    assert ask(tmp_path, {"action": "status"}) == {"asked": {"action": "status"}}
    thread.join()


def test_one_that_says_nothing_is_not_waited_for(served: Control, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(control, "READ_TIMEOUT_S", 0.01)
    silent, other = socket.socketpair()
    with silent:
        served._read(other)
        assert silent.recv(1) == b""
    assert served.next(0) is None


def test_an_error_is_the_commands_error(served: Control, tmp_path: Path):
    def refuse() -> None:
        asked = served.next(DEADLINE_S)
        assert asked is not None
        with asked:
            asked.answer({"error": "broker-4 does not run"})

    thread = threading.Thread(target=refuse)
    thread.start()
    with pytest.raises(InputError, match="broker-4 does not run"):
        ask(tmp_path, {"action": "kill", "node": "4"})
    thread.join()


def test_who_still_waits_at_the_end_hears_of_it(tmp_path: Path):
    with Control(tmp_path) as made:
        said: list[str] = []

        def run() -> None:
            with pytest.raises(InputError) as raised:
                ask(tmp_path, {"action": "status"})
            said.append(str(raised.value))

        thread = threading.Thread(target=run)
        thread.start()
        asked = made.next(DEADLINE_S)  # it is there; put it back as one that was not seen yet
        assert asked is not None
        made._requests.put(asked)
    thread.join()
    assert said == ["the cluster is being stopped"]
    assert not (tmp_path / FILE).exists()


def test_nobody_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    missing = str(tmp_path / "none")
    for action in (["status"], ["kill", "1"], ["stop"]):
        assert main(["cluster", *action, "--dir", missing]) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"fencepost cluster {action[0]}: no cluster runs in {missing}; ")
        assert error.count("\n") == 1
    with Control(tmp_path):
        left = (tmp_path / FILE).read_text()
    (tmp_path / FILE).write_text(left)  # as after a crash
    with pytest.raises(InputError, match="no cluster runs in"):
        ask(tmp_path, {"action": "status"})


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"port": "x", "secret": ""}', '{"port": null, "secret": 1}']
)
def test_a_damaged_file(tmp_path: Path, text: str):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(InputError, match="is damaged"):
        ask(tmp_path, {"action": "status"})
    (tmp_path / FILE).write_text('{"port": 99999999, "secret": "s"}')
    with pytest.raises(InputError, match="no cluster runs in"):
        ask(tmp_path, {"action": "status"})


def test_nodes_must_be_named(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as raised:
        main(["cluster", "kill"])
    assert raised.value.code == 2 and "NODE" in capsys.readouterr().err


def test_a_line_has_a_bound():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b'{"a": "' + b"x" * LINE_BYTES_MAX + b'"}\n')
        with pytest.raises(ValueError, match="no whole line"):
            control._line(theirs)
