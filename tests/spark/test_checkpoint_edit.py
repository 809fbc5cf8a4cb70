"""Checkpoints changed without a batch: what is written, what is kept, what is refused."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.arrow.checkpoint import CheckpointError, read_checkpoint
from fencepost.arrow.offsets import Position, StreamOffset
from fencepost.arrow.storage import Storage, storage_at
from fencepost.client.metadata import TopicPartition
from fencepost.spark import checkpoint_files
from fencepost.spark.checkpoint_edit import (
    JAR,
    OTHER,
    OURS,
    backups_of,
    open_checkpoint,
    plan_conversion,
    plan_offsets,
    require_quiet,
    with_offsets,
)
from fencepost.spark.checkpoint_files import (
    OffsetsFile,
    checksums_of,
    offset_text,
    parse_offsets_file,
)

from .checkpoints import METADATA, write_checkpoint
from .storage.stores import faulty

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OWN = {"#fencepost": {"t": {"epochs": {"0": 3, "1": 3}, "id": "x"}}, "t": {"0": 7, "1": 9}}
JARS = '{"t":{"0":7,"1":9}}'


def move(folder: Path, new: dict[TopicPartition, int], **how: Any) -> Any:
    """Move source 0 of the checkpoint."""
    storage = storage_at(folder)
    opened = open_checkpoint(storage)
    committed = opened.checkpoint.sources[0].committed
    assert committed is not None
    edit = plan_offsets(opened, {"0": with_offsets(committed, new, {})}, **how)
    edit.apply(storage)
    return edit


def convert(folder: Path, to: str, known: Any = None) -> Any:
    storage = storage_at(folder)
    edit = plan_conversion(open_checkpoint(storage, whole=True), to, known)
    edit.apply(storage)
    return edit


def line(folder: Path, batch: int, number: int = 0) -> str:
    return (folder / "offsets" / str(batch)).read_text().split("\n")[2 + number]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# -- files -----------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=20)


@given(
    st.sampled_from(["v1", "v2"]), st.lists(TEXTS, min_size=1, max_size=4), st.integers(0, 10**9)
)
def test_a_file_is_written_as_it_was_read(version: str, texts: list[str], number: int):
    names = [f"s{at}" if version == "v2" else str(at) for at in range(len(texts))]
    sources = tuple(zip(names, [text or "-" for text in texts], strict=True))
    file = OffsetsFile(number, version, '{"batchWatermarkMs":5}', sources)
    data = file.to_bytes()
    assert parse_offsets_file(number, data) == file
    assert parse_offsets_file(number, data).to_bytes() == data
    assert file.watermark_ms == 5


def test_checksums_are_of_512_bytes_each():
    sums = checksums_of(b"a" * 513)
    assert sums[:8] == b"crc\0" + (512).to_bytes(4, "big")
    assert sums[8:] == bytes.fromhex("f9517051e8b7be43")
    assert checksums_of(b"") == b"crc\0\0\0\2\0"


def test_each_connectors_spelling_is_kept():
    offset = StreamOffset({T0: Position(5, 2)}, {"t": "x"})
    assert offset_text(offset, JARS) == '{"t":{"0":5}}'
    assert offset_text(offset, '{"t": {"0": 7}}') == '{"t": {"0": 5}}'
    assert json.loads(offset_text(offset, json.dumps(OWN)))["#fencepost"]["t"]["id"] == "x"


# -- move ------------------------------------------------------------------------------------------


def test_moving_writes_the_last_committed_end_again_and_nothing_else(tmp_path: Path):
    batches = (
        [OWN, {"logOffset": 3}, None],
        [{**OWN, "t": {"0": 8, "1": 9}}, {"logOffset": 4}, None],
    )
    folder = write_checkpoint(tmp_path, *batches, committed=1)
    before = contents(folder)
    edit = move(folder, {T0: 2})
    after = contents(folder)
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    (backup,) = backups_of(storage_at(folder))
    kept = f"{backup}/offsets/1"
    assert changed == {"offsets/1", "offsets/.1.crc", kept, f"{backup}/offsets/.1.crc"} & {
        *after
    } or changed == {"offsets/1", "offsets/.1.crc", kept}
    assert after[kept] == before["offsets/1"]
    assert after["offsets/.1.crc"] == checksums_of(after["offsets/1"])
    lines = after["offsets/1"].decode().split("\n")
    assert lines[0] == "v1"
    assert json.loads(lines[1]) == METADATA
    assert lines[3:] == ['{"logOffset":4}', "-"]
    moved = StreamOffset.from_json(json.loads(lines[2]))
    assert moved.positions == {T0: Position(2), T1: Position(9, 3)}
    assert [(one.topic, one.partition, one.before, one.after) for one in edit.moved] == [
        ("t", 0, 8, 2),
        ("t", 1, 9, 9),
    ]
    found = read_checkpoint(folder)
    assert (found.state, found.committed_batch) == ("committed", 1)


def test_a_planned_batch_is_given_up_only_if_asked(tmp_path: Path):
    folder = write_checkpoint(tmp_path, [OWN], [{"t": {"0": 20, "1": 9}}], committed=0)
    before = contents(folder)
    with pytest.raises(CheckpointError, match="batch 1 is planned and not committed: start the"):
        move(folder, {T0: 2})
    assert contents(folder) == before
    edit = move(folder, {T0: 2}, abandon=True)
    assert [change.path for change in edit.changes] == ["offsets/1", "offsets/0"]
    assert "batch 1 is given up" in edit.warnings[0]
    found = read_checkpoint(folder)
    assert (found.state, found.planned_batch) == ("committed", 0)
    (backup,) = backups_of(storage_at(folder))
    assert (folder / backup / "offsets" / "1").read_bytes() == before["offsets/1"]


def test_killed_between_giving_up_and_moving_the_query_is_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = write_checkpoint(tmp_path, [OWN], [{"t": {"0": 20, "1": 9}}], committed=0)
    old = line(folder, 0)
    apply = checkpoint_files._apply
    done: list[str] = []

    def once(storage: Storage, change: Any) -> None:
        if done:
            raise KeyboardInterrupt
        done.append(change.path)
        apply(storage, change)

    monkeypatch.setattr(checkpoint_files, "_apply", once)
    with pytest.raises(KeyboardInterrupt):
        move(folder, {T0: 2}, abandon=True)
    found = read_checkpoint(folder)
    assert (found.state, found.committed_batch, line(folder, 0)) == ("committed", 0, old)


def test_at_no_moment_does_a_file_have_checksums_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = write_checkpoint(tmp_path, [OWN], committed=0)
    (folder / "offsets" / ".0.crc").write_bytes(checksums_of((folder / "offsets/0").read_bytes()))
    seen = 0

    def watched(name: str) -> None:
        real = getattr(type(storage_at(folder)), name)

        def step(self: Storage, *given: Any) -> Any:
            nonlocal seen
            done = real(self, *given)
            sums = folder / "offsets" / ".0.crc"
            if sums.exists():
                seen += 1
                assert sums.read_bytes() == checksums_of((folder / "offsets/0").read_bytes())
            return done

        monkeypatch.setattr(type(storage_at(folder)), name, step)

    watched("write_bytes")
    watched("delete")
    move(folder, {T0: 2})
    assert seen >= 2


def test_a_query_that_runs_is_noticed_where_it_can_be(tmp_path: Path):
    folder = write_checkpoint(tmp_path, [OWN], committed=0)
    storage = storage_at(folder)
    with pytest.raises(CheckpointError, match="was written less than 10 s ago: stop the query"):
        require_quiet(storage, int(time.time() * 1000))
    require_quiet(storage, int(time.time() * 1000) + 11_000)
    opened = open_checkpoint(storage)
    committed = opened.checkpoint.sources[0].committed
    assert committed is not None
    edit = plan_offsets(opened, {"0": with_offsets(committed, {T0: 1}, {})})
    shutil.copy(folder / "offsets" / "0", folder / "offsets" / "1")
    before = contents(folder)
    with pytest.raises(CheckpointError, match="the newest batch was 0 and is 1 now: a query runs"):
        edit.apply(storage)
    (folder / "offsets" / "1").unlink()
    (folder / "offsets" / "0").write_bytes(before["offsets/0"] + b"\n")
    with pytest.raises(CheckpointError, match="offsets/0: changed in the meantime"):
        edit.apply(storage)


def test_a_batch_planned_while_the_files_are_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = write_checkpoint(tmp_path, [OWN], committed=0)
    apply = checkpoint_files._apply

    def planned_meanwhile(storage: Storage, change: Any) -> None:
        apply(storage, change)
        shutil.copy(folder / "offsets" / "0", folder / "offsets" / "1")

    monkeypatch.setattr(checkpoint_files, "_apply", planned_meanwhile)
    with pytest.raises(CheckpointError, match="batch 1 was planned while the checkpoint was chan"):
        move(folder, {T0: 2})


def test_what_cannot_be_moved(tmp_path: Path):
    new = write_checkpoint(tmp_path / "new")
    with pytest.raises(CheckpointError, match="no batch is committed yet"):
        plan_offsets(open_checkpoint(storage_at(new)), {})
    first = write_checkpoint(tmp_path / "first", [OWN])
    with pytest.raises(CheckpointError, match="no batch is committed yet"):
        plan_offsets(open_checkpoint(storage_at(first)), {}, abandon=True)
    archive = write_checkpoint(tmp_path / "a" / "_fencepost" / "checkpoint", [OWN], committed=0)
    with pytest.raises(CheckpointError, match="is the checkpoint of an archive"):
        open_checkpoint(storage_at(archive))
    lost = write_checkpoint(tmp_path / "lost", [OWN], [OWN], committed=0)
    (lost / "offsets" / "0").unlink()
    with pytest.raises(CheckpointError, match="offsets/0: is missing"):
        open_checkpoint(storage_at(lost))


def test_state_and_watermark_are_spoken_of(tmp_path: Path):
    folder = write_checkpoint(tmp_path, [OWN], committed=0)
    text = (folder / "offsets" / "0").read_text().replace('Ms": 0', 'Ms": 77')
    (folder / "offsets" / "0").write_text(text)
    for number, name in (("0", '{"operatorInfo":{"operatorName":"dedupe"}}'), ("1", "garbage")):
        (folder / "state" / number / "_metadata").mkdir(parents=True)
        (folder / "state" / number / "_metadata" / "metadata").write_text(f"v1\n{name}")
    edit = move(folder, {T0: 2})
    assert "keeps state (dedupe, 1)" in edit.warnings[0]
    assert "the watermark stays at 77 ms" in edit.warnings[1]


def test_the_partitions_of_a_topic_created_again_are_moved_together():
    stored = StreamOffset({T0: Position(5, 2), T1: Position(6, 2)}, {"t": "old"}, {T0: 3})
    with pytest.raises(CheckpointError, match=r"created again .*; t-1 is left"):
        with_offsets(stored, {T0: 0}, {"t": "new"})
    moved = with_offsets(stored, {T0: 0, T1: 0}, {"t": "new"})
    assert moved == StreamOffset({T0: Position(0), T1: Position(0)}, {"t": "new"})
    assert with_offsets(stored, {T0: 0}, {"t": "old"}).positions[T1] == Position(6, 2)


def test_nothing_is_written_where_nothing_changes(tmp_path: Path):
    folder = write_checkpoint(tmp_path, [{"t": {"0": 7}}], committed=0)
    before = contents(folder)
    assert move(folder, {T0: 7}).changes == ()
    assert contents(folder) == before


# -- convert ---------------------------------------------------------------------------------------


def test_there_and_back(tmp_path: Path):
    folder = write_checkpoint(tmp_path, [OWN, {"logOffset": 3}], [OWN, None], committed=1)
    storage = storage_at(folder)
    assert open_checkpoint(storage).connector("0") == OURS
    edit = convert(folder, JAR)
    assert "topic ids and leader epochs are left out" in edit.warnings[0]
    assert (line(folder, 0), line(folder, 1)) == (JARS, JARS)
    assert (line(folder, 0, 1), line(folder, 1, 1)) == ('{"logOffset":3}', "-")
    assert open_checkpoint(storage).connector("0") == JAR
    assert open_checkpoint(storage).connector("1") == OTHER
    assert convert(folder, JAR).changes == ()
    known = {"0": StreamOffset({T0: Position(7, 5), T1: Position(9, 6)}, {"t": "y"})}
    convert(folder, OURS, known)
    assert json.loads(line(folder, 1)) == {
        "#fencepost": {"t": {"epochs": {"0": 5, "1": 6}, "id": "y"}},
        "t": {"0": 7, "1": 9},
    }
    assert line(folder, 0) == '{"t": {"0": 7, "1": 9}}'  # only the newest is known of
    assert convert(folder, OURS).changes == ()


def test_sources_by_name_keep_their_names(tmp_path: Path):
    folder = write_checkpoint(tmp_path, {"a.b": OWN, "c": {"u": {"0": 1}}}, committed=0)
    convert(folder, JAR)
    assert line(folder, 0) == f"a.b:{JARS}"
    assert line(folder, 0, 1) == 'c:{"u":{"0":1}}'


def test_a_first_batch_of_the_jar_that_is_not_committed_begins_where_it_began(tmp_path: Path):
    folder = write_checkpoint(tmp_path, [{"t": {"0": 7, "1": 9}}])
    (folder / "sources" / "0").mkdir(parents=True)
    (folder / "sources" / "0" / "0").write_bytes(b'\0v1\n{"t":{"0":3,"1":0}}')
    assert convert(folder, OURS).warnings == ()
    found = StreamOffset.from_json(json.loads(line(folder, 0)))
    assert found.begins == {T0: 3, T1: 0}


def test_a_first_batch_of_ours_that_is_not_committed(tmp_path: Path):
    told = {"#fencepost": {"t": {"from": {"0": 3, "1": 1}}}, "t": {"0": 7, "1": 9}}
    folder = write_checkpoint(tmp_path, [told])
    convert(folder, JAR)
    assert (folder / "sources" / "0" / "0").read_bytes() == b'\0v1\n{"t":{"0":3,"1":1}}'
    assert line(folder, 0) == JARS
    unknown = write_checkpoint(tmp_path / "unknown", [OWN])
    assert "the query's startingOffsets decide" in convert(unknown, JAR).warnings[0]
    assert not (unknown / "sources").exists()


def test_a_first_batch_of_the_jar_without_its_start(tmp_path: Path):
    folder = write_checkpoint(tmp_path, [{"t": {"0": 7, "1": 9}}])
    assert "where it begins in t-0, t-1" in convert(folder, OURS).warnings[0]


def test_a_planned_batch_that_begins_elsewhere_cannot_be_the_jars(tmp_path: Path):
    planned = {"#fencepost": {"t": {"from": {"0": 12}}}, "t": {"0": 20, "1": 9}}
    folder = write_checkpoint(tmp_path, [OWN], [planned], committed=0)
    before = contents(folder)
    with pytest.raises(CheckpointError, match=r"begins at offset 12 of t-0, .* ended at 7"):
        convert(folder, JAR)
    assert contents(folder) == before
    planned["#fencepost"] = {"t": {"from": {"2": 0}}}  # a partition that was new
    (folder / "offsets" / "1").write_text(f"v1\n{{}}\n{json.dumps(planned)}")
    convert(folder, JAR)
    assert line(folder, 1) == '{"t":{"0":20,"1":9}}'


# -- anywhere --------------------------------------------------------------------------------------


def test_a_checkpoint_in_a_store_has_no_checksums(tmp_path: Path):
    folder = write_checkpoint(tmp_path, [OWN], committed=0)
    store, _ = faulty()
    for path, data in contents(folder).items():
        if not path.endswith(".crc"):
            store.write_bytes(path, data)
    opened = open_checkpoint(store)
    committed = opened.checkpoint.sources[0].committed
    assert committed is not None
    edit = plan_offsets(opened, {"0": with_offsets(committed, {T0: 4}, {})})
    backup = edit.apply(store)
    assert {one.path for one in store.list()} == {
        "metadata", "offsets/0", "commits/0", f"{backup}/offsets/0",
    }  # fmt: skip
    (source,) = read_checkpoint(store).sources
    assert source.committed is not None
    assert source.committed.positions[T0].offset == 4


@pytest.mark.parametrize("fails_at", range(4))
def test_a_store_that_fails_leaves_the_old_offset_or_the_new(tmp_path: Path, fails_at: int):
    folder = write_checkpoint(tmp_path, [OWN], [{"t": {"0": 20, "1": 9}}], committed=0)
    left = fails_at

    def before(what: str, path: str) -> None:
        nonlocal left
        if what in ("write", "delete"):
            left -= 1
            if left == -1:
                raise OSError("503 Slow Down")

    store, handler = faulty()
    for path, data in contents(folder).items():
        store.write_bytes(path, data)
    opened = open_checkpoint(store)
    committed = opened.checkpoint.sources[0].committed
    assert committed is not None
    edit = plan_offsets(opened, {"0": with_offsets(committed, {T0: 4}, {})}, abandon=True)
    handler.before = before
    with pytest.raises(OSError, match="503 Slow Down"):
        edit.apply(store)
    assert left == -1
    (source,) = read_checkpoint(store).sources
    assert source.committed is not None
    assert source.committed.positions[T0].offset == 7


@settings(max_examples=60)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_refused_or_kept(tmp_path_factory: pytest.TempPathFactory, data: bytes):
    folder = write_checkpoint(tmp_path_factory.mktemp("any"), [OWN], [OWN], committed=1)
    (folder / "offsets" / "1").write_bytes(data)
    before = contents(folder)
    with pytest.raises(CheckpointError):
        move(folder, {T0: 2})
    assert contents(folder) == before
