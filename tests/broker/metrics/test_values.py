"""What a node's metrics say is true."""

import contextlib
import threading
import time

import pytest

from fencepost.broker.config.keys.authorization import STANDARD_AUTHORIZER
from fencepost.broker.metrics.catalogue import CATALOGUE, FOLLOWER_LAG, REPLICA_LAG, Kind
from fencepost.broker.metrics.http import CONNECTIONS_MAX
from fencepost.wire.api import DeleteTopicsRequest, MetadataRequest
from fencepost.wire.errors import ErrorCode

from ...waiting import DEADLINE_S
from ..conftest import RunningNode
from ..topic_requests import batch, fetch, make_topic, produce
from ..transactions.transaction_requests import add, coordinated, initialized
from .scraping import Response, Scrape, get, receive, scrape, send
from .test_dashboard import OF_THE_PROCESS

OF_LOGINS = "fencepost_logins_total"
"""Told of listeners with SASL."""
OF_SEVERAL_NODES = {FOLLOWER_LAG, REPLICA_LAG, "fencepost_raft_replica_lag"}
"""`test_replication` sees the first two, `test_quorum` the last; `test_quotas` those of quotas."""
TOPICS = "kafka_server_brokertopicmetrics_"
REQUESTS = "kafka_network_requestmetrics_"


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A node that tells metrics."""
    config = {
        "fencepost.metrics.listener": "0",
        "transaction.partition.verification.enable": "false",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
    }
    running = RunningNode(tmp_path_factory.mktemp("watched") / "data", config)
    yield running
    running.close()


@pytest.fixture
def port(watched):
    return watched.node.observation.bound.port


@contextlib.contextmanager
def stalled_loop(watched):
    """The node's event loop waits until the block ends."""
    go_on = threading.Event()
    watched.node.loop.call_soon_threadsafe(go_on.wait, DEADLINE_S)
    try:
        yield
    finally:
        go_on.set()


def test_what_is_produced_and_fetched_is_counted_by_topic_and_in_all(watched, port):
    before = scrape(port)
    sent = [batch(b"a", b"b", b"c"), batch(b"d"), batch(b"e", b"f")]
    with watched.connect() as client:
        topic = make_topic(client, name="counted")
        for one in sent:
            produce(client, topic, one)
        size_bytes = sum(map(len, sent))
        (part,) = fetch(client, topic, 0)
        assert len(part.records) == size_bytes
    after = scrape(port)

    def grown(name, **labels):
        return after.value(name, **labels) - before.find(name).get((), 0)

    for name, expected in {
        "messagesin": 6,
        "bytesin": size_bytes,
        "bytesout": size_bytes,
        "totalproducerequests": 3,
        "totalfetchrequests": 1,
        "failedproducerequests": 0,
    }.items():
        assert after.value(f"{TOPICS}{name}_total", topic="counted") == expected, name
        assert grown(f"{TOPICS}{name}_total") == expected, name


def test_a_topic_that_is_deleted_stays_in_the_totals(watched, port):
    with watched.connect() as client:
        topic = make_topic(client, name="deleted")
        produce(client, topic, batch(b"a"))
        before = scrape(port)
        client.ask(DeleteTopicsRequest(topic_names=["deleted"], timeout_ms=10_000), 5)
    watched.call(watched.node.broker.followed)
    after = scrape(port)
    name = f"{TOPICS}messagesin_total"
    assert before.find(name, topic="deleted") and not after.find(name, topic="deleted")
    assert after.value(name) == before.value(name)


def test_requests_are_counted_by_version_with_their_errors_and_times(watched, port):
    before = scrape(port).find(f"{REQUESTS}requests_total", request="Metadata", version="12")
    with watched.connect() as client:
        topic = make_topic(client)
        client.ask(MetadataRequest(topics=None), 12)
        client.ask(MetadataRequest(topics=None), 12)
        for acks in (-1, 1):
            assert produce(client, topic, batch(b"a"), acks=acks).error_code == 0
        refused = produce(client, topic, batch(b"a"), index=77)
        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    after = scrape(port)
    found = after.find(f"{REQUESTS}requests_total", request="Metadata", version="12")
    assert sum(found.values()) - sum(before.values()) == 2
    error = {"request": "Produce", "error": "UNKNOWN_TOPIC_OR_PARTITION"}
    assert after.value(f"{REQUESTS}errors_total", **error) == 1
    assert after.value(f"{REQUESTS}errors_total", request="Produce", error="NONE") >= 2
    parts = ("requestqueuetimems", "localtimems", "remotetimems", "responsequeuetimems")
    counts = {after.value(f"{REQUESTS}{part}_count", request="Produce") for part in parts}
    total = after.value(f"{REQUESTS}totaltimems_sum", request="Produce")
    sums = [after.value(f"{REQUESTS}{part}_sum", request="Produce") for part in parts]
    assert counts == {after.value(f"{REQUESTS}totaltimems_count", request="Produce")}
    assert min(sums) >= 0 < total == pytest.approx(sum(sums))
    assert after.value(f"{REQUESTS}remotetimems_sum", request="Produce") > 0  # the fsync
    assert after.value(f"{REQUESTS}totaltimems", request="Produce", quantile="0.99") > 0


def test_transactions(watched, port):
    with watched.connect() as client:
        coordinated(client)
        topic = make_topic(client)
        producer = initialized(client, "counted-id")
        assert set(add(client, "counted-id", producer, topic.name, 0).values()) == {0}
    watched.call(watched.node.broker.verifications.told, 12, 3)
    found = scrape(port)
    assert found.value("fencepost_transactional_ids") == 1
    memory = watched.node.broker.coordinators.transactions.memory
    assert found.value("fencepost_transaction_memory_bytes") == memory.used_bytes > 0
    coordinators = watched.call(
        lambda: list(watched.node.broker.coordinators.transactions.coordinators())
    )
    active = found.value("fencepost_transaction_partitions", state="active")
    assert active == len(coordinators) > 0
    assert found.value("fencepost_transaction_partitions", state="loading") == 0
    markers = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
    assert found.value(f"{markers}unknowndestinationqueuesize") == 0
    assert found.value(f"{markers}logappendretryqueuesize") == 0
    assert found.value("fencepost_transactions_with_refused_markers") == 0
    loads = "kafka_server_transaction_coordinator_metrics_partition_load_time_"
    longest, average = found.value(f"{loads}max"), found.value(f"{loads}avg")
    times = [one.load_ms for one in coordinators]
    assert (longest, average) == (max(times), pytest.approx(sum(times) / len(times)))
    verified = "kafka_server_addpartitionstotxnmanager_verification"
    assert found.value(f"{verified}failurerate_count_total") == 3
    assert found.value(f"{verified}timems_count") == 1
    assert found.value(f"{verified}timems", quantile="0.99") == pytest.approx(12, rel=0.13)


def test_what_a_partition_is_like(watched, port):
    with watched.connect() as client:
        topic = make_topic(client, name="single")
        produce(client, topic, batch(b"a", b"b"))
    found = scrape(port)
    labels = {"topic": "single", "partition": "0"}
    hosted = watched.call(watched.node.broker.replicas.get, "single", 0)
    assert found.value("kafka_log_log_logendoffset", **labels) == 2
    assert found.value("kafka_log_log_logstartoffset", **labels) == 0
    assert found.value("kafka_log_log_size", **labels) == hosted.log.size_bytes > 0
    assert found.value("kafka_log_log_numlogsegments", **labels) == 1
    assert found.value("fencepost_partition_high_watermark", **labels) == 2
    assert found.value("fencepost_partition_leader_epoch", **labels) == hosted.machine.leader_epoch
    assert found.value("fencepost_partition_leader", **labels) == 1
    assert found.value("kafka_cluster_partition_insyncreplicascount", **labels) == 1
    assert found.value("kafka_cluster_partition_underreplicated", **labels) == 0
    assert found.value("kafka_cluster_partition_atminisr", **labels) == 1


def test_the_node_as_a_whole(watched, port):
    found = scrape(port)
    hosted = list(watched.call(lambda: list(watched.node.broker.replicas.all())))
    machine = watched.node.metadata.machine
    for name, expected in {
        "kafka_server_replicamanager_partitioncount": len(hosted),
        "kafka_server_replicamanager_leadercount": len(hosted),
        "kafka_server_replicamanager_underreplicatedpartitions": 0,
        "kafka_server_replicamanager_offlinereplicacount": 0,
        "kafka_controller_kafkacontroller_activecontrollercount": 1,
        "kafka_controller_kafkacontroller_globalpartitioncount": len(hosted),
        "kafka_controller_kafkacontroller_offlinepartitionscount": 0,
        "kafka_controller_kafkacontroller_activebrokercount": 1,
        "kafka_controller_kafkacontroller_fencedbrokercount": 0,
        "kafka_server_raftmetrics_current_leader": 1,
        "kafka_server_raftmetrics_current_epoch": machine.epoch,
        "kafka_server_raftmetrics_high_watermark": machine.high_watermark,
        "kafka_server_raftmetrics_log_end_offset": machine.end_offset,
        "kafka_server_kafkaserver_brokerstate": 3,
        "fencepost_ready": 1,
    }.items():
        assert found.value(name) == expected, name
    state = found.value("kafka_server_raftmetrics_current_state", current_state="leader")
    assert state == 1
    assert found.value("fencepost_raft_commit_latency_ms_count") > 0
    assert found.value("kafka_log_logflushstats_logflushrateandtimems_count") > 0
    assert found.value("process_open_fds") > 0


def test_what_the_authorizer_has_answered(watched, port):
    name, allowed = "fencepost_authorizer_decisions_total", {"answer": "allowed"}
    before = scrape(port).value(name, **allowed)
    with watched.connect() as client:
        make_topic(client)
    found = scrape(port)
    assert found.value(name, **allowed) > before
    assert found.value(name, answer="denied") == 0
    assert found.value("fencepost_authorizer_acls") == 0


def test_everything_in_the_catalogue_is_told(watched, port):
    with watched.connect() as client:
        topic = make_topic(client)
        produce(client, topic, batch(b"a"))
    said = {sample.name for _, sample in scrape(port).samples()}
    for name, definition in CATALOGUE.items():
        if name not in OF_SEVERAL_NODES and not name.startswith((OF_LOGINS, "fencepost_quota_")):
            told = f"{name}_count" if definition.kind is Kind.SUMMARY else name
            assert told in said, name
    others = {name for name in said if not name.startswith(("kafka_", "fencepost_"))}
    assert all(name.startswith(("process_", "python_")) for name in others)
    assert others >= OF_THE_PROCESS


def test_scrapes_at_once_share_their_work(watched, port):
    name = "fencepost_metrics_scrapes_total"
    before = scrape(port).value(name)
    request = b"GET /metrics HTTP/1.1\r\n\r\n"
    with stalled_loop(watched):
        sockets = [send(port, request) for _ in range(10)]
    values = {Scrape(Response(receive(sock)).text).value(name) for sock in sockets}
    for sock in sockets:
        sock.close()
    assert len(values) < 10
    assert scrape(port).value(name) == before + len(values) + 1


def test_a_collector_that_fails_is_an_error_and_no_silence(watched, port, caplog):
    def collect(sheet):
        yield None
        raise RuntimeError("a mistake")

    collectors = watched.node.observation._endpoint.collectors
    collectors.append(collect)
    try:
        response = get(port, "/metrics")
    finally:
        collectors.remove(collect)
    assert (response.status, response.text) == (500, "collecting metrics failed\n")
    assert "a mistake" in caplog.text
    assert scrape(port).value("fencepost_ready") == 1


def test_a_client_of_kafka_is_served_while_strangers_are_at_the_door(watched, port):
    """As many connections as there may be, slow or hostile, and scrapes besides."""
    slow = [send(port, b"GET /metr") for _ in range(3 * CONNECTIONS_MAX)]
    junk = [send(port, b"\x16\x03\x01" + b"\xff" * 9_000) for _ in range(10)]
    unread = [send(port, b"GET /metrics HTTP/1.1\r\n\r\n") for _ in range(CONNECTIONS_MAX // 2)]
    with watched.connect() as client:
        topic = make_topic(client)
        for number in range(50):
            assert produce(client, topic, batch(b"a")).base_offset == number
        assert scrape(port).value(f"{TOPICS}messagesin_total", topic=topic.name) == 50
        (part,) = fetch(client, topic, 0)
        assert len(part.records) > 0
    for sock in (*slow, *junk, *unread):
        sock.close()


def test_connections_are_counted(watched, port):
    labels = {"listener": "PLAINTEXT", "networkProcessor": "0"}
    prefix = "kafka_server_socket_server_metrics_connection_"
    before = scrape(port)
    with watched.connect() as client:
        client.ask(MetadataRequest(topics=[]), 12)
        found = scrape(port)
        grown = found.value(f"{prefix}count", **labels) - before.value(f"{prefix}count", **labels)
        assert grown == 1
    created = found.value(f"{prefix}creation_total", **labels)
    assert created - before.value(f"{prefix}creation_total", **labels) == 1
    budgets = found.find("fencepost_memory_budget_limit_bytes", role="broker")
    assert len(budgets) == 4 and min(budgets.values()) > 0


def test_series_of_partitions_and_topics_are_bounded(node_factory):
    running = node_factory(
        fencepost_metrics_listener=0,
        fencepost_metrics_partitions_max=2,
        fencepost_metrics_topics_max=1,
    )
    port = running.node.observation.bound.port
    without_topics = scrape(port)
    for omitted in ("partitions", "topics"):
        assert without_topics.value(f"fencepost_metrics_{omitted}_omitted") == 0
    with running.connect() as client:
        make_topic(client, name="first", partitions=3)
        make_topic(client, name="second")
    found = scrape(port)
    assert set(found.find("kafka_log_log_size")) == {
        (("partition", str(index)), ("topic", "first")) for index in (0, 1)
    }
    assert found.value("fencepost_metrics_partitions_omitted") == 2
    assert set(found.find(f"{TOPICS}messagesin_total")) == {(), (("topic", "first"),)}
    assert found.value("fencepost_metrics_topics_omitted") == 1
    assert found.value("kafka_server_replicamanager_partitioncount") == 4
    assert get(port, "/").status == 200


def test_without_a_listener_nothing_is_measured_and_prometheus_is_not_loaded(node):
    assert node.node.observation is None
    assert node.node.broker.listener.request_metrics is None


@pytest.mark.parametrize("is_late", [True, False])
def test_a_transaction_that_should_have_timed_out_long_ago_is_late(watched, port, is_late):
    """`transaction.max.timeout.ms` and five minutes ago; who else is late is nobody's business."""
    name = "kafka_server_replicamanager_partitionswithlatetransactionscount"
    before = scrape(port).value(name)
    ago_ms = 900_000 + 300_000 + (60_000 if is_late else -60_000)
    records = batch(
        b"v",
        timestamp_ms=int(time.time() * 1000) - ago_ms,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    with watched.connect() as client:
        answer = produce(client, make_topic(client), records, transactional_id="tx")
        assert answer.error_code == 0
    assert scrape(port).value(name) - before == is_late
