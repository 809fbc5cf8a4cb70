"""Copies of logs on their way to another directory: whatever happens to the log meanwhile."""

from __future__ import annotations

from random import Random

import pytest

from fencepost.log import future_logs
from fencepost.log.future_logs import Copying
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir
from fencepost.log.names import future_dir, parse_future_dir
from fencepost.sim.disk import SimDisk
from fencepost.wire.types import Uuid

from .helpers import NOW_MS, append, config, contents, make_batch

CONFIG = config(internal_segment_bytes=400)
TOPIC_ID = Uuid(bytes(15) + b"\1")


@pytest.fixture
def disk() -> SimDisk:
    made = SimDisk()
    for number, path in enumerate(("/a", "/b"), 100):
        directory_id = Uuid(number.to_bytes(16, "big"))
        format_log_dir(made, path, cluster_id="c", node_id=1, directory_id=directory_id)
    return made


def directories(disk: SimDisk) -> tuple[LogDir, LogDir]:
    return LogDir.open(disk, "/a"), LogDir.open(disk, "/b")


def catch_up(copying: Copying, pieces: int = 1_000) -> None:
    """Copy, in small pieces."""
    for _ in range(pieces):
        copying.align()
        if copying.is_complete:
            break
        copying.append(copying.read_next(200), NOW_MS)


def test_the_names_of_copies() -> None:
    name = future_dir("a.b-c", 7, "0f" * 16)
    assert name == "a.b-c-7." + "0f" * 16 + "-future"
    assert parse_future_dir(name) == ("a.b-c", 7)
    for other in ("t-0", "t-0.1-delete", "t-0.-future", "t.1-future", "x/y-0.1-future"):
        assert parse_future_dir(other) is None
    with pytest.raises(ValueError, match="too long"):
        future_dir("t" * 240, 0, "0f" * 16)


@pytest.mark.parametrize("seed", range(20))
def test_a_copy_becomes_what_its_source_is(disk: SimDisk, seed: int) -> None:
    """The source grows, is cut and filled by other leaders, and loses its beginning."""
    random = Random(seed)
    first, second = directories(disk)
    source = first.create("t", 0, TOPIC_ID, CONFIG, wall_ms=NOW_MS)
    copy = future_logs.open_future(second, source, NOW_MS)
    copying = Copying(source, copy)
    epoch = 0
    for _ in range(40):
        chance = random.random()
        if chance < 0.5:
            append(source, make_batch(random.randint(1, 3), fill=random.randrange(256)), epoch)
        elif chance < 0.6:
            batches = contents(source)
            if batches:
                source.truncate_to(random.choice(batches)[0])
            epoch += random.randint(1, 2)
        elif chance < 0.65:
            epoch += 1
            source.epochs.assign(epoch, source.end_offset)
        elif chance < 0.72:
            source.advance_start_offset(random.randint(source.start_offset, source.end_offset))
        elif chance < 0.74:
            source.truncate_fully_and_start_at(source.end_offset + random.randint(0, 5))
            epoch += 1
        else:
            catch_up(copying, pieces=random.randint(1, 3))
    catch_up(copying)
    copying.finish()
    assert contents(copy) == contents(source)
    assert (copy.start_offset, copy.end_offset) == (source.start_offset, source.end_offset)
    assert copy.epochs.latest_epoch() == source.epochs.latest_epoch()
    assert copy.recovery_point == copy.end_offset


def test_an_epoch_in_which_nothing_was_written_is_copied_too(disk: SimDisk) -> None:
    first, second = directories(disk)
    source = first.create("t", 0, TOPIC_ID, CONFIG, wall_ms=NOW_MS)
    append(source, epoch=3)
    source.epochs.assign(5, source.end_offset)
    copying = Copying(source, future_logs.open_future(second, source, NOW_MS))
    catch_up(copying)
    copying.finish()
    assert list(copying.copy.epochs) == list(source.epochs)


def test_what_was_written_down_of_a_deleted_partition_is_struck_out(disk: SimDisk) -> None:
    first, second = directories(disk)
    second.delete(second.create("t", 0, TOPIC_ID, CONFIG, wall_ms=NOW_MS))
    second.create("t", 0, TOPIC_ID, CONFIG, wall_ms=NOW_MS)
    second.checkpoint_high_watermarks({("t", 0): 100})
    second.delete(second.logs["t", 0])
    source = first.create("t", 0, TOPIC_ID, CONFIG, wall_ms=NOW_MS)
    append(source)
    copying = Copying(source, future_logs.open_future(second, source, NOW_MS))
    catch_up(copying)
    copying.finish()
    assert second.high_watermark("t", 0) == 100
    second.take_in(copying.copy)
    assert second.high_watermark("t", 0) == 0


def test_a_copy_takes_the_place_of_its_source(disk: SimDisk) -> None:
    first, second = directories(disk)
    source = first.create("t", 0, TOPIC_ID, CONFIG, wall_ms=NOW_MS)
    for number in range(12):
        append(source, make_batch(2, fill=number))
    source.advance_start_offset(3)
    copy = future_logs.open_future(second, source, NOW_MS)
    [(key, path)] = second.copies_on_disk()
    assert (key, path) == (("t", 0), copy.directory)
    copying = Copying(source, copy)
    catch_up(copying)
    copying.finish()
    before = contents(source)
    second.take_in(copy)
    first.give_away(source)
    assert copy.directory == "/b/t-0" and second.get("t", 0) is copy
    assert first.get("t", 0) is None and not disk.is_dir("/a/t-0")
    assert contents(source) == before, "a reader of the old log can go on"
    append(copy, make_batch(fill=99))
    copy.flush()
    assert contents(copy)[:-1] == before
    source.close(clean=False)
    first.remove_deleted()
    assert [name for name in disk.list("/a") if name.startswith("t-0")] == []
    for one in (first, second):
        one.close()
    again = LogDir.open(disk, "/b")
    opened = again.create("t", 0, TOPIC_ID, CONFIG, wall_ms=NOW_MS)
    assert contents(opened)[:-1] == before and opened.start_offset == 3


def test_a_copy_of_a_earlier_run_is_found_and_removed(disk: SimDisk) -> None:
    first, second = directories(disk)
    source = first.create("t", 0, TOPIC_ID, CONFIG, wall_ms=NOW_MS)
    for number in range(5):
        append(source, make_batch(2, fill=number))
    copy = future_logs.open_future(second, source, NOW_MS)
    catch_up(Copying(source, copy), pieces=2)
    copied = contents(copy)
    copy.flush()
    copy.close(clean=False)
    [(_, path)] = second.copies_on_disk()
    again = future_logs.open_future(second, source, NOW_MS, path)
    assert contents(again) == copied
    catch_up(Copying(source, again))
    assert contents(again) == contents(source)
    again.close(clean=False)
    future_logs.discard(second, ("t", 0), path)
    assert list(second.copies_on_disk()) == []
    assert second.remove_deleted() == 1
