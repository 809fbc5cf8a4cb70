"""Tries the Fencepost that is installed beside this Python, as its first user would.

Serves a broker, creates a topic, produces a record and consumes it, with the `fencepost` command
alone, in an empty directory; then stops the broker in order. Prints how long each step took, and
fails with what a step has printed. Needs the standard library alone, so that it runs in an
environment that has nothing but Fencepost.

    python tools/release/try_installed.py [--pure]
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TOPIC = "greetings"
RECORD = "hello"
DEADLINE_S = 60
PARTS = ("wire", "batch", "produce", "fetch", "read", "sync")


def command() -> str:
    """The `fencepost` of this Python's environment."""
    return str(Path(sysconfig.get_path("scripts"), "fencepost"))


def clean_environment() -> dict[str, str]:
    """The environment without what would lead to another Fencepost than the installed one."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FENCEPOST_") and name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }


def fencepost(place: Path, *words: str, given: str | None = None) -> str:
    """What the command prints; SystemExit with all it has printed if it fails."""
    done = subprocess.run(
        [command(), *words],
        cwd=place,
        env=clean_environment(),
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"fencepost {' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


@contextmanager
def served(place: Path) -> Iterator[str]:
    """The address of a broker on a free port, which is stopped in order at the end."""
    ready, log = place / "ready", place / "log.txt"
    words = ["serve", "--data-dir", "data", "--listen", "127.0.0.1:0", "--ready-file", str(ready)]
    with log.open("w") as written:
        broker = subprocess.Popen(
            [command(), *words], cwd=place, env=clean_environment(), stderr=written
        )
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not ready.exists():
            if broker.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the broker did not start:\n{log.read_text()}")
            time.sleep(0.01)
        yield ready.read_text().split()[0]
        broker.send_signal(signal.SIGTERM)
        if broker.wait(DEADLINE_S):
            raise SystemExit(f"the broker did not stop in order:\n{log.read_text()}")
    finally:
        broker.kill()
        broker.wait()


class Steps:
    """Tells how long each step took."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()

    def done(self, name: str) -> None:
        """A step has ended: print its name, its seconds, and the seconds since the first began."""
        now = time.monotonic()
        print(f"{now - self._last:6.2f} s  {now - self._began:6.2f} s  {name}", flush=True)
        self._last = now


def check_version(said: str, pure: bool) -> None:
    """SystemExit if the extensions are not all in use (or, where `pure`, any is)."""
    wanted = "python" if pure else "c"
    missing = [part for part in PARTS if f"{part}: {wanted}" not in said]
    if missing:
        raise SystemExit(f"{', '.join(missing)}: not {wanted}\n{said}")


def try_out(pure: bool) -> None:
    """See the module."""
    steps = Steps()
    with tempfile.TemporaryDirectory(prefix="fencepost-try-") as name:
        place = Path(name)
        said = fencepost(place, "--version")
        check_version(said, pure)
        steps.done(said.splitlines()[0])
        with served(place) as address:
            steps.done(f"a broker is ready at {address}")
            reach = ("-b", address)
            fencepost(place, "topics", "create", TOPIC, *reach)
            steps.done(f"the topic {TOPIC} is there")
            fencepost(place, "produce", TOPIC, *reach, given=f"{RECORD}\n")
            steps.done("a record is acknowledged")
            read = fencepost(place, "consume", TOPIC, *reach)
            if read != f"{RECORD}\n":
                raise SystemExit(f"consumed {read!r}, not {RECORD!r}")
            steps.done("the record is consumed")
        steps.done("the broker has stopped in order")


def main() -> None:
    """Read the options and try."""
    parser = argparse.ArgumentParser(description="Try the installed Fencepost.")
    parser.add_argument("--pure", action="store_true", help="it has no C extensions")
    try_out(parser.parse_args().pure)


if __name__ == "__main__":
    main()
