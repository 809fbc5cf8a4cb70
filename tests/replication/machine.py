"""What machines do to their brokers: disks that are full, and clocks that jump.

Each says why it cannot be had where that is so: a small file system needs root, and clocks need
libfaketime, which FENCEPOST_LIBFAKETIME names where it is not in a usual place.
"""

from __future__ import annotations

import errno
import functools
import glob
import os
import resource
import shutil
import subprocess
from pathlib import Path

from fencepost.testing import Cluster

from ..powerloss.filesystem import own_mounts

DISK_BYTES = 64 << 20
LIBRARIES = "/usr/lib/*/faketime/libfaketimeMT.so.1"


class SmallDisks:
    """A file system in memory for each broker's data, which can be filled up.

    Made before the cluster is started, closed when it has ended and its files have been read.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._data = {id_: cluster.data_dir_of(id_) for id_ in cluster.brokers}
        self._mounted: list[Path] = []
        self.lacks = own_mounts()
        """Why there are none; nothing if there are."""
        try:
            for data in self._data.values():
                if not self.lacks:
                    self._mount(data)
        except subprocess.CalledProcessError as error:
            self.lacks = f"no tmpfs: {error.stderr.decode(errors='replace').strip()}"

    def _mount(self, data: Path) -> None:
        formatted = data.rename(data.with_name("formatted"))
        data.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(data)]
        try:
            subprocess.run(mount, check=True, capture_output=True)
        except subprocess.CalledProcessError:
            data.rmdir()
            formatted.rename(data)
            raise
        self._mounted.append(data)
        shutil.copytree(formatted, data, dirs_exist_ok=True)

    def fill(self, id_: int, spare_bytes: int) -> None:
        """Leave so much room on a broker's disk, if there is more."""
        data = self._data[id_]
        if data not in self._mounted:
            return
        here = os.statvfs(data)
        with (data.parent / "data" / "ballast").open("ab") as ballast:
            bytes_ = here.f_bavail * here.f_frsize - spare_bytes
            if bytes_ > 0:
                try:
                    os.posix_fallocate(ballast.fileno(), 0, bytes_)
                except OSError as error:  # the broker was faster: now it is full
                    if error.errno != errno.ENOSPC:
                        raise

    def empty(self) -> None:
        """There is room again on all of them."""
        for data in self._mounted:
            (data / "ballast").unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount."""
        for data in self._mounted:
            subprocess.run(["umount", str(data)], check=True, capture_output=True)


def limit_files(pid: int, bytes_: int | None) -> None:
    """No file of a process may grow beyond so many bytes; None is any number."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if bytes_ is None else bytes_, hard))


@functools.cache
def libfaketime() -> str:
    """The path of libfaketime; an empty string if it is not here."""
    named = os.environ.get("FENCEPOST_LIBFAKETIME")
    found = [named] if named else sorted(glob.glob(LIBRARIES))
    return next((path for path in found if Path(path).is_file()), "")


class NodeClocks:
    """The time of day of each node, which can be set; the monotonic clock goes on as it did."""

    def __init__(self, cluster: Cluster) -> None:
        """Before the cluster is started. `environment` is to be that of its launcher then."""
        library = libfaketime()
        self.lacks = "" if library else "libfaketime is not installed"
        self.environment: dict[str, str] = {}
        self._files = {id_: node.directory / "clock" for id_, node in cluster.nodes.items()}
        if not library:
            return
        for id_, node in cluster.nodes.items():
            self.set(id_, 0)
            node.environment["FAKETIME_TIMESTAMP_FILE"] = str(self._files[id_])
        self.environment = {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(next(iter(self._files.values()))),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, id_: int, ahead_s: int) -> None:
        """A node's clock is so far ahead of ours from now on."""
        if not self.lacks:
            draft = self._files[id_].with_name("clock.draft")
            draft.write_text(f"{ahead_s:+d}\n")
            draft.rename(self._files[id_])
