"""A writer whose system calls are tampered with by strace: killed at one, or refused.

The writer (see `life`) does a fixed number of operations and closes everything. It is killed on
entering its n-th write, sync, rename and so on: by default at a sample of all such moments, with
`FENCEPOST_POWERLOSS_ALL=1` at every one. Or a call fails: a sync once (S89), all writes from the
n-th on (S90), or takes long (S91).
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from fencepost.log.disk import OsDisk
from fencepost.log.meta import read_clean_shutdown

from .conftest import Tally
from .filesystem import Filesystem
from .life import OneThreadDisk, events, living
from .rig import Rig

ALL_VARIABLE: Final = "FENCEPOST_POWERLOSS_ALL"
SAMPLES: Final = 12
OPERATIONS: Final = 90
SEED: Final = 5
SYNCS: Final = ("fdatasync", "fsync")
CALLS: Final = ("openat", "pwrite64", "ftruncate", "rename", "unlink", "mkdir", "rmdir", *SYNCS)
"""Everything a log does to the disk."""


@pytest.fixture(scope="module", autouse=True)
def strace() -> None:
    """Skip without an strace that may attach to a process of ours."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    with sleeping() as pid:
        done = subprocess.run(
            ["strace", "-p", str(pid), "-e", "trace=none", "-o", os.devnull],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=30,
            check=False,
        )
    if b"attached" not in done.stderr:
        pytest.skip(f"strace may not attach: {done.stderr.decode(errors='replace').strip()}")


@contextlib.contextmanager
def sleeping() -> Iterator[int]:
    """A process that is there for a moment."""
    process = subprocess.Popen(["sleep", "0.3"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


@dataclass
class End:
    """How a writer's life ended; nothing of both if it was killed."""

    trace: list[str]
    """Its system calls, by name."""
    was_refused: bool = False
    was_closed: bool | None = None
    """Whether closing in order worked; None if it did not get there."""

    @property
    def knows(self) -> bool:
        """Whether the writer was told no, at one point or the other."""
        return self.was_refused or self.was_closed is False


def live_traced(rig: Rig, *inject: str, operations: int = OPERATIONS, seed: int = SEED) -> End:
    """A life under strace, with what `inject` does to it."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "trace"
        command = ["strace", "-f", "-o", str(out), "-e", f"trace={','.join(CALLS)}"]
        for what in inject:
            command += ["-e", f"inject={what}"]
        with living(OneThreadDisk(), rig.path, rig.known, seed, operations) as (pid, told):
            os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
            tracer = subprocess.Popen([*command, "-p", str(pid)], stderr=subprocess.PIPE)
            assert tracer.stderr is not None
            said = tracer.stderr.readline()
            assert b"attached" in said, said
            os.kill(pid, signal.SIGCONT)
            end = End([])
            for event in events(told):
                rig.note(event)
                if event[0] == "refused":
                    end.was_refused = True
                elif event[0] == "closed":
                    end.was_closed = event[1]
        tracer.communicate(timeout=30)
        for line in out.read_text(errors="replace").splitlines():
            name = line.split(maxsplit=1)[1].split("(")[0]
            if name in CALLS:
                end.trace.append(name)
    return end


def new_rig(path: Path, tally: Tally) -> Rig:
    """A log directory of its own."""
    return Rig(str(path / "data"), tally, random.Random(SEED), partitions=2)


def moments(counts: Counter[str], *names: str) -> list[tuple[str, int]]:
    """Which of these calls to tamper with: all of them, or a sample."""
    every = [(name, at) for name in names for at in range(1, counts[name] + 1)]
    if os.environ.get(ALL_VARIABLE):
        return every
    return random.Random(SEED).sample(every, SAMPLES * len(names) // 2)


@pytest.fixture
def counts(tmp_path: Path, strace: None) -> Counter[str]:
    """How often an undisturbed life makes each call."""
    end = live_traced(new_rig(tmp_path / "whole", Tally("counting")))
    assert end.was_closed
    counted = Counter(end.trace)
    assert min(counted[name] for name in CALLS if name != "rmdir") > 0
    return counted


@pytest.mark.timeout(3600)
def test_a_kill_at_every_system_call_loses_nothing(tmp_path: Path, tally: Tally, counts):
    """The page cache outlives the process: whatever was appended is there."""
    for name, at in moments(counts, *CALLS):
        rig = new_rig(tmp_path / f"{name}-{at}", tally)
        tally.cycles += 1
        end = live_traced(rig, f"{name}:signal=KILL:when={at}")
        try:
            assert not end.was_refused
            assert end.was_closed is None, "it lived on"
            rig.recover(power=False)
            rig.log_dir.close()
            rig.compare(clean=True)
            rig.log_dir.close(clean=False)
        except Exception as error:
            error.add_note(f"killed at {name} {at}")
            raise
        shutil.rmtree(rig.path)


@pytest.mark.timeout(3600)
def test_a_failed_sync_is_never_taken_back(filesystem: Filesystem, tally: Tally, counts):
    """S89: the power fails afterwards, so that what the failed sync had not written is gone."""
    for name, at in moments(counts, *SYNCS):
        rig = new_rig(filesystem.path / f"{name}-{at}", tally)
        tally.cycles += 1
        end = live_traced(rig, f"{name}:error=EIO:when={at}")
        filesystem.cut_power()
        filesystem.come_back()
        try:
            assert end.knows
            if end.was_closed is False and name == "fdatasync":
                # Where the directory was not synced it may have been after the marker was written,
                # and with good reason: all the rest was durable by then.
                assert read_clean_shutdown(OsDisk(), rig.path) is None
            rig.recover(power=True)
            rig.log_dir.close(clean=False)
        except Exception as error:
            error.add_note(f"{name} {at} failed")
            raise
        shutil.rmtree(rig.path)


def test_a_disk_that_is_full_from_some_write_on(tmp_path: Path, tally: Tally, counts):
    """S90: no acknowledgement, no marker of a clean end, and nothing that was there is lost."""
    for _, at in moments(counts, "pwrite64"):
        rig = new_rig(tmp_path / f"full-{at}", tally)
        tally.cycles += 1
        end = live_traced(rig, f"pwrite64:error=ENOSPC:when={at}+")
        try:
            assert end.knows
            assert read_clean_shutdown(OsDisk(), rig.path) is None
            rig.recover(power=False)
            rig.log_dir.close()
            rig.compare(clean=True)
            rig.log_dir.close(clean=False)
        except Exception as error:
            error.add_note(f"full from write {at} on")
            raise


def test_a_slow_sync_costs_time_only(tmp_path: Path, tally: Tally):
    """S91."""
    rig = new_rig(tmp_path, tally)
    tally.cycles += 1
    end = live_traced(
        rig, "fdatasync:delay_exit=20000", "fsync:delay_exit=20000", operations=OPERATIONS // 2
    )
    assert end.was_closed
    assert not end.was_refused
    rig.compare(clean=True)
    rig.log_dir.close(clean=False)
