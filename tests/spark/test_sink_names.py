"""What sinks are called without a transactionalIdPrefix, and how those of before are found."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.client.cluster import Cluster
from fencepost.spark.errors import SinkError
from fencepost.spark.query_checkpoint import QueryUnknownError, planned_since_ms, query_id_of
from fencepost.spark.sink_names import (
    TASK_ID,
    UNNAMED,
    digest_of,
    forget_resolved,
    name_of_checkpoint,
    name_of_key,
    name_of_query,
    name_of_write,
)

from .exactly_once_world import World

MakeWorld = Callable[..., World]
LEGAL = re.compile(r"[A-Za-z0-9._-]{1,200}")


@pytest.fixture
def checkpoint(tmp_path: Path, topic: str) -> Path:
    """Of a query that has an id, which no other has."""
    made = tmp_path / "query"
    made.mkdir()
    (made / "metadata").write_text(json.dumps({"id": f"id of {topic}"}))
    return made


@pytest.fixture
def cluster(served: str):
    with Cluster(served) as opened:
        yield opened


def named(cluster: Cluster, location: object, *options: str) -> str:
    """As another process finds it."""
    forget_resolved()
    return name_of_checkpoint(cluster, str(location), *options)


def test_names_say_what_they_are_of():
    assert re.fullmatch("fencepost-spark-orders-[0-9a-f]{32}", name_of_write("orders"))
    assert re.fullmatch("fencepost-spark-[0-9a-f]{32}", name_of_write(None))
    assert name_of_key("Nightly: Paris", "orders").startswith(
        "fencepost-spark-Nightly_Paris-orders-"
    )
    assert name_of_query("to tables", "orders.v1").startswith(
        "fencepost-spark-to_tables-orders.v1-"
    )
    for text in ("", "é" * 500, "a/b\n\0", "-" * 90, "..", "x" * 249):
        for name in (name_of_key(text, text), name_of_query(text, text), name_of_write(text)):
            assert LEGAL.fullmatch(name), name
    for name in (name_of_write("t-1"), name_of_write(None)):
        assert re.fullmatch(UNNAMED, name)
    assert not re.fullmatch(UNNAMED, name_of_key("a", "b"))


def test_names_tell_apart_what_is_another_sink():
    pairs = [("a", "b"), ("a", "c"), ("b", "b"), ("a", None), ("a" * 60, "b"), ("a" * 61, "b")]
    pairs += [("a!", "b"), ("a?", "b")]
    names = [made(*pair) for made in (name_of_key, name_of_query) for pair in pairs]
    assert len(set(names)) == len(names)
    assert name_of_key("a", "b") == name_of_key("a", "b")
    assert name_of_write("t") != name_of_write("t")


def test_a_query_keeps_its_sink(
    cluster: Cluster, checkpoint: Path, make_world: MakeWorld, tmp_path: Path
):
    """Under another name and with another topic, and where its checkpoint is moved."""
    name = named(cluster, checkpoint, "first", "orders")
    query_id = json.loads((checkpoint / "metadata").read_text())["id"]
    assert name == f"fencepost-spark-first-orders-{digest_of(query_id)}"
    assert named(cluster, checkpoint, "other", "orders") != name, "nothing is written yet"
    world = make_world(sink=name, batches=1)
    with world.cluster() as opened:
        world.open(opened)  # it has decided nothing, and may come to it
    assert named(cluster, checkpoint, "other", "sums") == name
    assert world.live()
    copied = shutil.copytree(checkpoint, tmp_path / "copied")
    link = tmp_path / "link"
    link.symlink_to(checkpoint)
    for location in (
        *(checkpoint, copied, link, f"file:{checkpoint}", f"file://{checkpoint}", f"{checkpoint}/"),
        f"{tmp_path}/other/../query",
    ):
        assert named(cluster, location, "other", "sums") == name


def test_a_sink_that_was_named_by_its_location_is_found(
    cluster: Cluster, checkpoint: Path, make_world: MakeWorld
):
    """As versions before named it: by what was written as checkpointLocation."""
    for number, written in enumerate((str(checkpoint), f"file://{checkpoint}")):
        digest = hashlib.sha256(written.encode()).hexdigest()[:20]
        world = make_world(sink=f"fencepost-spark-{digest}", batches=1 + number)
        world.query = json.loads((checkpoint / "metadata").read_text())["id"]
        assert world.live()
        for location in (checkpoint, f"file:{checkpoint}", f"file://{checkpoint}/"):
            assert named(cluster, location, "named", "orders") == world.sink, "the furthest"


def test_a_checkpoint_that_cannot_be_read(cluster: Cluster, tmp_path: Path, make_world: MakeWorld):
    """The id is not known, so its sink would be another when it is moved: refused, unless it has
    one that is named by its location."""
    for location in (str(tmp_path / "none"), "wasbs://there@account/query"):
        with pytest.raises(
            SinkError, match="needs the option transactionalIdPrefix here"
        ) as raised:
            named(cluster, location)
        assert "transactionalIdPrefix" in str(raised.value.getMessageParameters())
    digest = hashlib.sha256(str(tmp_path / "none").encode()).hexdigest()[:20]
    world = make_world(sink=f"fencepost-spark-{digest}", batches=1)
    assert world.live()
    assert named(cluster, tmp_path / "none") == world.sink


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", "null", '{"id": 3}', '{"id": ""}', '{"id": "a\\u0000b"}', "[" * 100_000),
        json.dumps({"id": "x" * 201}),
        '{"id": "x"}' + " " * 70_000,
        '{"other": "x"}',
    ],
)
def test_metadata_that_is_none(tmp_path: Path, content: str):
    (tmp_path / "metadata").write_text(content)
    with pytest.raises(QueryUnknownError):
        query_id_of(str(tmp_path))


def test_when_a_batch_was_first_tried(tmp_path: Path):
    assert planned_since_ms(str(tmp_path)) is None
    assert planned_since_ms("wasbs://there@account/query") is None
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    for number, name in enumerate(("9", "10", ".10.crc", "11.tmp", "2")):
        (offsets / name).write_text("v1")
        os.utime(offsets / name, (1_000 + number, 1_000 + number))
    assert planned_since_ms(str(tmp_path)) == 1_001_000


def test_tasks_begin_with_the_sink(make_world: MakeWorld):
    world = make_world(sink=name_of_key("app", "t-1"), batches=1)
    with world.cluster() as opened:
        world.written(opened, world.open(opened), 0)
        for name in world.still_open():
            assert re.fullmatch(re.escape(world.sink) + TASK_ID, name)
