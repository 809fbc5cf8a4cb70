"""The served broker as a process: start, signals, crashes, limits. Real sockets, files, kills."""

import contextlib
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from fencepost.batch.records import read_records
from fencepost.cli.main import main
from fencepost.testing import Cluster, ClusterError
from fencepost.wire.api import (
    ApiVersionsRequest,
    FetchRequest,
    MetadataRequest,
    ProduceRequest,
)
from fencepost.wire.errors import ErrorCode

from ...waiting import DEADLINE_S, eventually
from ..listener_fixtures import Client, connect
from ..topic_requests import batch, fetch, fetch_request, make_topic, produce, produce_request

pytestmark = pytest.mark.slow

MARKER = ".kafka_cleanshutdown"
IDLE_RSS_MAX_BYTES = 60 * 1024 * 1024
ASK = ApiVersionsRequest(client_software_name="t", client_software_version="1")


def read_everything(client, topic, partitions):
    found = []
    for index in range(partitions):
        offset = 0
        while True:
            offsets = [-1] * index + [offset]
            request = fetch_request(topic, *offsets)
            request.topics[0].partitions = request.topics[0].partitions[index:]
            (answered,) = client.ask(request, 12).responses
            (part,) = answered.partitions
            assert part.error_code == 0
            records = [r for r in read_records(part.records) if r.offset >= offset]
            if not records:
                break
            found += [record.value for record in records]
            offset = records[-1].offset + 1
    return found


# -- stop, crash, restart ------------------------------------------------------------------------


def test_sigterm_stops_in_order_and_data_stays():
    with Cluster(faults=False) as cluster:
        with connect(cluster) as client:
            topic = make_topic(client, name="kept")
            assert produce(client, topic, batch(b"a")).error_code == 0
            assert not (cluster.data_dir / MARKER).exists()
            assert cluster.stop() == 0
            assert client.is_disconnected()
        assert (cluster.data_dir / MARKER).exists()
        address = cluster.bootstrap_servers
        cluster.start()
        assert cluster.bootstrap_servers == address
        assert not (cluster.data_dir / MARKER).exists()
        assert "was not closed cleanly" not in cluster.log_text
        with connect(cluster) as client:
            assert produce(client, topic, batch(b"b")).base_offset == 1
            assert read_everything(client, topic, 1) == [b"a", b"b"]


def test_sigint_stops_in_order():
    with Cluster(faults=False) as cluster:
        os.kill(cluster.pid, signal.SIGINT)
        eventually(lambda: not cluster.running)
        assert (cluster.data_dir / MARKER).exists()


def test_a_second_signal_ends_it_at_once():
    with Cluster(faults=False) as cluster, connect(cluster) as client:
        topic = make_topic(client)
        for _ in range(8):
            produce(client, topic, batch(b"v" * 900_000))
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(30):  # answers that nobody takes hold the orderly stop up for a moment
            client.send(fetch_request(topic, 0, partition_max_bytes=1 << 24), 12)
        pid = cluster.pid
        for number in (signal.SIGTERM, signal.SIGINT):  # two of one kind could become one
            os.kill(pid, number)
        eventually(lambda: not cluster.running)
        assert "terminating at once" in cluster.log_text


@pytest.mark.parametrize("round_", range(3))
def test_kill_9_keeps_every_acknowledged_record(round_):
    """Several producers, pipelined; the broker is killed in the middle, and started again."""
    partitions, acknowledged, stop = 3, [], threading.Event()

    def producer(cluster, topic, number):
        sequence = 0
        with contextlib.suppress(EOFError, ConnectionError), connect(cluster) as client:
            while not stop.is_set():
                sent = []
                for _ in range(5):
                    value = b"%d-%d" % (number, sequence)
                    sequence += 1
                    index = sequence % partitions
                    client.send(produce_request(topic, batch(value), index=index), 9)
                    sent.append(value)
                for value in sent:
                    _, response = client.receive(0, 9)
                    assert response.responses[0].partition_responses[0].error_code == 0
                    acknowledged.append(value)

    with Cluster(faults=False) as cluster:
        with connect(cluster) as client:
            topic = make_topic(client, partitions=partitions)
        threads = [
            threading.Thread(target=producer, args=(cluster, topic, number)) for number in range(4)
        ]
        for thread in threads:
            thread.start()
        eventually(lambda: len(acknowledged) > 300 + 200 * round_)
        assert cluster.kill() == -signal.SIGKILL
        stop.set()
        for thread in threads:
            thread.join(DEADLINE_S)
        cluster.start()
        assert "was not closed cleanly" in cluster.log_text
        with connect(cluster) as client:
            found = read_everything(client, topic, partitions)
    assert set(acknowledged) <= set(found)
    assert len(found) == len(set(found))
    for number in range(4):
        for index in range(partitions):
            mine = [
                int(value.split(b"-")[1]) for value in found if value.startswith(b"%d-" % number)
            ]
            there = [sequence for sequence in mine if (sequence + 1) % partitions == index]
            assert there == sorted(there)


def test_a_refusing_disk_acknowledges_nothing_and_ends_the_node():
    """The file size limit of the process stands in for a full disk."""
    with Cluster(faults=False) as cluster:
        with connect(cluster) as client:
            topic = make_topic(client)
            kept = [b"%d" % number for number in range(20)]
            for value in kept:
                assert produce(client, topic, batch(value)).error_code == 0
            hard = resource.prlimit(cluster.pid, resource.RLIMIT_FSIZE)[1]
            resource.prlimit(cluster.pid, resource.RLIMIT_FSIZE, (100_000, hard))
            refused = produce(client, topic, batch(b"l" * 200_000))
            assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            (part,) = fetch(client, topic, 0)
            assert part.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            eventually(lambda: not cluster.running)
        assert "offline" in cluster.log_text
        assert not (cluster.data_dir / MARKER).exists()
        cluster.start()
        with connect(cluster) as client:
            assert read_everything(client, topic, 1) == kept


# -- starting ------------------------------------------------------------------------------------


def serve(*arguments, **kinds):
    return subprocess.run(
        [sys.executable, "-m", "fencepost.cli.main", "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        **kinds,
    )


def test_a_wrong_configuration_is_exit_code_2(tmp_path):
    done = serve("-o", "num.partitions=many", cwd=tmp_path)
    assert done.returncode == 2
    assert "num.partitions='many'" in done.stderr
    done = serve("-o", "nonsense", cwd=tmp_path)
    assert done.returncode == 2
    assert "KEY=VALUE" in done.stderr
    done = serve("--listen", "localhost", cwd=tmp_path)
    assert done.returncode == 2
    assert "HOST:PORT" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_taken_port_is_found_out_before_any_data_is_touched(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = serve("--data-dir", str(tmp_path / "d"), "--listen", f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert (
        f"cannot start: listener PLAINTEXT: cannot listen on 127.0.0.1:{port}: Address already in"
        " use (another process listens on this port: stop it, or give another port in --listen"
    ) in done.stderr
    assert not (tmp_path / "d").exists()


def test_a_port_that_cannot_be_is_spoken_of_as_such(tmp_path):
    done = serve("--data-dir", str(tmp_path / "d"), "--listen", "127.0.0.1:65536")
    assert done.returncode == 2
    assert "with a port from 0 to 65535" in done.stderr


def test_a_data_directory_is_for_one_process_and_one_node(tmp_path):
    with Cluster(faults=False) as cluster:
        again = serve("--data-dir", str(cluster.data_dir), "--listen", "127.0.0.1:0")
        assert again.returncode == 1
        assert f"{cluster.data_dir}/.lock is in use by process {cluster.pid}" in again.stderr
        assert "give another directory in --data-dir or `log.dirs`" in again.stderr
        cluster.stop()
        other = serve(
            "--data-dir", str(cluster.data_dir), "--listen", "127.0.0.1:0", "-o", "node.id=7"
        )
        assert other.returncode == 1
        assert "node.id" in other.stderr
        assert (cluster.data_dir / "meta.properties").read_text().count("node.id=1") == 1
    (tmp_path / "somebody.txt").write_text("not a broker's")
    foreign = serve("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    assert foreign.returncode == 1
    assert "meta.properties" in foreign.stderr


def test_two_listeners_on_free_ports_are_told_by_name():
    listeners = "PLAINTEXT://127.0.0.1:0,INSIDE://localhost:0"
    protocols = {"listener.security.protocol.map": "INSIDE:PLAINTEXT,PLAINTEXT:PLAINTEXT"}
    with Cluster(config={"listeners": listeners, **protocols}) as cluster:
        addresses = cluster.bootstrap_servers.split(",")
        assert len(addresses) == len(set(addresses)) == 2
        for address in addresses:
            host, _, port = address.rpartition(":")
            with Client(socket.create_connection((host, int(port)), DEADLINE_S)) as client:
                (broker,) = client.ask(MetadataRequest(topics=[]), 9).brokers
                assert (broker.host, broker.port) == (host, int(port))


def test_an_open_listener_is_reported_loudly(tmp_path):
    allowed = {"fencepost.allow.anonymous.listeners": True}
    with Cluster(config={"listeners": "PLAINTEXT://0.0.0.0:0", **allowed}) as cluster:
        assert "WITHOUT a login" in cluster.log_text
    with Cluster(faults=False) as cluster:
        assert "WITHOUT a login" not in cluster.log_text


def test_a_listener_is_open_to_others_only_if_that_is_said(tmp_path):
    done = serve("--data-dir", str(tmp_path / "d"), "--listen", "0.0.0.0:0")
    assert done.returncode == 1
    assert "fencepost.allow.anonymous.listeners=true" in done.stderr


def test_it_says_where_it_listens_and_keeps_its_data():
    with Cluster(faults=False) as cluster:
        assert f"listening on {cluster.bootstrap_servers}" in cluster.log_text
        assert f"data in {cluster.data_dir}" in cluster.log_text


def test_the_cluster_for_tests_reports_what_the_broker_said():
    with pytest.raises(ClusterError, match=r"no\.such\.key"), Cluster(fencepost_no_such_key=1):
        pass
    with pytest.raises(ValueError, match="brokers=0"):
        Cluster(brokers=0)


def test_it_ends_with_its_parent(tmp_path):
    script = (
        "import os; from fencepost.testing import Cluster; c = Cluster(faults=False); c.start();"
        "print(c.pid, flush=True); os._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=DEADLINE_S, check=True
    )
    pid = int(done.stdout)
    eventually(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie")


def test_it_ends_with_a_parent_that_did_not_wait_for_it(tmp_path):
    """The start of this broker waits for a controller that is not there."""
    config = (
        "node.id=2\nprocess.roles=broker\nlisteners=PLAINTEXT://127.0.0.1:0\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@127.0.0.1:1\n"
        f"log.dirs={tmp_path}/data\n"
    )
    (tmp_path / "server.properties").write_text(config)
    words = ["format", "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg"]
    assert main([*words, "--config", str(tmp_path / "server.properties")]) == 0
    script = (
        "import os, pathlib; from fencepost.testing.launcher import Launcher;"
        "from fencepost.testing.node_process import NodeProcess;"
        f"n = NodeProcess('n', pathlib.Path({str(tmp_path)!r}), Launcher()); n.start();"
        "print(n.pid, flush=True); os._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=DEADLINE_S, check=True
    )
    pid = int(done.stdout)
    try:
        eventually(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie")
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        raise
    assert "the parent process has ended" in (tmp_path / "log.txt").read_text()


def test_version_names_the_backends():
    done = subprocess.run(
        [sys.executable, "-m", "fencepost.cli.main", "--version"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "FENCEPOST_PURE": "1"},
    )
    assert "wire: python, batch: python" in done.stdout


# -- bounds --------------------------------------------------------------------------------------


def rss_bytes(cluster: Cluster) -> int:
    return psutil.Process(cluster.pid).memory_info().rss


def test_an_idle_broker_is_small():
    with Cluster(faults=False) as cluster, connect(cluster) as client:
        topic = make_topic(client)
        assert produce(client, topic, batch(b"a")).error_code == 0
        assert fetch(client, topic, 0)
        assert rss_bytes(cluster) < IDLE_RSS_MAX_BYTES


def test_a_flood_costs_bounded_memory():
    """Unfinished frames that claim 100 MB, pipelines without end, and readers that do not read."""
    connections = 30
    with Cluster(faults=False) as cluster, contextlib.ExitStack() as stack:
        admin = stack.enter_context(connect(cluster))
        topic = make_topic(admin)
        for _ in range(4):
            produce(admin, topic, batch(b"v" * 1_000_000))
        before = rss_bytes(cluster)
        claims = [stack.enter_context(connect(cluster)) for _ in range(connections)]
        for client in claims:
            client.send_raw(struct.pack(">i", 100_000_000) + b"x" * 100_000)
        readers = [stack.enter_context(connect(cluster)) for _ in range(connections)]
        for client in readers:
            for _ in range(20):
                client.send(fetch_request(topic, 0, partition_max_bytes=1 << 24), 12)
        floods = [stack.enter_context(connect(cluster)) for _ in range(connections)]
        waiting = FetchRequest(max_wait_ms=60_000, min_bytes=1 << 30, topics=[])
        waiting.topics = fetch_request(topic, 0).topics
        for client in floods:
            client.sock.settimeout(0.1)
            with contextlib.suppress(TimeoutError):
                for _ in range(2000):
                    client.send(waiting, 12)
        assert admin.ask(ASK, 3).error_code == 0
        grown = rss_bytes(cluster) - before
        # 100 KB twice over of each claim; one answer of 4 MB and 1 MB of high water of each
        # reader; 256 KB and 64 requests of each flood.
        assert grown < connections * (0.3 + 6 + 1) * 1e6
        assert produce(admin, topic, batch(b"still here")).error_code == 0
        for client in readers:
            for number in range(1, 21):
                assert client.receive(1, 12)[0] == number


def test_hundreds_of_connections_come_and_go():
    with Cluster(faults=False, max_connections=200) as cluster:
        for _ in range(3):
            with contextlib.ExitStack() as stack:
                clients = [stack.enter_context(connect(cluster)) for _ in range(200)]
                for client in clients:
                    assert client.ask(ASK, 3).error_code == 0
                with connect(cluster) as refused:
                    assert refused.is_disconnected()
            descriptors = Path(f"/proc/{cluster.pid}/fd")
            eventually(lambda: len(list(descriptors.iterdir())) < 50)  # noqa: B023


def test_a_broker_without_c_extensions():
    """The whole path once more without any C extension."""
    with Cluster(faults=False) as cluster:
        cluster.stop()
        os.environ["FENCEPOST_PURE"] = "1"
        try:
            cluster.start()
        finally:
            del os.environ["FENCEPOST_PURE"]
        with connect(cluster) as client:
            topic = make_topic(client, partitions=2)
            request: ProduceRequest = produce_request(topic, batch(b"a", b"b"), 13)
            assert client.ask(request, 13).responses[0].partition_responses[0].base_offset == 0
            (part,) = fetch(client, topic, 1, version=13)
            assert [record.value for record in read_records(part.records)] == [b"a", b"b"]


def test_the_limit_of_open_files_is_raised_as_far_as_it_may():
    script = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, {hard}));" + (
        "from fencepost.testing import Cluster;"
        "c = Cluster(faults=False, max_connections=400); c.start();"
        "print(resource.prlimit(c.pid, resource.RLIMIT_NOFILE)[0], 'ulimit' in c.log_text);"
        "c.close()"
    )
    for hard, expected in ((4000, "4000 False"), (1000, "1000 True")):
        done = subprocess.run(
            [sys.executable, "-c", script.format(hard=hard)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        )
        assert done.stdout.strip() == expected


def cut_in_half(cluster: Cluster, topic_dir: str) -> None:
    """Lose the second half of a partition's first segment."""
    path = cluster.data_dir / topic_dir / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_lost_durable_records_stop_the_start_at_once_and_can_be_accepted():
    with Cluster(faults=False) as cluster:
        with connect(cluster) as client:
            topic = make_topic(client, name="damaged")
            for number in range(50):
                assert produce(client, topic, batch(b"%d" % number)).error_code == 0
        cluster.stop()
        (cluster.data_dir / MARKER).unlink()
        cut_in_half(cluster, "damaged-0")
        with pytest.raises(ClusterError) as caught:
            cluster.start()
        assert "exit code 1" in str(caught.value)
        assert "damaged-0" in str(caught.value)
        assert "fencepost.accept.loss=damaged-0" in str(caught.value)
        assert "Traceback" not in str(caught.value)
        cluster.configure({"fencepost.accept.loss": "damaged-0"})
        cluster.start()
        assert "damaged-0 has lost records from offset" in cluster.log_text
        with connect(cluster) as client:
            kept = read_everything(client, topic, 1)
            assert kept == [b"%d" % number for number in range(len(kept))]
            assert 0 < len(kept) < 50
            assert produce(client, topic, batch(b"on")).base_offset == len(kept)


def test_a_tail_that_is_cut_off_is_reported():
    with Cluster(faults=False) as cluster:
        with connect(cluster) as client:
            topic = make_topic(client, name="torn")
            assert produce(client, topic, batch(b"a")).error_code == 0
        cluster.kill()
        with (cluster.data_dir / "torn-0" / "00000000000000000000.log").open("ab") as file:
            file.write(b"\x01" * 100)
        cluster.start()
        assert "torn-0: truncated 100 bytes" in cluster.log_text
        with connect(cluster) as client:
            assert read_everything(client, topic, 1) == [b"a"]


def test_a_wildcard_listener_is_ready_at_an_address_that_works():
    config = {"listeners": "PLAINTEXT://:0", "fencepost.allow.anonymous.listeners": "true"}
    with Cluster(config=config) as cluster:
        assert cluster.bootstrap_servers.startswith("127.0.0.1:")
        with connect(cluster) as client:
            assert client.ask(ASK, 3).error_code == 0
        assert " advertises " in cluster.log_text
