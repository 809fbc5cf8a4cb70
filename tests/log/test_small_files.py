"""The small files: golden bytes, what is read back, and every kind of damage."""

from __future__ import annotations

import json

import pytest

from fencepost.batch.crc import crc32c
from fencepost.log.checkpoints import OffsetCheckpoint
from fencepost.log.disk import OsDisk
from fencepost.log.errors import CorruptFileError, LogDirNotFormattedError, LogError
from fencepost.log.meta import (
    MetaProperties,
    encode_partition_metadata,
    format_log_dir,
    read_clean_shutdown,
    read_meta_properties,
    read_partition_metadata,
    remove_clean_shutdown,
    write_clean_shutdown,
)
from fencepost.log.names import (
    deleted_dir,
    is_valid_topic,
    offset_file,
    parse_offset_file,
    parse_partition_dir,
    partition_dir,
)
from fencepost.log.quorum_state import (
    QuorumStateFile,
    StoredQuorumState,
    decode_quorum_state,
    encode_quorum_state,
)
from fencepost.sim.disk import SimDisk
from fencepost.wire.records.quorum_state import QuorumStateData, QuorumVoter
from fencepost.wire.types import Uuid

DIRECTORY_ID = Uuid(bytes(range(16)))


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.mkdir("/data")
    return disk


def put(disk: SimDisk, path: str, content: bytes) -> None:
    disk.write_atomic(path, content)


# ---- offset checkpoints


def test_an_offset_checkpoint_is_kafkas(disk: SimDisk):
    checkpoint = OffsetCheckpoint(disk, "/data/recovery-point-offset-checkpoint")
    assert checkpoint.read() == {}
    offsets = {("orders", 0): 12, ("orders", 11): 0, ("a.b_c-d", 3): (1 << 63) - 1}
    checkpoint.write(offsets)
    assert disk.read("/data/recovery-point-offset-checkpoint") == (
        b"0\n3\norders 0 12\norders 11 0\na.b_c-d 3 9223372036854775807\n"
    )
    assert checkpoint.read() == offsets
    checkpoint.write({})
    assert checkpoint.read() == {}
    assert disk.list("/data") == ["recovery-point-offset-checkpoint"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n1\n",
        b"0\n1\nt 0\n",
        b"0\n1\nt 0 1 2\n",
        b"0\n1\nt 0 -1\n",
        b"0\n1\nt -1 0\n",
        b"0\n1\n../x 0 0\n",
        b"0\n1\n\xff 0 0\n",
        b"0\n2\nt 0 1\nt 0 2\n",
        b"0\n2\nt 0 1\n",
        b"5\n0\n",
        b"0\n-1\n",
    ],
)
def test_a_damaged_offset_checkpoint_is_refused(disk: SimDisk, content: bytes):
    put(disk, "/data/file", content)
    with pytest.raises(CorruptFileError):
        OffsetCheckpoint(disk, "/data/file").read()


# ---- meta.properties


def test_meta_properties(disk: SimDisk):
    with pytest.raises(LogDirNotFormattedError):
        read_meta_properties(disk, "/data")
    made = format_log_dir(
        disk, "/data/new", cluster_id="cl=us:ter", node_id=7, directory_id=DIRECTORY_ID
    )
    assert read_meta_properties(disk, "/data/new") == made
    lines = disk.read("/data/new/meta.properties").split(b"\n")
    assert lines[0].startswith(b"#crc32c=")
    assert lines[1:] == [
        b"cluster.id=cl\\=us\\:ter",
        b"directory.id=AAECAwQFBgcICQoLDA0ODw",
        b"node.id=7",
        b"version=1",
        b"",
    ]


def test_formatting_again(disk: SimDisk):
    first = format_log_dir(disk, "/data", cluster_id="c", node_id=1, directory_id=DIRECTORY_ID)
    again = {"cluster_id": "c", "node_id": 1, "directory_id": Uuid.ZERO}
    with pytest.raises(LogError, match="already formatted"):
        format_log_dir(disk, "/data", **again)
    assert format_log_dir(disk, "/data", **again, ignore_formatted=True) == first
    for other in ({"cluster_id": "d"}, {"node_id": 2}):
        with pytest.raises(LogError, match="belongs to node 1"):
            format_log_dir(disk, "/data", **{**again, **other}, ignore_formatted=True)


def test_meta_properties_as_java_writes_them():
    data = (
        b"#\n#Fri Nov 21 06:00:00 UTC 2026\ncluster.id=4L6g3nShT-eMCtK--X86sw\nversion=1\r\n"
        b"! another comment\n  node.id : 3\ndirectory.id = AAECAwQFBgcICQoLDA0ODw\nextra=kept"
    )
    meta = MetaProperties.decode("file", data)
    assert meta == MetaProperties("4L6g3nShT-eMCtK--X86sw", 3, DIRECTORY_ID, 1, {"extra": "kept"})
    assert MetaProperties.decode("file", meta.encode()) == meta


def test_meta_properties_of_old():
    meta = MetaProperties.decode("file", b"version=0\nbroker.id=5\n")
    assert meta == MetaProperties(None, 5, None, 0)
    assert MetaProperties.decode("file", meta.encode()) == meta
    assert MetaProperties.decode("file", b"") == MetaProperties(None, None, None, 0)


@pytest.mark.parametrize(
    "content",
    [
        b"version=2\nnode.id=1\ncluster.id=c\n",
        b"version=x\n",
        b"version=1\ncluster.id=c\n",
        b"version=1\nnode.id=1\n",
        b"version=1\nnode.id=-1\ncluster.id=c\n",
        b"version=1\nnode.id=1\ncluster.id=c\ndirectory.id=short\n",
        b"a=\\uZZZZ\n",
        b"x" * ((1 << 20) + 1),
    ],
)
def test_damaged_meta_properties_are_refused(content: bytes):
    with pytest.raises(CorruptFileError):
        MetaProperties.decode("file", content)


def test_every_flipped_bit_of_our_meta_properties_is_noticed():
    data = MetaProperties("cluster", 12, DIRECTORY_ID).encode()
    good = MetaProperties.decode("file", data)
    first_line_bits = (data.index(b"\n") + 1) * 8
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            found = MetaProperties.decode("file", bytes(damaged))
        except CorruptFileError:
            continue
        # Damage to the checksum's own line may leave a file without one, but never other values.
        assert bit < first_line_bits
        assert (found.cluster_id, found.node_id, found.directory_id) == (
            good.cluster_id, good.node_id, good.directory_id,
        )  # fmt: skip


# ---- clean shutdown, partition metadata


def test_clean_shutdown_marker(disk: SimDisk):
    assert read_clean_shutdown(disk, "/data") is None
    write_clean_shutdown(disk, "/data", 42)
    assert disk.read("/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":42}'
    assert read_clean_shutdown(disk, "/data") == 42
    remove_clean_shutdown(disk, "/data")
    remove_clean_shutdown(disk, "/data")
    assert read_clean_shutdown(disk, "/data") is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", -1),
        (b'{"version":0}', -1),
        (b'{"version":1,"brokerEpoch":3}', None),
        (b'{"version":0,"brokerEpoch":"3"}', None),
        (b"[]", None),
        (b"\x80garbage", None),
        (b'{"version":0,"brokerEpoch":3', None),
    ],
)
def test_a_marker_that_cannot_be_read_counts_as_none(disk: SimDisk, content, expected):
    put(disk, "/data/.kafka_cleanshutdown", content)
    assert read_clean_shutdown(disk, "/data") == expected


def test_partition_metadata(disk: SimDisk):
    assert read_partition_metadata(disk, "/data") is None
    put(disk, "/data/partition.metadata", encode_partition_metadata(DIRECTORY_ID))
    content = disk.read("/data/partition.metadata")
    assert content == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert read_partition_metadata(disk, "/data") == DIRECTORY_ID
    put(disk, "/data/partition.metadata", content + b"\n")
    assert read_partition_metadata(disk, "/data") == DIRECTORY_ID
    for damaged in (b"", b"version: 1\n", content[:-1], content + b"x", b"\0" * len(content)):
        put(disk, "/data/partition.metadata", damaged)
        with pytest.raises(CorruptFileError):
            read_partition_metadata(disk, "/data")


# ---- quorum-state


def test_quorum_state_is_kafkas(disk: SimDisk):
    file = QuorumStateFile(disk, "/data")
    assert file.read() is None
    state = QuorumStateData(leader_epoch=3, voted_id=2, voted_directory_id=DIRECTORY_ID)
    new = StoredQuorumState(state, 1)
    file.write(new)
    assert disk.read("/data/quorum-state").split(b"\n")[0] == (
        b'{"leaderId":-1,"leaderEpoch":3,"votedId":2,'
        b'"votedDirectoryId":"AAECAwQFBgcICQoLDA0ODw","data_version":1}'
    )
    assert file.read() == new
    voters = [QuorumVoter(voter_id=voter) for voter in (1, 2, 3)]
    old = StoredQuorumState(
        QuorumStateData(leader_epoch=9, leader_id=1, current_voters=voters), 0, (8, 77)
    )
    file.write(old)
    assert disk.read("/data/quorum-state").split(b"\n")[0] == (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":9,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}'
    )
    assert file.read() == old
    assert disk.list("/data") == ["quorum-state"]


def old_state(**changes: object) -> bytes:
    """A file of version 0 with other values, or more keys."""
    content = {
        "clusterId": "",
        "leaderId": 0,
        "leaderEpoch": 2,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [],
    }
    return json.dumps(content | changes | {"data_version": 0}).encode()


def new_state(**changes: object) -> bytes:
    """The same of version 1."""
    content = {
        "leaderId": 0,
        "leaderEpoch": 1,
        "votedId": -1,
        "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA",
    }
    return json.dumps(content | changes | {"data_version": 1}).encode()


def checked(lines: bytes) -> bytes:
    """The file with these lines, and their checksum."""
    return lines + b"\ncrc32c %08x\n" % crc32c(lines)


def test_quorum_state_as_kafka_leaves_it():
    found = decode_quorum_state(
        "file",
        b'{"clusterId":"","leaderId":0,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[],"data_version":0}',
    )
    assert found == StoredQuorumState(QuorumStateData(leader_epoch=2, leader_id=0), 0)
    assert decode_quorum_state("file", old_state()) == found
    voterless = decode_quorum_state("file", old_state(currentVoters=None))
    assert voterless.state.current_voters is None
    new = StoredQuorumState(QuorumStateData(leader_epoch=1, leader_id=0), 1)
    assert decode_quorum_state("file", new_state()) == new


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"{",
        b'{"data_version":2}',
        b'{"data_version":"1"}',
        b'{"data_version":1}',
        new_state(leaderEpoch=-1),
        new_state(leaderId=-2),
        new_state(votedId=-2),
        new_state(leaderEpoch=1.5),
        new_state(leaderEpoch=True),
        new_state(leaderEpoch=1 << 31),
        new_state(votedDirectoryId="x"),
        new_state(votedDirectoryId=5),
        new_state(more=5),
        new_state(currentVoters=[]),
        b'{"leaderId":0,"leaderEpoch":1,"votedId":-1,"data_version":1}',
        old_state(currentVoters=5),
        old_state(currentVoters=[5]),
        old_state(currentVoters=[{"voterId": -1}]),
        old_state(currentVoters=[{"voterId": 1, "more": 1}]),
        old_state(currentVoters=[{"voter_id": 1}]),
        old_state(appliedOffset=-1),
        old_state(clusterId=None),
        old_state(votedDirectoryId="AAAAAAAAAAAAAAAAAAAAAA"),
        old_state(leader_id=0),
        b"[" * 100_000,
        b" " * ((1 << 20) + 1),
        new_state() + b"\npromised 1 2\n",
        checked(new_state() + b"\npromised 1"),
        checked(new_state() + b"\npromised 1 -2"),
        checked(new_state() + b"\npromised 2147483648 2"),
        checked(new_state() + b"\npromised 1 9223372036854775808"),
        checked(new_state() + b"\nmore"),
        checked(new_state() + b"\npromised 1 2\npromised 1 2"),
    ],
)
def test_a_damaged_quorum_state_is_refused(content: bytes):
    with pytest.raises(CorruptFileError):
        decode_quorum_state("file", content)


@pytest.mark.parametrize("promised", [(0, 0), (7, 0), (6, 12_345), ((1 << 31) - 1, (1 << 63) - 1)])
def test_every_cut_and_flipped_bit_of_quorum_state_is_noticed(promised: tuple[int, int]):
    state = QuorumStateData(
        leader_epoch=7, leader_id=3, voted_id=2, voted_directory_id=DIRECTORY_ID
    )
    data = encode_quorum_state(StoredQuorumState(state, 1, promised))
    assert decode_quorum_state("file", data).acknowledged_end == promised
    line_bytes = data.index(b"\n")
    for size in range(len(data)):
        if size in (line_bytes, line_bytes + 1):  # whole JSON without its checksum, as Kafka's
            assert decode_quorum_state("file", data[:size]) == StoredQuorumState(state, 1)
            continue
        with pytest.raises(CorruptFileError):
            decode_quorum_state("file", data[:size])
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptFileError):
            decode_quorum_state("file", bytes(damaged))
    assert json.loads(data[:line_bytes])["leaderEpoch"] == 7


# ---- names


def test_names_of_files():
    assert offset_file(42, ".log") == "00000000000000000042.log"
    assert parse_offset_file("00000000000000000042.log") == (42, ".log", "")
    assert parse_offset_file("00000000000000000042.index.swap") == (42, ".index", ".swap")
    for other in (
        "42.log",
        "00000000000000000042",
        "99999999999999999999.log",
        "leader-epoch-checkpoint",
        "00000000000000000000-0000000000.checkpoint",
        "00000000000000000042.log\n",
    ):
        assert parse_offset_file(other) is None


def test_names_of_directories():
    assert partition_dir("a-b", 3) == "a-b-3"
    assert parse_partition_dir("a-b-3") == ("a-b", 3)
    assert parse_partition_dir("__cluster_metadata-0") == ("__cluster_metadata", 0)
    for other in ("a", "a-", "-1", "a-b", "a-01", "a-3.0f-delete", "a-2147483648", "ä-1", "..-1x"):
        assert parse_partition_dir(other) is None
    name = deleted_dir("x" * 249, 12, "0" * 32)
    assert len(name) == 255
    assert name.endswith("-12." + "0" * 32 + "-delete")
    assert parse_partition_dir(name) is None


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "a b", "ä", "a\0b", "x" * 250, "a\n"])
def test_what_is_no_topic_never_becomes_a_path(topic: str):
    assert not is_valid_topic(topic)
    with pytest.raises(ValueError, match="not a topic"):
        partition_dir(topic, 0)


def test_what_is_no_partition_never_becomes_a_path():
    for partition in (-1, 1 << 31):
        with pytest.raises(ValueError, match="not a partition"):
            partition_dir("t", partition)


def test_formatting_a_real_directory(tmp_path):
    path = str(tmp_path / "a" / "b")
    format_log_dir(OsDisk(), path, cluster_id="c", node_id=1, directory_id=DIRECTORY_ID)
    assert read_meta_properties(OsDisk(), path).directory_id == DIRECTORY_ID
