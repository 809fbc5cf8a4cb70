"""The container's file system is laid out as the Containerfile does it, and run as it says.

There is no container engine in this: as root, the command of the Containerfile runs below a
read-only root, as the user, with the environment and on a loopback of its own, as one would run it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ..waiting import DEADLINE_S, eventually
from .conftest import wheel_of

ROOT = Path(__file__).resolve().parents[2]
CONTAINERFILE = (ROOT / "packaging" / "container" / "Containerfile").read_text()
MIB = 1024 * 1024
SIZE_MIB_MAX = 120

pytestmark = [pytest.mark.packages, pytest.mark.timeout(3600)]


def instruction(name: str) -> str:
    """What the last instruction of this name says."""
    joined = CONTAINERFILE.replace("\\\n", " ")
    return re.findall(rf"^{name} +(.*)$", joined, re.MULTILINE)[-1].strip()


def words_of(name: str) -> list[str]:
    """The words of an instruction with a JSON array."""
    found: list[str] = json.loads(instruction(name).partition("CMD")[2] or instruction(name))
    return found


class Container:
    """A root of a file system and the process that has it."""

    def __init__(self, root: Path, data: Path) -> None:
        self.root = root
        user = instruction("USER")
        variables = shlex.split(instruction("ENV"))
        self._enter = ["env", "-i", *variables, "/usr/sbin/chroot", f"--userspec={user}", str(root)]
        mounts = [
            "ip link set lo up || true",
            f"mount --bind {root} {root}",
            f"mount --bind {data} {root}/var/lib/fencepost",
            f"mount -t tmpfs tmpfs {root}/tmp",
            f"mount --rbind /proc {root}/proc",
            f"mount --rbind /dev {root}/dev",
            f"mount -o remount,bind,ro {root}",
        ]
        started = shlex.join([*self._enter, *words_of("ENTRYPOINT"), *words_of("CMD")])
        script = " && ".join([*mounts, f"exec {started}"])
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--net", "sh", "-c", script],
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """Another process of the container, as `docker exec` starts one."""
        enter = ["nsenter", "-t", str(self.process.pid), "--mount", "--net"]
        return subprocess.run(
            [*enter, *self._enter, *words],
            input=given,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def fencepost(self, *words: str, given: str | None = None) -> str:
        """What a command prints; AssertionError if it fails."""
        done = self.run(*words_of("ENTRYPOINT"), *words, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def rootfs(
    release: SimpleNamespace,
    sdist: Path,
    wheels: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """What is copied into the image; made by the commands of the Containerfile."""
    if os.getuid() != 0:
        pytest.skip("only root may enter another root")
    version = f"3.{sys.version_info.minor}"
    wheel = wheel_of(version, wheels, sdist, release)
    place = tmp_path_factory.mktemp("container")
    place.chmod(0o755)
    python = str(Path(sys.executable).resolve())
    installed = place / "opt" / "fencepost"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "--only-binary", ":all:", "--target", installed, f"{wheel}[security]"], check=True
    )
    root = place / "rootfs"
    script = ROOT / "packaging" / "container" / "rootfs.py"
    subprocess.run([python, script, installed, root], check=True)
    # Where the image has it; here it is in the directory of the test.
    here = root / installed.relative_to("/")
    (root / "opt").mkdir(exist_ok=True)
    here.rename(root / "opt" / "fencepost")
    properties = ROOT / "packaging" / "container" / "server.properties"
    (root / "etc" / "fencepost" / "server.properties").write_text(properties.read_text())
    return root


@pytest.fixture
def container(rootfs: Path, tmp_path: Path) -> Iterator[Container]:
    data = tmp_path / "volume"
    data.mkdir()
    uid, gid = map(int, instruction("USER").split(":"))
    os.chown(data, uid, gid)
    running = Container(rootfs, data)
    yield running
    running.process.kill()
    running.process.communicate()


def test_it_serves_is_healthy_and_stops_in_order(container: Container):
    check = words_of("HEALTHCHECK")
    eventually(
        lambda: container.run(*check).returncode == 0 or container.process.poll() is not None
    )
    assert container.process.poll() is None, container.process.communicate()[1]
    assert "wire: c, batch: c" in container.fencepost("--version")
    container.fencepost("topics", "create", "orders")
    container.fencepost("produce", "orders", given="hello\n")
    assert container.fencepost("consume", "orders") == "hello\n"
    made = container.fencepost("testing", "certificates", "/tmp/tls", "--node=h1", "--user=admin")
    assert "/tmp/tls/h1.pem" in made
    written = container.run("python3", "-c", "open('/etc/fencepost/x', 'w')")
    assert "Read-only file system" in written.stderr
    who = container.run("python3", "-c", "import os; print(os.getuid(), os.getgid())")
    assert who.stdout.split() == instruction("USER").split(":")
    container.process.send_signal(signal.SIGTERM)
    assert container.process.wait(DEADLINE_S) == 0
    assert container.run(*check).returncode != 0


def test_it_is_small_and_has_no_shell(rootfs: Path):
    files = [path for path in rootfs.rglob("*") if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files) / MIB
    print(f"\n{len(files)} files, {size:.0f} MiB")
    assert size < SIZE_MIB_MAX
    assert not [path for path in files if path.name in ("sh", "bash", "pip", "apt", "ldd")]
    assert not [path for path in files if path.stat().st_mode & 0o6000]
    source = [path for path in files if path.suffix == ".py" and "fencepost" in path.parts]
    assert source
    compiled = f"cpython-3{sys.version_info.minor}.pyc"
    assert all(
        (path.parent / "__pycache__" / f"{path.stem}.{compiled}").exists() for path in source
    )
