"""What attacks share: a broker under watch, and a well-behaved client that must notice nothing.

`Watch` samples the memory of the broker's process and reads its log; `Bystander` is librdkafka, in
threads of its own, that writes numbered records and reads them back. An attack is fine if the
bystander goes on and has lost nothing, memory stayed within bounds, and the log has no traceback.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterator
from typing import Any

import psutil
from confluent_kafka import Consumer, KafkaError, Producer

from fencepost.testing import Cluster
from fencepost.wire.api import ApiVersionsRequest

from ..waiting import DEADLINE_S, eventually
from .listener_fixtures import connect

POLL_S = 0.02
MIB = 1024 * 1024
ASK = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def assert_serves(cluster: Cluster) -> None:
    """The broker accepts a new client and answers it."""
    assert cluster.running, cluster.log_text[-4000:]
    with connect(cluster) as client:
        assert client.ask(ASK, 3).error_code == 0


class Watch:
    """Memory of the broker over the time of an attack, and its log since then."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._process = psutil.Process(cluster.pid)
        self._log_start = len(cluster.log_text)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.before_mib = self.rss_mib()
        self.peak_mib = self.before_mib

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def growth_mib(self) -> float:
        """By how much memory had grown at its peak."""
        return self.peak_mib - self.before_mib

    @property
    def log_text(self) -> str:
        """What the broker has logged since the start of the attack."""
        return self._cluster.log_text[self._log_start :]

    def assert_quiet(self, growth_mib: float = 100) -> None:
        """No traceback in the log, no critical line, and memory within `growth_mib`."""
        text = self.log_text
        assert "Traceback" not in text, text[-6000:]
        assert "CRITICAL" not in text, text[-6000:]
        assert self.growth_mib < growth_mib, f"memory grew by {self.growth_mib:.0f} MiB"

    def rss_mib(self) -> float:
        """What the broker takes of memory at the moment."""
        return float(self._process.memory_info().rss) / MIB

    def _sample(self) -> None:
        while not self._stop.wait(POLL_S):
            with contextlib.suppress(psutil.Error):
                self.peak_mib = max(self.peak_mib, self.rss_mib())


class Bystander:
    """A well-behaved client at work; see the module docstring."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._topic = topic
        self._run = secrets.token_hex(4).encode()
        self.errors: list[str] = []
        self.sent = 0
        self.acked: set[int] = set()
        self.received: list[int] = []
        self._stop = threading.Event()
        # No log: librdkafka would go on about a broker that is gone, in other tests' output.
        common = {
            "bootstrap.servers": bootstrap_servers,
            "error_cb": self._on_error,
            "log_level": 0,
        }
        self._producer = Producer({**common, "linger.ms": 0, "enable.idempotence": True})
        self._consumer = Consumer(
            {
                **common,
                "group.id": "bystander",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
            }
        )
        self._threads = [
            threading.Thread(target=self._produce, daemon=True),
            threading.Thread(target=self._consume, daemon=True),
        ]

    def __enter__(self) -> Bystander:
        for thread in self._threads:
            thread.start()
        eventually(lambda: len(self.received) >= 3, "the bystander gets to work")
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(DEADLINE_S)
        self._consumer.close()

    def assert_undisturbed(self) -> None:
        """Everything sent arrived, once, in order, without an error, and so does what follows."""
        wanted = self.sent + 1
        eventually(lambda: len(self.acked) >= wanted, "all of the bystander's records are acked")
        eventually(lambda: len(self.received) >= wanted, "and read back")
        assert self.received == list(range(len(self.received)))
        assert self.errors == []

    def _on_error(self, error: KafkaError) -> None:
        self.errors.append(str(error))

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.acked.add(int(message.value().split()[1]))

    def _produce(self) -> None:
        while not self._stop.is_set():
            value = self._run + b" %d" % self.sent
            self._producer.produce(self._topic, value, partition=0, on_delivery=self._delivered)
            self.sent += 1
            self._producer.poll(0.02)
        self._producer.flush(DEADLINE_S)

    def _consume(self) -> None:
        from confluent_kafka import TopicPartition

        self._consumer.assign([TopicPartition(self._topic, 0, 0)])
        while not (self._stop.is_set() and len(self.received) >= len(self.acked)):
            message = self._consumer.poll(0.1)
            if message is None:
                if self._stop.is_set() and not self.acked:
                    return
                continue
            if message.error() is not None:
                self.errors.append(str(message.error()))
                continue
            run, text = message.value().split()
            if run != self._run:
                continue  # of an earlier bystander
            self.received.append(int(text))


@contextlib.contextmanager
def besieged(cluster: Cluster, bystander_topic: str, growth_mib: float = 100) -> Iterator[Watch]:
    """A time of attack: watched, with a bystander, both of which are asserted on at its end."""
    with Watch(cluster) as watch, Bystander(cluster.bootstrap_servers, bystander_topic) as other:
        yield watch
        assert_serves(cluster)
        other.assert_undisturbed()
        watch.assert_quiet(growth_mib)
