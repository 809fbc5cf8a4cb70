"""`fencepost log dump` as a command: what it prints, how it exits."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fencepost.batch.header import stamp
from fencepost.batch.records import build_batch
from fencepost.wire.records import group

from .commands import segment_of


def test_a_line_per_batch(data_dir, run):
    ran = run("dump", segment_of(data_dir))
    assert ran.code == 0
    heading, first, *_ = ran.out.splitlines()
    assert heading == f"file path={segment_of(data_dir)} kind=segment size_bytes=804"
    assert first.startswith("batch position=0 size_bytes=78 base_offset=6 last_offset=6")
    assert "transactional control" in first
    assert "compression" not in first
    assert "base_sequence" not in first


def test_json_records_limits_and_offsets(data_dir, run):
    path = segment_of(data_dir)
    lines = run("dump", "--json", "--records", "--limit", 2, "--from-offset", 8, path).json
    assert [one["type"] for one in lines] == ["file", "batch", "record", "batch", "record"]
    assert [one["offset"] for one in lines if one["type"] == "record"] == [8, 9]
    assert lines[2]["value"] == "value" * 20
    lines = run("dump", "--json", "--limit", 0, path).json
    assert [one["type"] for one in lines] == ["file"]
    lines = run("dump", "--json", "--limit", 1, path.with_suffix(".timeindex")).json
    assert [one["type"] for one in lines] == ["file", "entry"]


@pytest.mark.parametrize(
    ("form", "key", "value"),
    [
        ("text", {"hex": "ff"}, '{"a": 1}'),
        ("base64", "/w==", "eyJhIjogMX0="),
        ("json", {"hex": "ff"}, {"a": 1}),
    ],
)
def test_formats_of_keys_and_values(tmp_path, run, form, key, value):
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(build_batch([(b"\xff", b'{"a": 1}'), (None, None)], timestamp_ms=1))
    words = ["--key-format", form, "--value-format", form]
    lines = run("dump", "--json", "--records", *words, path).json
    assert (lines[2]["key"], lines[2]["value"]) == (key, value)
    assert (lines[3]["key"], lines[3]["value"]) == (None, None)


def test_the_kind_is_told_by_the_directory_or_by_hand(tmp_path, run):
    key = group.encode_key(group.OffsetCommitKey(group="g", topic="t", partition=1))
    value = group.encode_value(group.OffsetCommitValue(offset=7), 3)
    items = [(key, value), (key, None), (b"\x00\x63", b"?")]
    below = tmp_path / "__consumer_offsets-3"
    below.mkdir()
    path = below / f"{0:020d}.log"
    path.write_bytes(build_batch(items, timestamp_ms=1))
    records = [one for one in run("dump", "--json", "--records", path).json if "record" in one]
    assert records[0]["key"]["body"] == {"group": "g", "topic": "t", "partition": 1}
    assert records[0]["value"]["body"]["offset"] == 7
    assert records[1]["value"] is None
    other = tmp_path / "copy"
    other.write_bytes(path.read_bytes())
    again = run("dump", "--json", "--records", "--as", "group", other)
    assert again.json[2] == run("dump", "--json", "--records", path).json[2]
    assert again.code == 0
    assert again.json[4]["undecoded"] == "unknown record type 99"
    assert run("dump", "--records", "--as", "metadata", other).code == 1
    refused = run("dump", other)
    assert (refused.code, refused.out) == (2, "")
    assert "--as does" in refused.err


def test_a_directory_with_everything(data_dir, run):
    ran = run("dump", "--json", "--records", "--deep", data_dir)
    assert ran.code == 0
    files = [one for one in ran.json if one["type"] == "file"]
    assert len(files) == sum(len(names) for *_, names in os.walk(data_dir))
    assert run("dump", data_dir).code == 0


def test_damage_is_shown_and_counted(data_dir, run):
    path = segment_of(data_dir)
    content = bytearray(path.read_bytes())
    content[100] ^= 0xFF
    path.write_bytes(content[:-10])
    ran = run("dump", path)
    assert ran.code == 1
    shown = [line for line in ran.out.splitlines() if line.startswith("damage")]
    assert len(shown) == 2
    assert "position=78" in shown[0]
    assert " tail " in shown[1]
    assert ran.err == "fencepost log dump: damage in 2 places\n"


def test_files_that_cannot_be_dumped_are_named(data_dir, run):
    ran = run("dump", "/nowhere/at.log")
    assert (ran.code, ran.err) == (
        1, "fencepost log dump: /nowhere/at.log: No such file or directory\n",
    )  # fmt: skip
    assert run("dump", "/nowhere/at").code == 1
    assert run("dump", "--limit", -1, segment_of(data_dir)).code == 2
    with pytest.raises(SystemExit) as refused:
        run("dump", "--as", "nonsense", segment_of(data_dir))
    assert refused.value.code == 2


@pytest.mark.slow
def test_a_reader_that_leaves(tmp_path):
    path = tmp_path / f"{0:020d}.log"
    with path.open("wb") as file:
        for number in range(20_000):
            batch = build_batch([(b"k", b"v")], timestamp_ms=1)
            stamp(batch, 0, base_offset=number, leader_epoch=0)
            file.write(batch)
    command = [sys.executable, "-m", "fencepost.cli.main", "log", "dump", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 1
