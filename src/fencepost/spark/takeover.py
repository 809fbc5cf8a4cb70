"""How a driver takes a sink over: the producer that fences the one before, and its timeout.

Also what the sink's past says before that is done: InitProducerId clears the state of the driver's
transactional id, which may be the last trace of a decision that the group has lost.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from fencepost.client.admin import BROKER_RESOURCE, Admin
from fencepost.client.cluster import Cluster
from fencepost.client.errors import BrokerError, ClientError, TransactionError
from fencepost.client.produce_queue import Identity
from fencepost.client.transactional import TransactionDriver
from fencepost.spark.decisions import read_decision
from fencepost.spark.sink_errors import DecisionLostError
from fencepost.wire.errors import ErrorCode

log = logging.getLogger("fencepost.spark")

DEFAULT_MAX_TIMEOUT_MS: Final = 15 * 60_000
"""Kafka's `transaction.max.timeout.ms`, for brokers that do not tell theirs."""
LEAST_TIMEOUT_MS: Final = 1_000
DEFAULT_RETENTION_MS: Final = 7 * 24 * 60 * 60_000
"""Kafka's `offsets.retention.minutes`, for brokers that do not tell theirs."""
RETENTION_MARGIN_MS: Final = 60 * 60_000
"""How long after its time an offset or a transactional id may still be there, and the difference
of clocks that is not noticed."""

# By bootstrap servers, the longest timeout that coordinators were seen to take.
_timeouts: dict[str, int] = {}


def take_over(cluster: Cluster, sink: str, wanted_ms: int | None) -> tuple[TransactionDriver, int]:
    """The driver's producer, which fences the one before, and the timeout that it was allowed;
    `wanted_ms` None asks for the longest.

    ClientError, also when a timeout that was asked for is above `transaction.max.timeout.ms`.
    """
    timeout_ms = wanted_ms or longest_timeout_ms(cluster)
    while True:
        driver = TransactionDriver(cluster, sink, timeout_ms)
        driver.manager.initialize()
        try:
            cluster.run(driver.run(f"taking over the sink {sink}"))
        except TransactionError as error:
            refused = error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
            if not refused or wanted_ms or timeout_ms < 2 * LEAST_TIMEOUT_MS:
                raise
            timeout_ms //= 2
        else:
            if wanted_ms is None:
                _timeouts[cluster.config.bootstrap_servers] = timeout_ms
            return driver, timeout_ms


def driver_of(cluster: Cluster, sink: str) -> Identity:
    """The producer of the driver that took the sink over last: it alone may decide a batch.

    ClientError, also where no driver has taken it over or the coordinator has forgotten that.
    """
    known = Admin(cluster).describe_transaction(sink)
    return Identity(known.producer_id, known.producer_epoch)


def longest_timeout_ms(cluster: Cluster) -> int:
    """`transaction.max.timeout.ms` of a broker, if it may be read (DescribeConfigs on Cluster),
    else what coordinators took before, or Kafka's default to begin with."""
    known = _timeouts.get(cluster.config.bootstrap_servers)
    if known is not None:
        return known
    found = _broker_settings(cluster, "transaction.max.timeout.ms")
    if found is None:
        return DEFAULT_MAX_TIMEOUT_MS
    return max(LEAST_TIMEOUT_MS, min(found)) if found else DEFAULT_MAX_TIMEOUT_MS


def retention_ms(cluster: Cluster) -> int:
    """How long brokers keep a decision (`offsets.retention.minutes`), as far as they tell."""
    told = _broker_settings(cluster, "offsets.retention.minutes") or []
    return min((minutes for minutes in told if minutes > 0), default=0) * 60_000 or (
        DEFAULT_RETENTION_MS
    )


def require_decision(cluster: Cluster, sink: str, now_ms: int | None = None) -> None:
    """DecisionLostError where the sink's last driver has committed a decision that the group should
    still have, and does not. What drivers commit in their own transactions is decisions alone."""
    try:
        known = Admin(cluster).describe_transaction(sink)
    except BrokerError as error:
        if error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return
        raise
    if known.state not in ("PrepareCommit", "CompleteCommit"):
        return
    if read_decision(cluster, sink) is not None:
        return
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    ago_ms = max(0, now_ms - known.start_ms) if known.start_ms > 0 else 0
    if ago_ms < retention_ms(cluster) - RETENTION_MARGIN_MS:
        raise DecisionLostError(sink, ago_ms)
    log.warning("what %s decided %d s ago has expired", sink, ago_ms // 1000)


def _broker_settings(cluster: Cluster, name: str) -> list[int] | None:
    """A setting of every broker; None if it may not be read."""
    try:
        cluster.describe([])
        return [
            int(entry.value or 0)
            for node in cluster.metadata.nodes
            for entry in Admin(cluster).describe_configs(BROKER_RESOURCE, str(node), [name])
            if entry.name == name
        ]
    except ClientError as error:
        log.debug("cannot read %s: %s", name, error)
        return None
