"""`fencepost log verify` as a command: what it prints, how it exits."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fencepost.cli.log.holder import holder_of
from fencepost.log.disk import OsDisk

from .commands import segment_of


def test_a_sound_directory(data_dir, run):
    ran = run("verify", data_dir)
    assert ran.code == 0
    assert ran.out == (
        "sound: 0 errors, 0 warnings, 0 notes in 3 partitions, 10 segments, 39 batches,"
        " 7881 bytes\n"
    )
    assert ran.err == ""
    assert run("verify", "--deep", data_dir / "orders-0", str(data_dir / "other-0") + "/").code == 0


def test_problems_and_their_order(data_dir, run):
    path = segment_of(data_dir)
    content = bytearray(path.read_bytes())
    content[160] ^= 0xFF
    path.write_bytes(content)
    (data_dir / "other-0" / f"{8:020d}.log.deleted").touch()
    ran = run("verify", data_dir)
    assert ran.code == 1
    lines = ran.out.splitlines()
    assert lines[0].startswith(f"error: {path} at 78: CRC mismatch in the batch of offsets 7-8: 0x")
    assert lines[0].endswith("[crc]")
    assert lines[1].startswith("note: ")
    assert lines[2].startswith("not sound: 1 errors, 0 warnings, 1 notes in 3 partitions")
    quiet = run("verify", "--quiet", "--json", data_dir)
    assert [one["type"] for one in quiet.json] == ["problem", "summary"]
    assert quiet.json[0]["severity"] == "error"
    assert quiet.json[0]["position"] == 78
    assert quiet.json[1]["errors"] == 1


def test_notes_are_no_errors(data_dir, run):
    (data_dir / "notes.txt").touch()
    ran = run("verify", data_dir)
    assert ran.code == 0
    assert ran.out.startswith("note: ")


def test_no_log_directory(tmp_path, run):
    ran = run("verify", tmp_path)
    assert ran.code == 2
    assert "neither a log directory nor one of a partition" in ran.err
    assert run("verify", tmp_path / "missing").code == 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="F_GETLK of Linux")
def test_a_directory_in_use(data_dir, run):
    assert holder_of(str(data_dir)) is None
    (data_dir / ".lock").touch()
    assert holder_of(str(data_dir)) is None
    code = (
        "import sys; from fencepost.log.disk import OsDisk\n"
        "lock = OsDisk().lock(sys.argv[1]); print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(data_dir / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        holder.stdout.readline()
        assert holder_of(str(data_dir)) == holder.pid
        ran = run("verify", data_dir)
        assert f"process {holder.pid} is using {data_dir}" in ran.err
        assert ran.code == 0
        holder.stdin.close()
    OsDisk().lock(str(data_dir / ".lock")).release()
