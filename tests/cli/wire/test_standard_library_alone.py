"""`fencepost wire` with the standard library alone, as after `pip install --no-deps`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fencepost.batch.records import build_batch
from fencepost.wire.api import HeartbeatRequest, ProduceRequest
from fencepost.wire.api.produce import PartitionProduceData, TopicProduceData
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
    return subprocess.run(command, input=stdin, capture_output=True, timeout=300, check=False)


FRAME = encode_request(HeartbeatRequest(group_id="g"), 4, 9, "c")


def produced(compression: str) -> bytes:
    records = build_batch([(b"k", b"v")], compression=compression)
    data = [PartitionProduceData(records=records)]
    message = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=data)])
    return encode_request(message, 9, 9, "c")


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


def test_records_of_frames_that_have_none_need_no_package():
    ran = run("decode", "--request", "--records", stdin=FRAME)
    assert (ran.returncode, ran.stderr) == (0, b"") and ran.stdout


@pytest.mark.parametrize(
    ("words", "stdin", "install"),
    [
        *(
            (("decode", "--request", "--records"), produced(codec), b"pip install fencepost\n")
            for codec in ("lz4", "zstd", "snappy")
        ),
        (("decode", "--pcap", "trace"), b"", b"pip install 'fencepost[pcap]'\n"),
    ],
    ids=["lz4", "zstd", "snappy", "pcap"],
)
def test_what_needs_a_package_says_in_one_line_what_to_install(
    words: tuple[str, ...], stdin: bytes, install: bytes
):
    ran = run(*words, stdin=stdin)
    assert ran.returncode == 2 and ran.stdout == b""
    assert ran.stderr.endswith(install) and ran.stderr.count(b"\n") == 1
