"""All processes of a session (Linux), for what starts others that outlive it when it is killed:
Spark's launchers and workers, whose JVMs start Python workers."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def session_members(session_id: int) -> list[int]:
    """The processes of a session; it has the id of the process that began it."""
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it may end while we look
                # After the name in parentheses: state, parent, process group, session.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session_id:
                    members.append(int(entry.name))
    return members


def stop_session(session_id: int) -> None:
    """Kill what is left of the session: a killed launcher would leave its JVM behind."""
    for pid in session_members(session_id):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Whether there is such a process and it is no zombie: what was killed and has lost its parent
    waits for init to reap it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
