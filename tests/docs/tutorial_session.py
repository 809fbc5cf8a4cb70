"""Carries out a tutorial, as its reader would in a directory of their own.

The ports of the page are replaced by free ones, and in what is printed the other way round.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from fencepost.testing.ports import free_ports

from ..waiting import DEADLINE_S, eventually
from .tutorial_page import Step, ports, steps

COMMAND_TIMEOUT_S = 240
_SAVE = "declare -px > {state}; printf 'cd %q\\n' \"$PWD\" >> {state}\n"
_INTERPRETER = """
import contextlib, os, pathlib, sys, traceback

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
scope = {"__name__": "__main__"}
for name in map(str.strip, sys.stdin):
    block, printed, code = pathlib.Path(name), pathlib.Path(name + ".printed"), 0
    with printed.open("w") as file, contextlib.redirect_stdout(file):
        try:
            exec(compile(block.read_text(), block.name, "exec"), scope)
        except Exception:
            traceback.print_exc(file=file)
            code = 1
    print(code, file=answers, flush=True)
"""


class TutorialError(AssertionError):
    """A step did not do what its page says."""


class Session:
    """A reader with some terminals, a Python prompt and a directory."""

    def __init__(self, page: Path, directory: Path) -> None:
        self.steps = steps(page)
        self.directory = directory / "tutorial"
        self.directory.mkdir()
        self._notes = directory / "notes"
        self._notes.mkdir()
        named = ports(page)
        self._port_of = dict(zip(named, map(str, free_ports(len(named))), strict=True))
        self._named_as = {ours: port for port, ours in self._port_of.items()}
        self._children: list[subprocess.Popen[Any]] = []
        self._interpreter: subprocess.Popen[str] | None = None
        self._state = self._notes / "state"
        self._state.write_text("")

    def carry_out(self) -> None:
        """All steps in order. TutorialError that names the first one that went wrong."""
        for number, step in enumerate(self.steps):
            if step.file_name:
                (self.directory / step.file_name).write_text(self._with_our_ports(step.text))
            elif step.stays:
                self._leave_running(step, self._notes / str(number))
            elif step.repeats:
                self._repeat(step)
            elif step.language == "python":
                self._check(step, *self._run_python(step, self._notes / str(number)))
            else:
                self._check(step, *self._run_shell(step))

    def close(self) -> None:
        """End everything that a step left running."""
        ours = self.processes()
        for process in ours:
            process.terminate()
        _, remaining = psutil.wait_procs(ours, DEADLINE_S)
        for process in remaining:
            process.kill()
        for child in self._children:
            child.wait(DEADLINE_S)
            for pipe in (child.stdin, child.stdout):
                if pipe:
                    pipe.close()

    def processes(self) -> list[psutil.Process]:
        """All that is running in the directory of the tutorial."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.cwd() == str(self.directory):
                    found.append(process)
        return found

    # -- steps ---------------------------------------------------------------------------------

    def _run_shell(self, step: Step) -> tuple[int, str]:
        save = _SAVE.format(state=self._state)
        done = subprocess.run(
            self._bash(f". {self._state}\n{self._with_our_ports(step.text)}\n{save}"),
            env=self._environment(),
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        return done.returncode, self._with_ports_of_the_page(done.stdout)

    def _repeat(self, step: Step) -> None:
        last = ""

        def is_as_shown() -> bool:
            nonlocal last
            code, last = self._run_shell(step)
            return code == 0 and step.accepts(last)

        try:
            eventually(is_as_shown)
        except AssertionError as error:
            raise _otherwise(step, last) from error

    def _leave_running(self, step: Step, output: Path) -> None:
        with output.open("wb") as file:
            process = subprocess.Popen(
                self._bash(f". {self._state}\n{self._with_our_ports(step.text)}"),
                env=self._environment(),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self._children.append(process)

        def printed() -> str:
            return self._with_ports_of_the_page(output.read_text())

        try:
            eventually(lambda: step.accepts(printed()) or process.poll() is not None)
        except AssertionError as error:
            raise _otherwise(step, printed()) from error
        if process.poll() is not None:
            raise _otherwise(step, f"{printed()}\nand ended with {process.returncode}")

    def _run_python(self, step: Step, block: Path) -> tuple[int, str]:
        """The time limit of the test is that of a block, too."""
        interpreter = self._interpreter or self._start_interpreter()
        assert interpreter.stdin is not None
        assert interpreter.stdout is not None
        block.write_text(self._with_our_ports(step.text))
        interpreter.stdin.write(f"{block}\n")
        interpreter.stdin.flush()
        answer = interpreter.stdout.readline()
        printed = self._with_ports_of_the_page(Path(f"{block}.printed").read_text())
        return int(answer or 1), printed

    def _start_interpreter(self) -> subprocess.Popen[str]:
        self._interpreter = subprocess.Popen(
            [sys.executable, "-c", _INTERPRETER],
            env=self._environment(),
            cwd=self.directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self._notes / "stderr").open("wb"),
            text=True,
        )
        self._children.append(self._interpreter)
        return self._interpreter

    def _check(self, step: Step, code: int, printed: str) -> None:
        """A step whose output the page shows may fail: the page shows how."""
        if not step.accepts(printed) or (code != 0 and step.shown is None):
            raise _otherwise(step, f"{printed}\nand ended with {code}")

    # -- what the steps run in -----------------------------------------------------------------

    def _bash(self, script: str) -> list[str]:
        return ["bash", "-euo", "pipefail", "-c", script]

    def _environment(self) -> dict[str, str]:
        ours = ("FENCEPOST_B", "PYTEST_")  # options of this run would change what pages show
        kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return {**kept, "PATH": path, "PYTHONUNBUFFERED": "1", "COLUMNS": "100", "NO_COLOR": "1"}

    def _with_our_ports(self, text: str) -> str:
        return _replaced(text, self._port_of)

    def _with_ports_of_the_page(self, text: str) -> str:
        return _replaced(text, self._named_as)


def _replaced(text: str, numbers: dict[str, str]) -> str:
    return re.sub(r"\b\d{4,5}\b", lambda match: numbers.get(match[0], match[0]), text)


def _otherwise(step: Step, printed: str) -> TutorialError:
    return TutorialError(
        f"{step.where}:\n{step.text}\nshould print\n{step.shown}\nand printed\n{printed[-6000:]}"
    )
