"""Three controllers: what each tells of the quorum."""

import pytest

from fencepost.machines.quorum import Role

from ...waiting import eventually
from ..node.quorum_node_fixtures import CONFIG, Nodes
from .scraping import get, scrape

RAFT = "kafka_server_raftmetrics_"
LAG = "fencepost_raft_replica_lag"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """Controllers 1 to 3."""
    config = {**CONFIG, "fencepost.metrics.listener": 0}
    running = Nodes(tmp_path_factory.mktemp("nodes"), 3, 0, config=config)
    yield running
    running.close()


def scrapes(nodes):
    return {id_: scrape(node.observation.bound.port) for id_, node in nodes.nodes.items()}


@pytest.mark.slow
def test_one_leads_and_knows_how_far_the_others_are(nodes):
    leader = nodes.active.config.node_id
    others = sorted({1, 2, 3} - {leader})
    eventually(
        lambda: set(scrapes(nodes)[leader].find(LAG).values()) == {0.0}, "the others have caught up"
    )
    found = scrapes(nodes)
    assert set(found[leader].find(LAG)) == {(("replica", str(id_)),) for id_ in others}
    for id_, one in found.items():
        state = "leader" if id_ == leader else "follower"
        assert one.find(f"{RAFT}current_state") == {(("current_state", state),): 1.0}
        assert one.value(f"{RAFT}current_leader") == leader
        assert one.value(f"{RAFT}number_of_voters") == 3
        active = one.value("kafka_controller_kafkacontroller_activecontrollercount")
        assert active == (id_ == leader)
        assert get(nodes.nodes[id_].observation.bound.port, "/ready").text == "ready\n"
        if id_ != leader:
            assert not one.find(LAG)
            assert one.value("fencepost_raft_commit_latency_ms_count") == 0
    assert found[leader].value("fencepost_raft_commit_latency_ms_count") > 0


@pytest.mark.long
def test_a_controller_that_hears_from_no_leader_is_not_ready(nodes):
    first, second, last = 1, 2, 3
    nodes.stop(first)
    nodes.stop(second)
    node = nodes.nodes[last]
    eventually(lambda: node.metadata.machine.role not in (Role.LEADER, Role.FOLLOWER))
    port = node.observation.bound.port
    said = eventually(lambda: (r := get(port, "/ready")).status == 503 and r)
    assert said.text == "not ready\nno leader of the quorum is heard from\n"
    assert get(port, "/health").status == 200
