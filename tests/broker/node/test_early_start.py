"""`early.start.listeners`: listeners that accept connections before the ACLs are loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.broker.config.broker_config import BrokerConfig, ConfigError
from fencepost.broker.node.broker_part import BrokerPart
from fencepost.broker.node.node import Node
from fencepost.wire.api import ApiVersionsRequest

from ...waiting import eventually
from .quorum_node_fixtures import CONFIG, Nodes

pytestmark = pytest.mark.slow

WITH_ACLS = {
    **CONFIG,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[Nodes]:
    """None is started yet; the second one's listener has to wait for the ACLs."""
    nodes = Nodes(
        tmp_path,
        controllers=3,
        brokers=0,
        config=WITH_ACLS,
        overrides={2: {"early.start.listeners": ""}},
        started=(),
    )
    yield nodes
    nodes.close()


def is_open(node: Node) -> bool:
    """Whether the controller's listener takes requests; the port is bound before."""
    assert node.controller is not None
    return node.controller.listener.is_open


def test_a_controllers_listener_that_is_not_early_waits_for_the_acls(
    controllers: Nodes, caplog: pytest.LogCaptureFixture
):
    nodes = controllers
    nodes.call(nodes.start, 2)
    authorizer = nodes.nodes[2].authorizer
    assert authorizer is not None
    assert not authorizer.machine.is_ready, "nothing is committed without the other controllers"
    assert not is_open(nodes.nodes[2])
    assert "listener(s) CONTROLLER are not in early.start.listeners" in caplog.text
    for id_ in (1, 3):
        nodes.call(nodes.start, id_)
    assert is_open(nodes.nodes[1]), "early unless configured otherwise"
    eventually(lambda: is_open(nodes.nodes[2]), "the ACLs are loaded and the listener is open")
    assert authorizer.machine.is_ready
    asked = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    with nodes.client(2) as client:
        assert client.request(asked).error_code == 0


def test_a_brokers_listener_waits_for_the_acls_even_if_it_is_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    were_loaded: list[bool] = []
    accept = BrokerPart.start

    async def start(part: BrokerPart) -> None:
        authorizer = nodes[0].authorizer
        assert authorizer is not None
        were_loaded.append(authorizer.machine.is_ready and not part.listener.is_open)
        await accept(part)

    nodes: list[Node] = []
    make = Node.__init__

    def note(node: Node, config: BrokerConfig, *rest: object) -> None:
        make(node, config, *rest)
        if config.is_broker:
            nodes.append(node)

    monkeypatch.setattr(Node, "__init__", note)
    monkeypatch.setattr(BrokerPart, "start", start)
    early = {4: {"early.start.listeners": "CONTROLLER,PLAINTEXT"}}
    cluster = Nodes(tmp_path, controllers=3, brokers=1, config=WITH_ACLS, overrides=early)
    cluster.close()
    assert were_loaded == [True]


def test_without_an_authorizer_no_listener_waits(tmp_path: Path):
    nodes = Nodes(
        tmp_path,
        controllers=2,
        brokers=0,
        overrides={2: {"early.start.listeners": ""}},
        started=(2,),
    )
    try:
        assert is_open(nodes.nodes[2])
    finally:
        nodes.close()


def test_a_listener_that_does_not_exist_cannot_be_early():
    with pytest.raises(ConfigError, match=r"early\.start\.listeners.*OTHER"):
        BrokerConfig.load(None, {"early.start.listeners": "OTHER"})
