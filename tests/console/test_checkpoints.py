"""Pages of Spark's checkpoints, of our source and of Spark's own, without Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.testing import Cluster

from ..spark.checkpoints import QUERY_ID, write_checkpoint

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with Cluster() as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def topic(served: str) -> str:
    """With five records."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Client(served) as client:
        Admin(client).create_topic(name, 1, 1)
        Admin(client).wait_for_topic(name)
        with Producer(client) as producer:
            for _ in range(5):
                producer.send(name, b"v", partition=0)
    return name


def written(folder: Path, topic: str, offset: int) -> str:
    """A checkpoint of one batch up to this offset, committed."""
    folder.mkdir()
    return str(write_checkpoint(folder, [{topic: {"0": offset}}], committed=0))


def test_a_query_is_listed_and_held_against_the_cluster(
    served: str, topic: str, tmp_path: Path, browse
):
    place = written(tmp_path / "orders", topic, 2)
    console = browse(served, checkpoints=(place, place))
    listed = console.get("/api/checkpoints").json()
    names = [row["name"] for row in listed["sections"][0]["document"]]
    assert len(set(names)) == 2 and names[1] == f"{names[0]}~2"
    assert listed["requests"] == {}, "the files alone are read for the list"
    document = console.get(f"/api/checkpoints/{names[0]}").json()
    (section,) = document["sections"]
    assert section["document"]["query"] == QUERY_ID
    (partition,) = section["document"]["partitions"]
    assert (partition["committed"], partition["end"], partition["lag"]) == (2, 5, 3)
    assert "3 offsets behind" in section["sentences"][1]["text"]


def test_what_the_log_has_lost_is_bad(served: str, topic: str, tmp_path: Path, browse):
    place = written(tmp_path / "orders", topic, 1)
    with Client(served) as client:
        Admin(client).delete_records({TopicPartition(topic, 0): 4})
    console = browse(served, checkpoints=(place,))
    name = Path(place).name
    (section,) = console.get(f"/api/checkpoints/{name}").json()["sections"]
    assert section["sentences"][1]["level"] == "bad"
    assert topic in section["sentences"][1]["text"]


def test_what_is_no_checkpoint_says_so(served: str, tmp_path: Path, browse):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    broken = tmp_path / "broken" / "offsets"
    broken.mkdir(parents=True)
    (broken / "0").write_bytes(b"\xff\x00v1\n{{{")
    names = ("empty", "file", "broken", "absent")
    console = browse(served, checkpoints=tuple(str(tmp_path / name) for name in names))
    listed = console.get("/api/checkpoints").json()["sections"][0]["document"]
    assert [row["name"] for row in listed] == list(names)
    for row in listed:
        answer = console.get(f"/api/checkpoints/{row['name']}")
        assert (answer.status_code == 404) == (row["error"] is not None), row
    assert {row["name"] for row in listed if row["error"]} >= {"file", "broken", "absent"}
    assert console.get("/api/checkpoints/..%2Fetc").status_code == 404
