"""Producers that write transactions one after the other, each in a thread, and time every commit.

The same loop without transactions (`transactional=False`: the flush takes the place of the commit)
says what a transaction costs. `confluent` speaks TV1, `ours` TV2 where the cluster runs it.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka import Producer as ConfluentProducer

from fencepost.client.cluster import Cluster as Client
from fencepost.client.producer import Producer as OurProducer

VALUE = os.urandom(100)
GIVE_UP_S = 120.0
CLIENTS = ("confluent", "ours")


class Load(NamedTuple):
    """What producers got done together."""

    transactions_per_s: float
    commits_ms: list[float]
    """How long each commit, or flush, took."""
    cpu_ms: float
    """CPU that the brokers used for each transaction."""
    others_cores: float
    """Cores that processes which are none of the benchmark's kept busy meanwhile."""
    waiting: float
    """How many of the brokers' threads were ready to run and had no core, on average."""


class Used(NamedTuple):
    """CPU seconds since some time in the past."""

    brokers_s: float
    """By the brokers that are measured, all together."""
    others_s: float
    """By whatever else runs on this machine and is no part of the benchmark."""
    waited_s: float
    """Not used: the brokers' threads were ready to run meanwhile, and had no core."""


class Confluent:
    """A producer of librdkafka's."""

    def __init__(self, servers: str, transactional: bool) -> None:
        config: dict[str, Any] = {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 1_000,  # flush and commit do not wait for it
            "log_level": 0,
            "queue.buffering.max.messages": 200_000,
        }
        if transactional:
            config["transactional.id"] = f"bench-{uuid.uuid4().hex}"
        self._producer = ConfluentProducer(config)
        self._transactional = transactional
        if transactional:
            self._producer.init_transactions(GIVE_UP_S)

    def write(self, topic: str, count: int) -> float:
        """One transaction; the milliseconds that its end took."""
        if self._transactional:
            self._producer.begin_transaction()
        for _ in range(count):
            self._producer.produce(topic, VALUE)
        began = time.perf_counter()
        if self._transactional:
            self._producer.commit_transaction(GIVE_UP_S)
        elif self._producer.flush(GIVE_UP_S):
            raise RuntimeError("records were not delivered")
        return (time.perf_counter() - began) * 1000

    def close(self) -> None:
        """Nothing is left to do."""


class Ours:
    """A blocking producer of `fencepost.client`."""

    def __init__(self, servers: str, transactional: bool) -> None:
        name = f"bench-{uuid.uuid4().hex}" if transactional else None
        self._cluster = Client(servers, transactional_id=name, linger_ms=1_000)
        self._producer = OurProducer(self._cluster)
        self._transactional = transactional
        if transactional:
            self._producer.init_transactions()

    def write(self, topic: str, count: int) -> float:
        """One transaction; the milliseconds that its end took."""
        if self._transactional:
            self._producer.begin_transaction()
        for _ in range(count):
            self._producer.send(topic, VALUE)
        began = time.perf_counter()
        if self._transactional:
            self._producer.commit_transaction()
        else:
            self._producer.flush()
        return (time.perf_counter() - began) * 1000

    def close(self) -> None:
        """Disconnect."""
        self._cluster.close()


def run(
    servers: str,
    topic: str,
    *,
    client: str,
    producers: int,
    records: int,
    seconds: float,
    transactional: bool,
    cpu: Callable[[], Used],
) -> Load:
    """So many producers for so long, each with one transaction before that is not counted.

    `cpu` is asked at the edges of the time in which they run: when all have written one, and when
    the last of them is done.
    """
    kind = Confluent if client == "confluent" else Ours
    commits_ms: list[float] = []
    errors: list[Exception] = []
    ready = threading.Barrier(producers + 1)
    ends_at: list[float] = []

    def work() -> None:
        try:
            producer = kind(servers, transactional)
            producer.write(topic, 1)
            ready.wait(GIVE_UP_S)
            ready.wait(GIVE_UP_S)  # the end of the time is known
            while time.monotonic() < ends_at[0]:
                commits_ms.append(producer.write(topic, records))
            producer.close()
        except Exception as error:  # noqa: BLE001
            errors.append(error)
            ready.abort()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(producers)]
    for thread in threads:
        thread.start()
    try:
        ready.wait(GIVE_UP_S)
        before, began = cpu(), time.monotonic()
        ends_at.append(began + seconds)
        ready.wait(GIVE_UP_S)
    except threading.BrokenBarrierError:
        raise RuntimeError("a producer failed") from (errors[0] if errors else None)
    for thread in threads:
        thread.join(GIVE_UP_S + seconds)
    if errors:
        raise RuntimeError("a producer failed") from errors[0]
    took_s, after = time.monotonic() - began, cpu()
    return Load(
        len(commits_ms) / took_s,
        commits_ms,
        (after.brokers_s - before.brokers_s) * 1000 / len(commits_ms),
        max(0.0, (after.others_s - before.others_s) / took_s),
        max(0.0, (after.waited_s - before.waited_s) / took_s),
    )
