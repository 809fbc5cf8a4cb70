"""`fencepost completion`: each shell completes commands, actions, options, choices and files."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from fencepost.cli.commands import COMMANDS
from fencepost.cli.completion import SHELLS, completion_script
from fencepost.cli.main import main

from ..waiting import DEADLINE_S

ACTIONS = ["alter", "create", "delete", "describe", "list", "match"]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The script of each shell, in a directory of two files and a directory."""
    place = tmp_path_factory.mktemp("completion")
    found = {}
    for shell in SHELLS:
        found[shell] = place / f"fencepost.{shell}"
        found[shell].write_text(completion_script(shell))
    (place / "data").mkdir()
    (place / "_fencepost").write_text(found["zsh"].read_text())  # as zsh finds it in its fpath
    return found


def shell_of(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not on this machine")
    return path


def in_bash(script: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    code = (
        '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_fencepost 2>/dev/null;'
        ' [ ${#COMPREPLY[@]} = 0 ] || printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return output([shell_of("bash"), "-c", code, str(script), *words], script.parent)


def in_fish(script: Path, *words: str) -> list[str]:
    """What fish offers for the last word, without the descriptions."""
    code = f"source {script.name}; complete -C {' '.join(words)!r}"
    found = output([shell_of("fish"), "--no-config", "-c", code], script.parent)
    return [line.split("\t")[0] for line in found]


def output(command: list[str], place: Path) -> list[str]:
    environment = {**os.environ, "HOME": str(place), "TERM": "dumb"}
    done = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


@pytest.mark.parametrize("offered", [in_bash, in_fish], ids=["bash", "fish"])
def test_words_are_offered(offered, scripts: dict[str, Path]):
    script = scripts[offered.__name__.removeprefix("in_")]
    names = sorted(command.name for command in COMMANDS)
    assert offered(script, "fencepost", "") == names
    assert offered(script, "fencepost", "to") == ["tokens", "topics"]
    assert offered(script, "fencepost", "topics", "") == ACTIONS
    checkpoint = offered(script, "fencepost", "spark", "checkpoint", "")
    assert checkpoint == ["convert", "move", "show", "translate"]
    option = offered(script, "fencepost", "topics", "create", "--rep")
    assert option == ["--replication-factor"]
    assert offered(script, "fencepost", "completion", "z") == ["zsh"]
    isolation = offered(script, "fencepost", "consume", "orders", "--isolation", "read_c")
    assert isolation == ["read_committed"]
    files = offered(script, "fencepost", "serve", "--config", "fencepost.b")
    assert files == ["fencepost.bash"]
    (directory,) = offered(script, "fencepost", "serve", "--data-dir", "")
    assert directory.rstrip("/") == "data"


def test_zsh_completes_what_is_typed(scripts: dict[str, Path]):
    """In a terminal: zsh's completion is a part of its line editor."""
    shell, place = shell_of("zsh"), str(scripts["zsh"].parent)
    environment = {**os.environ, "TERM": "dumb", "HOME": place, "PS1": "", "ZDOTDIR": place}
    process, terminal = pty.fork()
    if process == 0:
        try:
            os.chdir(place)
            os.execve(shell, ["zsh", "-f", "-i"], environment)
        finally:
            os._exit(127)  # whatever is raised here would go on as a second run of the tests
    try:
        setting_up = b"fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; echo re''ady\n"
        os.write(terminal, setting_up)
        read_until(terminal, "ready")
        for typed, completed in (
            ("fencepost tok\t", "fencepost tokens "),
            ("fencepost topics cr\t", "fencepost topics create "),
            ("fencepost spark checkpoint tr\t", "fencepost spark checkpoint translate "),
            ("fencepost topics create --rep\t", "--replication-factor "),
            ("fencepost consume t --isolation read_c\t", "read_committed "),
            ("fencepost serve --config fencepost.b\t", "fencepost.bash "),
            ("fencepost serve --data-dir \t", "data/"),
        ):
            os.write(terminal, typed.encode())
            read_until(terminal, completed)
            os.write(terminal, b"\x15")  # forget the line
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)


def read_until(terminal: int, text: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    read = ""
    while text not in read:
        left_s = max(0.0, deadline - time.monotonic())
        assert select.select([terminal], [], [], left_s)[0], f"no {text!r} in {read!r}"
        read += os.read(terminal, 4096).decode(errors="replace")


def test_a_shell_that_is_not_known_is_refused(capfd: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["completion", "tcsh"])
    assert ended.value.code == 2
    assert "invalid choice: 'tcsh'" in capfd.readouterr().err
