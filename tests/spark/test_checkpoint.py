"""Checkpoints of queries: what is in them, and what is wrong with strange ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.arrow import checkpoint
from fencepost.arrow.checkpoint import (
    FILE_BYTES_MAX,
    CheckpointError,
    read_checkpoint,
)
from fencepost.arrow.offsets import Position
from fencepost.client.metadata import TopicPartition

from .checkpoints import QUERY_ID, offsets_text, write_checkpoint

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_committed_and_a_planned_batch(tmp_path: Path):
    ours = {"#fencepost": {"t": {"id": "x", "epochs": {"0": 3}}}, "t": {"0": 7, "1": 9}}
    found = read_checkpoint(write_checkpoint(tmp_path, [{"t": {"0": 5}}], [ours], committed=0))
    assert (found.query_id, found.planned_batch, found.committed_batch) == (QUERY_ID, 1, 0)
    assert found.state == "planned"
    (source,) = found.sources
    assert source.committed is not None
    assert source.planned is not None
    assert source.committed.positions == {T0: Position(5)}
    assert source.planned.positions == {T0: Position(7, 3), T1: Position(9)}
    assert source.planned.topic_ids == {"t": "x"}


def test_the_newest_batch_counts_by_number_not_by_name(tmp_path: Path):
    folder = write_checkpoint(tmp_path, *([{"t": {"0": n}}] for n in range(12)), committed=11)
    (folder / "offsets" / ".12.0b1f.tmp").write_text("half")
    (folder / "offsets" / "12.crc").write_text("crc")
    found = read_checkpoint(folder)
    assert (found.planned_batch, found.committed_batch, found.state) == (11, 11, "committed")
    committed = found.sources[0].committed
    assert committed is not None
    assert committed.positions == {T0: Position(11)}


def test_a_batch_that_is_planned_and_committed_between_two_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = write_checkpoint(tmp_path, [{"t": {"0": 5}}], [{"t": {"0": 7}}], committed=1)
    look = checkpoint._last_batch
    monkeypatch.setattr(
        checkpoint,
        "_last_batch",
        lambda files, where: 0 if where == "offsets" else look(files, where),
    )
    found = read_checkpoint(folder)
    assert (found.planned_batch, found.committed_batch, found.state) == (1, 1, "committed")


def test_where_a_source_starts_counts_only_before_the_first_commit(tmp_path: Path):
    folder = write_checkpoint(tmp_path, [None], [{"t": {"0": 7}}], committed=0)
    (folder / "sources" / "0").mkdir(parents=True)
    (folder / "sources" / "0" / "0").write_bytes(b'\0v1\n{"t":{"0":3}}')
    (source,) = read_checkpoint(folder).sources
    assert source.committed is None
    (folder / "commits" / "0").unlink()
    (source,) = read_checkpoint(folder).sources
    assert source.committed is not None
    assert source.committed.positions == {T0: Position(3)}


def test_several_sources_and_some_that_read_no_topics(tmp_path: Path):
    batch = [{"t": {"0": 5}}, None, {"logOffset": 3}, {"offset": 3, "timestamp": 1000}]
    found = read_checkpoint(write_checkpoint(tmp_path, batch, committed=0))
    assert [(one.name, one.is_topics) for one in found.sources] == [
        ("0", True),
        ("1", True),
        ("2", False),
        ("3", False),
    ]
    assert found.sources[1].committed is None


def test_sources_by_name(tmp_path: Path):
    batches = [{"orders": {"t": {"0": 5}}}, {"orders": {"t": {"0": 8}}, "later": {"u": {"0": 1}}}]
    found = read_checkpoint(write_checkpoint(tmp_path, *batches, committed=0))
    assert [one.name for one in found.sources] == ["orders", "later"]
    assert found.sources[0].committed is not None
    assert found.sources[0].committed.positions == {T0: Position(5)}
    assert found.sources[1].committed is None


def test_where_the_jars_connector_starts(tmp_path: Path):
    folder = write_checkpoint(tmp_path, [{"t": {"0": 5}}])
    (folder / "sources" / "0").mkdir(parents=True)
    (folder / "sources" / "0" / "0").write_bytes(b'\0v1\n{"t":{"0":2}}')
    (source,) = read_checkpoint(folder).sources
    assert source.committed is not None
    assert source.committed.positions == {T0: Position(2)}


def test_a_query_that_has_not_planned_anything(tmp_path: Path):
    found = read_checkpoint(write_checkpoint(tmp_path))
    assert (found.state, found.sources) == ("new", ())


GOOD = offsets_text([{"t": {"0": 5}}])
HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty: the write did not finish"),
    "another version": (b"v3\n{}\n{}", "begins with .*not with v1 or v2"),
    "no version": (b"garbage", "begins with .*garbage"),
    "cut after the version": (b"v1", "cut after 1 lines"),
    "cut after the metadata": (b"v1\n{}\n", "cut after 2 lines"),
    "cut in the metadata": (b'v1\n{"batch', "cut after 2 lines"),
    "metadata that are none": (b"v1\n[1]\n{}", "line 2 is no JSON object"),
    "cut in the offset": (GOOD.encode()[:-2], "line 3 is not JSON"),
    "deep": (b"v1\n{}\n" + b"[" * 100_000, "line 3 is not JSON .too deep"),
    "a long number": (b'v1\n{}\n{"t":{"0":' + b"1" * 5000 + b"}}", "line 3 is not JSON"),
    "not UTF-8": (b"v1\n{}\n\xff", "is not UTF-8"),
    "too many sources": (b"v1\n{}\n" + b"-\n" * 1001, "1001 sources"),
    "no name": (b"v2\n{}\n{}", "line 3 has no NAME:OFFSET"),
    "a name that is a way out": (b"v2\n{}\n..:{}", "line 3 has no NAME:OFFSET"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_file_that_spark_did_not_finish_or_write(tmp_path: Path, what: str):
    data, words = HOSTILE[what]
    folder = write_checkpoint(tmp_path, [{"t": {"0": 1}}], committed=0)
    (folder / "offsets" / "1").write_bytes(data)
    with pytest.raises(CheckpointError, match=f"offsets/1: {words}") as caught:
        read_checkpoint(folder)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "offset",
    [
        {"t": {"0": -1}},
        {"t": {"0": 2**63}},
        {"t": {str(2**31): 1}},
        {"bad\x1b[2Jname": {"0": 1}},
        {"x" * 250: {"0": 1}},
        {"#fencepost": {"t": {"epochs": {"0": 2**31}}}, "t": {"0": 1}},
    ],
)
def test_numbers_and_names_that_no_broker_could_be_asked_for(
    tmp_path: Path, offset: dict[str, Any]
):
    folder = write_checkpoint(tmp_path, [offset], committed=0)
    (source,) = read_checkpoint(folder).sources
    assert (source.is_topics, source.committed) == (False, None)


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (os.mkfifo, "is not a file"),
        (Path.mkdir, "Is a directory|is not a file"),
        (large, "larger than"),
        (lambda path: path.symlink_to(path), "symbolic links"),
    ],
)
def test_what_is_no_file(tmp_path: Path, make: Callable[[Path], None], words: str):
    folder = write_checkpoint(tmp_path, [{"t": {"0": 1}}], committed=0)
    make(folder / "offsets" / "1")
    with pytest.raises(CheckpointError, match=words):
        read_checkpoint(folder)


def test_directories_that_are_no_checkpoint(tmp_path: Path):
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        read_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        read_checkpoint(tmp_path / "missing")
    (tmp_path / "offsets").write_text("")
    with pytest.raises(CheckpointError, match="Not a directory"):
        read_checkpoint(tmp_path)


def test_a_committed_batch_without_its_offsets(tmp_path: Path):
    folder = write_checkpoint(tmp_path, [{"t": {"0": 1}}], committed=0)
    (folder / "commits" / "1").write_text("v1\n{}")
    with pytest.raises(CheckpointError, match="offsets/1: is missing"):
        read_checkpoint(folder)


def test_an_id_that_would_act_on_a_terminal(tmp_path: Path):
    folder = write_checkpoint(tmp_path, [{"t": {"0": 1}}], committed=0)
    (folder / "metadata").write_text('{"id": "\\u001b[2J"}')
    with pytest.raises(CheckpointError, match="metadata: has no id"):
        read_checkpoint(folder)
    (folder / "metadata").unlink()
    assert read_checkpoint(folder).query_id is None
