"""A lone broker and a cluster of three, made for a module and whole again after every test."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from fencepost.testing import Cluster

from ..broker.listener_fixtures import Client


@pytest.fixture(scope="module")
def lone_broker() -> Iterator[Cluster]:
    """One broker for a module."""
    with Cluster(offsets_topic_num_partitions=1) as cluster:
        yield cluster


@pytest.fixture
def lone(lone_broker: Cluster) -> Iterator[Cluster]:
    """The module's broker, without faults."""
    yield lone_broker
    lone_broker.reset()


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[Cluster]:
    """Three brokers for a module."""
    with Cluster(brokers=3, offsets_topic_num_partitions=1) as cluster:
        yield cluster


@pytest.fixture
def three(three_brokers: Cluster) -> Iterator[Cluster]:
    """The module's brokers, without faults."""
    yield three_brokers
    three_brokers.reset()


def is_silent(client: Client) -> bool:
    """Whether no answer has come, so far."""
    client.sock.setblocking(False)
    try:
        client.sock.recv(1, socket.MSG_PEEK)
        return False
    except BlockingIOError:
        return True
    finally:
        client.sock.setblocking(True)
