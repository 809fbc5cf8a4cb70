"""Metrics of the partitions that a broker hosts: all together, and those of some one by one.

A scrape walks over all of them in pieces, so that 10,000 partitions keep no client waiting. Their
sums are always exported. Series of single partitions are exported for the first
`fencepost.metrics.partitions.max`, in the order in which this broker got them, so that a partition
which comes later does not displace another; the same goes for topics.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import islice
from typing import Final

from fencepost.broker.config.settings import Settings
from fencepost.broker.metrics.catalogue import (
    FOLLOWER_LAG,
    LOG,
    PARTITION,
    REPLICA_LAG,
    REPLICAS,
    TOPICS,
)
from fencepost.broker.metrics.sheet import Sheet, label_text
from fencepost.broker.storage.data_dirs import DataDir
from fencepost.broker.storage.storage import Storage
from fencepost.machines.image import ClusterImage
from fencepost.machines.partition import IsrChanges
from fencepost.runtime.cooperative import Pieces
from fencepost.runtime.fetchers import FetcherKey, FollowerFetchers
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.runtime.traffic import TopicTraffic

PARTITIONS_PER_PIECE: Final = 50
TOPICS_PER_PIECE: Final = 50
UNKNOWN_OFFSET: Final = -1
LATE_TRANSACTION_BUFFER_MS: Final = 300_000
"""A transaction is late when it has gone on for so long beyond its longest timeout."""
CLIENT_ID: Final = "Replica"
"""What Kafka's followers call themselves in its metrics."""

_TRAFFIC: Final = (
    ("messages_in", "messagesin"),
    ("bytes_in", "bytesin"),
    ("bytes_out", "bytesout"),
    ("produce_requests", "totalproducerequests"),
    ("failed_produce_requests", "failedproducerequests"),
    ("fetch_requests", "totalfetchrequests"),
    ("failed_fetch_requests", "failedfetchrequests"),
)
"""Fields of `TopicTraffic`, and what Kafka calls them."""


@dataclass(slots=True)
class _Totals:
    """The metrics of all partitions together; the fields have the names of the metrics."""

    partitioncount: int = 0
    leadercount: int = 0
    underreplicatedpartitions: int = 0
    underminisrpartitioncount: int = 0
    atminisrpartitioncount: int = 0
    reassigningpartitions: int = 0
    produceridcount: int = 0
    partitionswithlatetransactionscount: int = 0


class PartitionMetrics:
    """See the module."""

    def __init__(
        self,
        replicas: ReplicaManager,
        followers: FollowerFetchers,
        storage: Storage,
        settings: Settings,
    ) -> None:
        self._replicas = replicas
        self._followers = followers
        self._storage = storage
        self._get = settings.get
        self.waiting_produces = 0
        """Batches that waited to be acknowledged, as of the last scrape."""

    def collect(self, sheet: Sheet, image: ClusterImage, wall_ms: int) -> Pieces[None]:
        """Put in what there is now."""
        most = self._get("fencepost.metrics.partitions.max")
        totals, isr_changes, waiting = _Totals(), IsrChanges(), 0
        late_before_ms = (
            wall_ms - self._get("transaction.max.timeout.ms") - LATE_TRANSACTION_BUFFER_MS
        )
        sizes: dict[int, int] = {}
        for number, hosted in enumerate(self._replicas.all()):
            if number % PARTITIONS_PER_PIECE == PARTITIONS_PER_PIECE - 1:
                yield None
            _count(totals, hosted, image, late_before_ms)
            isr_changes.add(hosted.machine.isr_changes)
            waiting += hosted.machine.waiting_produces
            place = id(hosted.data_dir)
            sizes[place] = sizes.get(place, 0) + hosted.log.size_bytes
            if number < most:
                _tell(sheet, hosted, self._followers.lag_of(hosted))
        isr_changes.add(self._replicas.gone_isr_changes)
        self.waiting_produces = waiting
        for field in fields(totals):
            sheet.add(f"{REPLICAS}{field.name}", getattr(totals, field.name))
        unavailable = sum(1 for _ in self._replicas.unavailable())
        sheet.add(f"{REPLICAS}offlinereplicacount", unavailable)
        sheet.add(f"{REPLICAS}isrshrinks_total", isr_changes.shrinks)
        sheet.add(f"{REPLICAS}isrexpands_total", isr_changes.expands)
        sheet.add(f"{REPLICAS}failedisrupdates_total", isr_changes.failures)
        sheet.add("fencepost_metrics_partitions_omitted", max(0, totals.partitioncount - most))
        self._tell_followers(sheet)
        self._directories(sheet, sizes)
        yield from self._traffic(sheet)

    def _tell_followers(self, sheet: Sheet) -> None:
        followers, prefix = self._followers, "kafka_server_replicafetchermanager_"
        sheet.add(f"{prefix}maxlag", followers.max_lag, clientId=CLIENT_ID)
        sheet.add(f"{prefix}failedpartitionscount", followers.stopped, clientId=CLIENT_ID)
        sheet.add("fencepost_unclean_truncations_total", followers.unclean_truncations)

    def _directories(self, sheet: Sheet, sizes: dict[int, int]) -> None:
        dirs: list[DataDir] = self._storage.data_dirs
        offline = [one for one in dirs if not one.is_online]
        sheet.add("kafka_log_logmanager_offlinelogdirectorycount", len(offline))
        for one in dirs:
            name = "kafka_log_logmanager_logdirectoryoffline"
            sheet.add(name, int(not one.is_online), logDirectory=one.path)
            size_bytes = sizes.get(id(one), 0)
            sheet.add("fencepost_log_directory_size_bytes", size_bytes, logDirectory=one.path)
            strays = 0 if one.log_dir is None else one.log_dir.strays
            sheet.add("fencepost_log_directory_strays", strays, logDirectory=one.path)

    def _traffic(self, sheet: Sheet) -> Pieces[None]:
        traffic = self._replicas.traffic
        total = traffic.total()
        for field, name in _TRAFFIC:
            sheet.add(f"{TOPICS}{name}_total", getattr(total, field))
        sheet.add(f"{TOPICS}replicationbytesin_total", total.replication_bytes_in)
        sheet.add(f"{TOPICS}replicationbytesout_total", total.replication_bytes_out)
        most, topics = self._get("fencepost.metrics.topics.max"), traffic.topics()
        for number, (topic, counts) in enumerate(islice(topics, most), 1):
            _tell_topic(sheet, topic, counts)
            if number % TOPICS_PER_PIECE == 0:
                yield None
        sheet.add("fencepost_metrics_topics_omitted", max(0, len(topics) - most))


def _count(
    totals: _Totals, hosted: HostedPartition, image: ClusterImage, late_before_ms: int
) -> None:
    machine = hosted.machine
    totals.partitioncount += 1
    totals.produceridcount += len(hosted.log.producers)
    if not machine.is_leader:
        return
    totals.leadercount += 1
    oldest_ms = hosted.log.producers.oldest_transaction_ms()
    totals.partitionswithlatetransactionscount += (
        oldest_ms is not None and 0 < oldest_ms < late_before_ms
    )
    in_sync, least = len(machine.isr), machine.effective_min_isr
    totals.underreplicatedpartitions += in_sync < machine.replica_count
    totals.underminisrpartitioncount += in_sync < least
    totals.atminisrpartitioncount += in_sync == least
    known = image.partition(hosted.topic_id, hosted.index)
    totals.reassigningpartitions += known is not None and known.is_reassigning


def _tell(sheet: Sheet, hosted: HostedPartition, lag: tuple[FetcherKey, int] | None) -> None:
    """Series of one partition; `lag` is what is known of it as a follower."""
    machine, log = hosted.machine, hosted.log
    labels = label_text({"topic": hosted.topic, "partition": str(hosted.index)})
    is_leader, end_offset = machine.is_leader, log.end_offset
    in_sync, replicas = len(machine.isr), machine.replica_count
    least = machine.effective_min_isr
    sheet.add_lines(
        labels,
        (
            (f"{PARTITION}underreplicated", int(is_leader and in_sync < replicas)),
            (f"{PARTITION}underminisr", int(is_leader and in_sync < least)),
            (f"{PARTITION}atminisr", int(is_leader and in_sync == least)),
            (f"{PARTITION}insyncreplicascount", in_sync if is_leader else 0),
            (f"{PARTITION}replicascount", replicas if is_leader else 0),
            (
                f"{PARTITION}laststableoffsetlag",
                machine.high_watermark - machine.last_stable_offset,
            ),
            (f"{LOG}size", log.size_bytes),
            (f"{LOG}logstartoffset", log.start_offset),
            (f"{LOG}logendoffset", end_offset),
            (f"{LOG}numlogsegments", log.segment_count),
            ("fencepost_partition_high_watermark", machine.high_watermark),
            ("fencepost_partition_leader_epoch", machine.leader_epoch),
            ("fencepost_partition_leader", machine.leader_id),
        ),
    )
    for broker_id, follower in machine.followers.items():
        if follower.offset != UNKNOWN_OFFSET:
            behind = max(0, end_offset - follower.offset)
            sheet.add_lines(f'{labels[:-1]},replica="{broker_id}"}}', ((REPLICA_LAG, behind),))
    if lag is not None:
        thread = f"ReplicaFetcherThread-{lag[0].number}-{lag[0].leader_id}"
        sheet.add_lines(f'{{clientId="{thread}",{labels[1:]}', ((FOLLOWER_LAG, lag[1]),))


def _tell_topic(sheet: Sheet, topic: str, counts: TopicTraffic) -> None:
    for field, name in _TRAFFIC:
        sheet.add(f"{TOPICS}{name}_total", getattr(counts, field), topic=topic)
