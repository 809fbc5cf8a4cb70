"""The threads in C over a disk that hangs and fails at will, under sanitizers: no data race."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import fencepost.log

from ..waiting import DEADLINE_S

pytestmark = [pytest.mark.slow, pytest.mark.same_without_c]

HEADER = Path(fencepost.log.__file__).resolve().with_name("_sync_threads.h")
STRESS = Path(__file__).with_name("sync_threads_stress.c")
RUNS_MAX = 10


def stress(
    place: Path, sanitizer: str, planted: tuple[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Build and run it, with a mistake in the header if one is given."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    text = HEADER.read_text()
    if planted is not None:
        assert text.count(planted[0]) == 1
        text = text.replace(*planted)
    (place / HEADER.name).write_text(text)
    flags = ["-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Werror", f"-fsanitize={sanitizer}"]
    command = ["gcc", *flags, f"-I{place}", str(STRESS), "-o", str(place / "stress"), "-pthread"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot find" in built.stderr:
        pytest.skip(f"gcc has no -fsanitize={sanitizer}")
    assert built.returncode == 0, built.stderr
    return subprocess.run(
        [str(place / "stress")],
        env=os.environ | {"TSAN_OPTIONS": "halt_on_error=1"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_no_race_no_leak_and_no_wait_for_a_lane_that_hangs(tmp_path, sanitizer):
    done = stress(tmp_path, sanitizer)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("this system's addresses are not for -fsanitize=thread")
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize(
    ("was", "mistake"),
    [
        ("    pool->told = 0;\n    pthread_mutex_unlock(&pool->lock);\n    return done;",
         "    pthread_mutex_unlock(&pool->lock);\n    pool->told = 0;\n    return done;"),
        ("    while (lane && lane->number != number)", "    while (0)"),
        ("        work->error = fpost_sync_descriptor(work->descriptors[i]);",
         "        fpost_sync_descriptor(work->descriptors[i]);"),
    ],
    ids=["a race", "one lane for all", "errors ignored"],
)  # fmt: skip
def test_a_mistake_is_noticed(tmp_path, was, mistake):
    """The tester tested: a run may pass by a race, several do not."""
    runs = (stress(tmp_path, "thread", (was, mistake)) for _ in range(RUNS_MAX))
    assert any(run.returncode != 0 for run in runs)
