"""`fencepost perf`: how fast records are written, read, and both, printed as Kafka's tools do.

`produce` prints what kafka-producer-perf-test prints, `consume` what kafka-consumer-perf-test does,
`end-to-end` what kafka.tools.EndToEndLatency does, so what reads theirs reads ours. The client that
is measured is this project's own, in one process and one thread.
"""

from __future__ import annotations

import argparse
import random
import string
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from fencepost.cli.cluster_options import (
    INT32_MAX,
    INT64_MAX,
    check_number,
    command,
    finish_cluster_command,
    open_cluster,
)
from fencepost.cli.commands import add_actions
from fencepost.cli.failures import InputError
from fencepost.cli.output import print_json
from fencepost.cli.perf_figures import ConsumeFigures, ProduceFigures, percentile
from fencepost.client.errors import ClientError
from fencepost.views.rates import EndToEndLatencies

if TYPE_CHECKING:
    from fencepost.client.fetch_core import FetchPosition
    from fencepost.client.fetcher import Fetcher
    from fencepost.client.metadata import TopicPartition
    from fencepost.client.producer import Producer, RecordDelivery

VALUES: Final = 1_000
"""Different values that are sent in turn: making one for each record would be measured, too."""
PACE_MS: Final = 10.0
"""How long a producer that is ahead of --throughput waits for answers at a time."""
EVERY: Final = 1_000
"""Of so many records `end-to-end` prints one."""

EXAMPLES = """\
Client properties are given by -X, as acks, linger.ms, batch.size and compression.type.

examples:
  fencepost perf produce t --num-records 100000 --record-size 100
  fencepost perf produce t --num-records 60000 --record-size 1000 --throughput 1000 -X linger.ms=5
  fencepost perf consume t --num-records 100000
  fencepost perf end-to-end t --num-records 1000 -X acks=1
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost perf`."""
    parser = subparsers.add_parser(
        "perf", description="Measure how fast records are written, read, and both.", epilog=EXAMPLES
    )
    actions = add_actions(parser)
    producing = actions.add_parser("produce", help="records per second, and how long each took")
    _add_records(producing, size=100)
    producing.add_argument(
        "--throughput",
        type=int,
        default=-1,
        metavar="N",
        help="records per second, about (default: -1, as fast as possible)",
    )
    _add_interval(producing)
    finish_cluster_command(producing, produce)

    consuming = actions.add_parser("consume", help="records and MB per second")
    _add_records(consuming, size=None)
    consuming.add_argument("--group", metavar="NAME", help="default: perf-consumer- and a number")
    consuming.add_argument(
        "--from-latest", action="store_true", help="only what is written from now on"
    )
    consuming.add_argument(
        "--idle-timeout-ms",
        type=int,
        default=10_000,
        metavar="MS",
        help="end when no record comes for so long (default: 10000)",
    )
    consuming.add_argument("--show-detailed-stats", action="store_true", help="a row per interval")
    consuming.add_argument("--hide-header", action="store_true", help="only rows of figures")
    _add_interval(consuming)
    finish_cluster_command(consuming, consume)

    both = actions.add_parser("end-to-end", help="from the send of each record to its arrival")
    _add_records(both, size=100)
    finish_cluster_command(both, end_to_end)


def _add_records(parser: argparse.ArgumentParser, size: int | None) -> None:
    parser.add_argument("topic")
    parser.add_argument(
        "--num-records", type=int, default=100_000, metavar="N", help="how many (default: 100000)"
    )
    if size is not None:
        parser.add_argument(
            "--record-size",
            type=int,
            default=size,
            metavar="BYTES",
            help=f"of a value, random letters (default: {size})",
        )


def _add_interval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reporting-interval",
        type=int,
        default=5_000,
        metavar="MS",
        help="between lines of progress (default: 5000)",
    )


def _values(arguments: argparse.Namespace) -> list[bytes]:
    """Values to send, random letters. UsageError."""
    check_number("--num-records", arguments.num_records, 1, INT64_MAX)
    check_number("--record-size", arguments.record_size, 1, INT32_MAX)
    letters, size = string.ascii_uppercase.encode(), arguments.record_size
    source = random.Random(0)
    count = max(1, min(VALUES, arguments.num_records, (16 << 20) // size))
    return [bytes(source.choices(letters, k=size)) for _ in range(count)]


# -- produce -------------------------------------------------------------------------------------


@command
def produce(arguments: argparse.Namespace) -> int:
    """Send, and print what was acknowledged in each interval and in all."""
    from fencepost.client.producer import Producer

    values = _values(arguments)
    check_number("--reporting-interval", arguments.reporting_interval, 1, INT32_MAX)
    with open_cluster(arguments, allow_auto_create_topics="true") as cluster:
        cluster.topic(arguments.topic)
        figures = ProduceFigures(
            arguments.num_records, arguments.reporting_interval, is_quiet=arguments.json
        )
        _Load(Producer(cluster), figures, arguments).run(values)
    if arguments.json:
        print_json(figures.rates())
    else:
        print(figures.total_line())
    return 0


class _Load:
    """Records on their way, and how long each has been."""

    def __init__(
        self, producer: Producer, figures: ProduceFigures, arguments: argparse.Namespace
    ) -> None:
        self._producer = producer
        self._figures = figures
        self._arguments = arguments
        self._waiting: dict[TopicPartition, deque[tuple[RecordDelivery, float]]] = {}

    def run(self, values: list[bytes]) -> None:
        """Send all, at the pace that is wanted, and wait for their answers. ClientError."""
        arguments, producer = self._arguments, self._producer
        started = time.monotonic()
        for number in range(arguments.num_records):
            sent = time.monotonic()
            delivery = producer.send(arguments.topic, values[number % len(values)])
            waiting = self._waiting.setdefault(delivery.partition, deque())
            waiting.append((delivery, sent))
            if waiting[0][0].done:
                self._take_answers()
            if arguments.throughput > 0:
                self._wait_until(started + (number + 1) / arguments.throughput)
        while any(self._waiting.values()):
            producer.poll(producer.next_poll_ms() or 0)
            self._take_answers()

    def _wait_until(self, moment: float) -> None:
        while (left_s := moment - time.monotonic()) > 0:
            due_ms = self._producer.next_poll_ms()
            self._producer.poll(min(left_s * 1000, PACE_MS if due_ms is None else due_ms))
            self._take_answers()

    def _take_answers(self) -> None:
        self._producer.raise_failure()
        now, size = time.monotonic(), self._arguments.record_size
        for waiting in self._waiting.values():
            while waiting and waiting[0][0].done:
                delivery, sent = waiting.popleft()
                delivery.result()
                self._figures.add((now - sent) * 1000, size)


# -- consume -------------------------------------------------------------------------------------


@command
def consume(arguments: argparse.Namespace) -> int:
    """Read as a member of a group, and print what a second brought."""
    from fencepost.client.consumer import Consumer

    check_number("--num-records", arguments.num_records, 1, INT64_MAX)
    check_number("--idle-timeout-ms", arguments.idle_timeout_ms, 1, INT32_MAX)
    check_number("--reporting-interval", arguments.reporting_interval, 1, INT32_MAX)
    figures = ConsumeFigures(
        arguments.reporting_interval,
        is_detailed=arguments.show_detailed_stats,
        is_quiet=arguments.json,
    )
    group = arguments.group or f"perf-consumer-{random.randrange(100_000)}"
    reset = "latest" if arguments.from_latest else "earliest"
    with open_cluster(arguments, group_id=group, auto_offset_reset=reset) as cluster:
        cluster.topic(arguments.topic)
        if not (arguments.hide_header or arguments.json):
            print(figures.header(), flush=True)
        figures.begin()
        with Consumer(cluster, [arguments.topic]) as consumer:
            idle_since = time.monotonic()
            while figures.records < arguments.num_records:
                before, rebalances = time.monotonic(), consumer.rebalances
                found = consumer.poll(min(100, arguments.idle_timeout_ms))
                now = time.monotonic()
                if consumer.rebalances != rebalances:
                    figures.add_rebalance((now - before) * 1000)
                    idle_since = now
                for fetched in found:
                    for records in fetched.read_lists():
                        figures.add(records[: arguments.num_records - figures.records])
                        idle_since = now
                if (now - idle_since) * 1000 > arguments.idle_timeout_ms:
                    break
            figures.end()
    if arguments.json:
        print_json(figures.rates())
    elif not arguments.show_detailed_stats:
        print(figures.total_line())
    if figures.records < arguments.num_records:
        raise InputError(
            f"{figures.records} of {arguments.num_records} records came, and no more for"
            f" {arguments.idle_timeout_ms} ms (--idle-timeout-ms)"
        )
    return 0


# -- end to end ----------------------------------------------------------------------------------


@command
def end_to_end(arguments: argparse.Namespace) -> int:
    """One record at a time: sent, acknowledged, read."""
    from fencepost.client.fetch_core import FetchPosition
    from fencepost.client.fetcher import Fetcher
    from fencepost.client.metadata import TopicPartition
    from fencepost.client.offsets import LATEST, list_offsets
    from fencepost.client.producer import Producer

    values = _values(arguments)
    latencies: list[float] = []
    with open_cluster(arguments) as cluster, Producer(cluster) as producer:
        ids = cluster.topic(arguments.topic).partition_ids
        partitions = [TopicPartition(arguments.topic, number) for number in ids]
        ends = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
        positions = {where: FetchPosition(at.offset) for where, at in ends.items()}
        fetcher = Fetcher(cluster)
        for number in range(arguments.num_records):
            value = values[number % len(values)]
            began = time.monotonic()
            producer.send(arguments.topic, value)
            producer.flush()
            _read_one(fetcher, positions, value)
            latencies.append((time.monotonic() - began) * 1000)
            if number % EVERY == 0 and not arguments.json:
                print(f"{number}\t{latencies[-1]:.4f}", flush=True)
    average = sum(latencies) / len(latencies)
    shares = {name: percentile(latencies, share) for name, share in _SHARES.items()}
    if arguments.json:
        print_json(EndToEndLatencies(len(latencies), average, *shares.values()))
        return 0
    print(f"Avg latency: {average:.4f} ms")
    p50, p99, p999 = map(int, shares.values())
    print(f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}")
    return 0


_SHARES: Final = {"p50": 0.5, "p99": 0.99, "p99_9": 0.999}


def _read_one(
    fetcher: Fetcher, positions: dict[TopicPartition, FetchPosition], value: bytes
) -> None:
    """Wait for the record that was just sent; ClientError if another one, or none, comes."""
    from fencepost.client.fetch_core import FetchPosition

    deadline = fetcher.cluster.deadline()
    while not deadline.passed:
        for fetched in fetcher.poll(positions):
            found = [record.value for record in fetched.read_records()]
            positions[fetched.partition] = FetchPosition(fetched.next_offset, fetched.last_epoch)
            if found == [value]:
                return
            if found:
                raise ClientError(
                    f"{fetched.partition} has records of others: {len(found)} came instead of one"
                )
    raise ClientError("the record was acknowledged and did not come")
