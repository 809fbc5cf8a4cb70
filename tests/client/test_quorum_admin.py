"""The quorum as blocking clients and asyncio ones see it, by way of brokers and of controllers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from fencepost.client.aio.cluster import AsyncCluster
from fencepost.client.aio.quorum import AsyncQuorumAdmin
from fencepost.client.config import ClientConfig
from fencepost.client.errors import BrokerError, DeadlineExceeded
from fencepost.client.quorum import QuorumAdmin, QuorumDescription
from fencepost.testing import Cluster
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

MISSING = Uuid(bytes(15) + b"\x07")


def asked(config: ClientConfig, *, controllers: bool) -> QuorumDescription:
    with QuorumAdmin(config, controllers=controllers) as admin:
        return admin.describe()


async def asked_async(config: ClientConfig, *, controllers: bool) -> QuorumDescription:
    async with AsyncCluster(config=config) as cluster:
        return await AsyncQuorumAdmin(cluster, controllers=controllers).describe()


async def removed_async(config: ClientConfig) -> None:
    async with AsyncCluster(config=config) as cluster:
        await AsyncQuorumAdmin(cluster, controllers=True).remove_voter(9, MISSING)


def test_both_faces_see_the_same_quorum_and_find_its_leader_among_controllers() -> None:
    with Cluster(brokers=2, faults=False) as cluster:
        brokers = ClientConfig(bootstrap_servers=cluster.bootstrap_servers)
        seen = asked(brokers, controllers=False)
        assert {one.node_id for one in seen.observers} == {1, 2}
        (listener,) = seen.listeners[seen.leader_id]
        gone = "127.0.0.1:1"
        address = f"{gone},{listener.host}:{listener.port}"
        controllers = replace(brokers, bootstrap_servers=address)
        others = [
            asked(controllers, controllers=True),
            asyncio.run(asked_async(brokers, controllers=False)),
            asyncio.run(asked_async(controllers, controllers=True)),
        ]
        for one in others:
            assert (one.leader_id, one.leader_epoch) == (seen.leader_id, seen.leader_epoch)
            assert one.listeners == seen.listeners
        admin = QuorumAdmin(controllers, controllers=True)
        with admin, pytest.raises(BrokerError) as refused:
            admin.remove_voter(9, MISSING)
        with pytest.raises(BrokerError) as refused_async:
            asyncio.run(removed_async(controllers))
        assert refused.value.code == refused_async.value.code == ErrorCode.VOTER_NOT_FOUND


def test_controllers_that_do_not_answer_are_named_by_what_went_wrong() -> None:
    config = ClientConfig(bootstrap_servers="127.0.0.1:1", api_timeout_ms=200)
    admin = QuorumAdmin(config, controllers=True)
    with admin, pytest.raises(DeadlineExceeded, match=r"127\.0\.0\.1:1"):
        admin.describe()
