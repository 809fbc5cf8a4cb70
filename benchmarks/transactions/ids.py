"""Many transactional ids: made, held in memory, and loaded by the next coordinator.

Many connections ask at once, each for one id after the other: Apache Kafka's broker takes up a
connection's next request when it has answered the last one.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fencepost.client.cluster import TRANSACTION_KEY, Cluster as Client
from fencepost.client.errors import ClientError
from fencepost.client.metadata import Node
from fencepost.wire.api.describe_transactions import DescribeTransactionsRequest
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.api.init_producer_id import InitProducerIdRequest

CLIENTS = 64
WARM_UP = 2_000
"""Ids that are made before anything is measured: a JVM compiles meanwhile."""
KEYS_AT_ONCE = 500
TIMEOUT_MS = 60_000


def names(count: int) -> list[str]:
    """The transactional ids."""
    return [f"bench-id-{number}" for number in range(count)]


def coordinators(client: Client, ids: list[str]) -> dict[Node, list[str]]:
    """The coordinators of these ids, with the ids of each. ClientError while one has none."""
    found: dict[Node, list[str]] = {}
    for start in range(0, len(ids), KEYS_AT_ONCE):
        keys = ids[start : start + KEYS_AT_ONCE]
        request = FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=keys)
        for one in client.any_connection().request(request).coordinators:
            if one.error_code:
                raise ClientError("a coordinator is missing", code=one.error_code)
            found.setdefault(Node(one.node_id, one.host, one.port), []).append(one.key)
    return found


def make(servers: str, ids: list[str]) -> float:
    """InitProducerId for every id, over `CLIENTS` connections at once; how many a second."""
    began = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as pool:
        shares = [ids[start::CLIENTS] for start in range(CLIENTS)]
        list(pool.map(lambda share: _make_share(servers, share), shares))
    return len(ids) / (time.monotonic() - began)


def _make_share(servers: str, ids: list[str]) -> None:
    left = ids
    with Client(servers) as client:
        while left:
            again: list[str] = []
            try:
                for node, keys in coordinators(client, left).items():
                    again += _init(client.connection(node), keys)
            except ClientError:  # an id has no coordinator yet; done ones just get another epoch
                again = left
            left = again
            if left:
                time.sleep(0.1)


def _init(connection: Any, keys: list[str]) -> list[str]:
    """Those that were refused for now."""
    again = []
    for key in keys:
        request = InitProducerIdRequest(transactional_id=key, transaction_timeout_ms=TIMEOUT_MS)
        if connection.receive(connection.send(request, highest=5)).error_code:
            again.append(key)
    return again


def wait_until_loaded(client: Client, ids: list[str]) -> float:
    """Milliseconds until coordinators describe every one of them."""
    began = time.monotonic()
    left = list(ids)
    while left:
        try:
            for node, keys in coordinators(client, left).items():
                request = DescribeTransactionsRequest(transactional_ids=keys)
                described = client.connection(node).request(request).transaction_states
                known = {one.transactional_id for one in described if one.error_code == 0}
                left = [key for key in left if key not in known]
        except ClientError as error:
            client.note_failure(error)
        if left:
            time.sleep(0.01)
    return (time.monotonic() - began) * 1000
