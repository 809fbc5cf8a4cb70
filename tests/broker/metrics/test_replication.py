"""Two brokers, one follows the other: lag, traffic and in-sync sets, as both sides tell them."""

import pytest

from fencepost.broker.node.observation import NO_LEADER
from fencepost.wire.api import CreateTopicsRequest, DeleteTopicsRequest, ProduceRequest
from fencepost.wire.api.create_topics import CreatableReplicaAssignment, CreatableTopic
from fencepost.wire.api.produce import PartitionProduceData, TopicProduceData

from ...waiting import eventually
from ..node.quorum_node_fixtures import CONFIG, Nodes
from ..topic_requests import batch
from .scraping import get, scrape

LEADER, FOLLOWER = 2, 3
T0 = {"topic": "t", "partition": "0"}
REPLICAS = "kafka_server_replicamanager_"
TOPICS = "kafka_server_brokertopicmetrics_"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """Controller 1, and brokers 2 and 3 with a topic that 2 leads; min.insync.replicas is 2."""
    config = {**CONFIG, "fencepost.metrics.listener": 0, "min.insync.replicas": 2}
    running = Nodes(tmp_path_factory.mktemp("nodes"), 1, 2, config=config)
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[LEADER, FOLLOWER])
    topic = CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1, assignments=[assignment]
    )
    with running.client(LEADER) as client:
        (created,) = client.request(CreateTopicsRequest(topics=[topic])).topics
    assert created.error_code == 0, created.error_message
    yield running
    running.close()


def port_of(nodes, id_):
    return nodes.nodes[id_].observation.bound.port


def produce(nodes, *records, acks=-1):
    """Append batches; the error of the last."""
    data = [
        TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=one)])
        for one in records
    ]
    with nodes.client(LEADER) as client:
        for one in data:
            request = ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[one])
            (answer,) = client.request(request, 9).responses[0].partition_responses
    return answer.error_code


def value(nodes, id_, name, **labels):
    return scrape(port_of(nodes, id_)).value(name, **labels)


def test_lag_traffic_and_in_sync_sets(nodes):
    """One story, as its parts build on each other."""
    sent = [batch(b"a", b"b"), batch(b"c")]
    eventually(lambda: produce(nodes, sent[0]) == 0, "both are in sync")
    assert produce(nodes, sent[1]) == 0
    leader, follower = (scrape(port_of(nodes, id_)) for id_ in (LEADER, FOLLOWER))
    assert leader.value(f"{REPLICAS}leadercount") == 1
    assert follower.value(f"{REPLICAS}leadercount") == 0
    assert follower.value(f"{REPLICAS}partitioncount") == 1
    assert leader.value(f"{REPLICAS}underreplicatedpartitions") == 0
    assert leader.value(f"{REPLICAS}atminisrpartitioncount") == 1
    assert leader.value("kafka_cluster_partition_replicascount", **T0) == 2
    size_bytes = sum(map(len, sent))
    assert leader.value(f"{TOPICS}replicationbytesout_total") >= size_bytes
    assert leader.value(f"{TOPICS}bytesout_total") == 0
    assert follower.value(f"{TOPICS}replicationbytesin_total") >= size_bytes
    assert follower.value(f"{TOPICS}bytesin_total") == 0
    assert follower.value("kafka_log_log_logendoffset", **T0) == leader.value(
        "kafka_log_log_logendoffset", **T0
    )
    client_id = f"ReplicaFetcherThread-0-{LEADER}"
    name = "kafka_server_fetcherlagmetrics_consumerlag"
    eventually(lambda: value(nodes, FOLLOWER, name, clientId=client_id, **T0) == 0)
    assert not leader.find(name)

    # The follower's fetchers stop: what it lacks is its lag, until it is out of the set.
    followers = nodes.nodes[FOLLOWER].broker.late.fetchers.of_partitions
    lag = {"replica": str(FOLLOWER), **T0}
    eventually(lambda: value(nodes, LEADER, "fencepost_replica_lag", **reordered(lag)) == 0)
    nodes.call(followers.close)
    assert produce(nodes, batch(b"d", b"e", b"f"), acks=1) == 0
    assert value(nodes, LEADER, "fencepost_replica_lag", **reordered(lag)) == 3
    assert value(nodes, LEADER, f"{REPLICAS}isrshrinks_total") == 0
    nodes.stop(FOLLOWER)
    eventually(lambda: value(nodes, LEADER, f"{REPLICAS}underminisrpartitioncount") == 1)
    leader = scrape(port_of(nodes, LEADER))
    assert leader.value(f"{REPLICAS}underreplicatedpartitions") == 1
    assert leader.value("kafka_cluster_partition_underreplicated", **T0) == 1
    assert leader.value("kafka_cluster_partition_underminisr", **T0) == 1
    assert leader.value(f"{REPLICAS}isrshrinks_total") == 1
    controller = scrape(port_of(nodes, 1))
    assert controller.value("kafka_controller_kafkacontroller_fencedbrokercount") == 1
    assert controller.value("kafka_controller_kafkacontroller_activebrokercount") == 1

    # It comes back, catches up, and is in sync again.
    nodes.call(nodes.start, FOLLOWER)
    eventually(lambda: value(nodes, LEADER, f"{REPLICAS}isrexpands_total") == 1)
    assert value(nodes, LEADER, f"{REPLICAS}underreplicatedpartitions") == 0
    assert value(nodes, LEADER, "fencepost_replica_lag", **reordered(lag)) == 0


def reordered(labels):
    return dict(sorted(labels.items()))


def test_each_role_tells_its_own(nodes):
    controller, broker = scrape(port_of(nodes, 1)), scrape(port_of(nodes, LEADER))
    active = "kafka_controller_kafkacontroller_activecontrollercount"
    assert controller.value(active) == 1 and not broker.find(active)
    assert broker.find(f"{REPLICAS}leadercount") and not controller.find(f"{REPLICAS}leadercount")
    raft = "kafka_server_raftmetrics_"
    assert controller.value(f"{raft}current_state", current_state="leader") == 1
    assert broker.value(f"{raft}current_state", current_state="observer") == 1
    for id_ in (1, LEADER):
        assert value(nodes, id_, f"{raft}current_leader") == 1
    assert controller.value(f"{raft}number_of_observers") == 2
    assert broker.value(f"{raft}number_of_observers") == 0
    for id_ in (1, LEADER, FOLLOWER):
        assert get(port_of(nodes, id_), "/ready").status == 200


def test_a_broker_without_a_controller_serves_and_says_that_nobody_leads(nodes):
    port = port_of(nodes, LEADER)
    nodes.stop(1)
    eventually(lambda: NO_LEADER in get(port, "/ready").text)
    assert get(port, "/ready").text == f"ready\nwarning: {NO_LEADER}\n"
    assert produce(nodes, batch(b"g"), acks=1) == 0
    nodes.call(nodes.start, 1)
    eventually(lambda: get(port, "/ready").text == "ready\n")


def test_changes_of_partitions_that_are_gone_still_count(nodes):
    eventually(lambda: value(nodes, LEADER, f"{REPLICAS}underreplicatedpartitions") == 0)
    shrinks = value(nodes, LEADER, f"{REPLICAS}isrshrinks_total") + 1
    nodes.stop(FOLLOWER)
    eventually(lambda: value(nodes, LEADER, f"{REPLICAS}isrshrinks_total") == shrinks)
    nodes.call(nodes.start, FOLLOWER)
    with nodes.client(LEADER) as client:
        request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=60_000)
        assert client.request(request, 5).responses[0].error_code == 0
    eventually(lambda: value(nodes, LEADER, f"{REPLICAS}partitioncount") == 0)
    assert value(nodes, LEADER, f"{REPLICAS}isrshrinks_total") == shrinks
