"""`fencepost wire` with the standard library alone, as after `pip install --no-deps`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fencepost.wire.api import HeartbeatRequest
from fencepost.wire.frame import encode_request

WITHOUT_PACKAGES = """
import sys
from importlib.abc import MetaPathFinder

class NothingInstalled(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top != "fencepost" and top not in sys.stdlib_module_names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NothingInstalled())
from fencepost.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def run(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", WITHOUT_PACKAGES, "wire", *words]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False)


FRAME = encode_request(HeartbeatRequest(group_id="g"), 4, 9, "c")


@pytest.mark.parametrize(
    "words",
    [
        ("apis",),
        ("show", "Fetch"),
        ("decode", "--message", "MetadataRequest", "--version", "1", "--hex", "ffffffff"),
        ("decode", "--record", "control", "--key", "00000001", "--hex", "000000000004"),
    ],
)
def test_it_works_without_any_package(words: tuple[str, ...]):
    ran = run(*words)
    assert (ran.returncode, ran.stderr) == (0, b"") and ran.stdout


def test_frames_there_and_back_without_any_package():
    decoded = run("decode", "--request", stdin=FRAME)
    assert decoded.returncode == 0
    assert run("encode", "--output", "-", stdin=decoded.stdout).stdout == FRAME


@pytest.mark.parametrize(
    ("words", "install"),
    [
        (("decode", "--request", "--records"), b"pip install fencepost\n"),
        (("decode", "--pcap", "trace"), b"pip install 'fencepost[pcap]'\n"),
    ],
)
def test_what_needs_a_package_says_in_one_line_what_to_install(
    words: tuple[str, ...], install: bytes
):
    ran = run(*words, stdin=FRAME)
    assert ran.returncode == 2 and ran.stdout == b""
    assert ran.stderr.endswith(install) and ran.stderr.count(b"\n") == 1
