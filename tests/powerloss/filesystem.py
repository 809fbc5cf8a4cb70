"""File systems in an image file, and their power switch.

`ext4` and `xfs` can be told by an ioctl to stop at once, without writing their journal: what had
not reached the disk is gone, as after a power cut, and mounting again replays what had. The image
is mounted through a loop device in a mount namespace of the test process alone (`own_mounts`), so
no other process sees it, and the kernel unmounts it and gives the loop device back when the process
ends, in whatever way.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

MIB: Final = 1 << 20
KINDS: Final = {"ext4": 24 * MIB, "xfs": 300 * MIB}
"""File systems, and how large the smallest image is that they like."""
MAKE: Final = {
    "ext4": ["mkfs.ext4", "-q", "-F"],
    "xfs": ["mkfs.xfs", "-q", "-f"],
}

_SHUTDOWN: Final = 0x8004587D  # EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN are one number
_WITHOUT_LOG_FLUSH: Final = 2
_CLONE_NEWNS: Final = 0x20000
_MS_REC_PRIVATE: Final = 0x4000 | 0x40000


@functools.cache
def own_mounts() -> str:
    """Put the process (its main thread and its children) into a mount namespace of its own.

    Why that cannot be, or an empty string.
    """
    if os.geteuid() != 0:
        return "mounting needs root"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):
        return f"no mount namespace: {os.strerror(ctypes.get_errno())}"
    if libc.mount(b"none", b"/", None, _MS_REC_PRIVATE, None):
        return f"no mounts of one's own: {os.strerror(ctypes.get_errno())}"
    return ""


class Filesystem:
    """A mounted image; `path` is where. Made by `try_make`."""

    def __init__(self, kind: str, directory: Path, bytes_: int | None = None) -> None:
        self.kind = kind
        self.image = directory / f"{kind}.img"
        self.path = directory / kind
        self.path.mkdir()
        with self.image.open("wb") as file:
            file.truncate(bytes_ or KINDS[kind])
        _run(*MAKE[kind], str(self.image))
        self._switch = -1
        self.mount()

    def mount(self) -> None:
        """Mount, with whatever recovery the file system finds necessary."""
        _run("mount", "-t", self.kind, "-o", "loop", str(self.image), str(self.path))
        self._switch = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def unmount(self) -> None:
        """Unmount in order; everything is on the disk unless the power was cut before."""
        self._let_go()
        _run("umount", str(self.path))

    def cut_power(self) -> None:
        """Stop: nothing reaches the disk from now on, and writers are told EIO."""
        fcntl.ioctl(self._switch, _SHUTDOWN, struct.pack("I", _WITHOUT_LOG_FLUSH))

    def come_back(self) -> None:
        """After a power cut, and with every file closed: unmount and mount again."""
        self.unmount()
        self.mount()

    def close(self) -> None:
        """Unmount, however it stands, and remove the image."""
        self._let_go()
        if os.path.ismount(self.path):
            done = subprocess.run(["umount", str(self.path)], capture_output=True, check=False)
            if done.returncode:
                _run("umount", "-l", str(self.path))
        self.image.unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)

    def _let_go(self) -> None:
        if self._switch >= 0:
            os.close(self._switch)
            self._switch = -1


def try_make(kind: str, directory: Path, bytes_: int | None = None) -> Filesystem | str:
    """A file system with a power switch that works, or why there is none."""
    reason = own_mounts()
    if reason:
        return reason
    if shutil.which(MAKE[kind][0]) is None:
        return f"{MAKE[kind][0]} is not installed"
    made: Filesystem | None = None
    try:
        made = Filesystem(kind, directory, bytes_)
        made.cut_power()
        made.come_back()
    except (OSError, subprocess.CalledProcessError) as error:
        if made is not None:
            with contextlib.suppress(OSError, subprocess.CalledProcessError):
                made.close()
        said = getattr(error, "stderr", b"") or b""
        return f"no {kind} with a power switch here: {error} {said.decode(errors='replace')}"
    return made


def _run(*command: str) -> None:
    subprocess.run(command, capture_output=True, check=True)
