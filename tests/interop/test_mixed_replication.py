"""One cluster of Apache Kafka's brokers and ours: each follows the other and leads in turn."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.errors import ClientError
from fencepost.client.producer import Producer

from ..spark.audit.world import audit
from ..waiting import eventually
from . import apache
from .conftest import jars_or_skip
from .quorum import APACHE, FENCEPOST, OLDER, Quorum

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]

TOPIC, PARTITIONS = "shared", 3
BROKERS = {101: APACHE, 102: FENCEPOST, 103: FENCEPOST}
SESSION = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "5000",
    "min.insync.replicas": "2",
}


@contextlib.contextmanager
def both_kinds(
    home: Path, controller: str, config: Mapping[str, str], *, theirs: str = APACHE
) -> Iterator[Quorum]:
    """A controller of this kind; one broker of Apache Kafka's (`theirs`: of which) and two of ours.

    With an older Kafka the cluster is of its release.
    """
    brokers = tuple(theirs if kind == APACHE else kind for kind in BROKERS.values())
    with Quorum(home, (controller,), brokers, config=config) as quorum:
        quorum.format(*(("--release-version", "4.3") if theirs == OLDER else ()))
        quorum.start()
        quorum.wait_for_leader()
        yield quorum


@pytest.fixture(
    params=[(APACHE, APACHE), (FENCEPOST, APACHE), (OLDER, OLDER), (FENCEPOST, OLDER)],
    ids=lambda kinds: ":".join(kinds).replace(" ", "-"),
)
def quorum(request: pytest.FixtureRequest, kafka_jars, tmp_path: Path) -> Iterator[Quorum]:
    """Brokers of both kinds under a controller of one."""
    controller, theirs = request.param
    if theirs == OLDER:
        jars_or_skip(apache.OLDER_KAFKA)
    with both_kinds(tmp_path, controller, SESSION, theirs=theirs) as quorum:
        yield quorum


def addresses(quorum: Quorum) -> str:
    return ",".join(quorum.nodes[id_].address for id_ in BROKERS if quorum.nodes[id_].is_running)


def leaders_and_isrs(quorum: Quorum) -> list[tuple[int, set[int]]]:
    """Of each partition; nothing while no broker tells."""
    try:
        with Client(addresses(quorum)) as client:
            found = Admin(client).describe_topic(TOPIC).partitions
    except ClientError:
        return []
    return [(found[index].leader_id, set(found[index].isr)) for index in sorted(found)]


def wait_for_isrs(quorum: Quorum, isr: set[int]) -> list[int]:
    """Until every partition has this in-sync set and one of it leads; the leaders."""

    found: list[tuple[int, set[int]]] = []

    def is_so() -> bool:
        found[:] = leaders_and_isrs(quorum)
        return bool(found) and all(at in isr and members == isr for at, members in found)

    try:
        eventually(is_so)
    except AssertionError:
        raise AssertionError(f"in-sync sets are not {sorted(isr)}: {found}") from None
    return [leader for leader, _ in found]


def create_led_by_both(quorum: Quorum) -> None:
    """The topic, of which every broker is the preferred leader of a partition."""
    ids = list(BROKERS)
    assignments = {index: ids[index:] + ids[:index] for index in range(PARTITIONS)}
    with Client(addresses(quorum)) as client:
        admin = Admin(client)
        admin.create_topic(TOPIC, assignments=assignments)
        wait_for_isrs(quorum, set(ids))
        admin.elect_leaders(None)
    eventually(lambda: wait_for_isrs(quorum, set(ids)) == ids, "each leads one")


def write(quorum: Quorum, prefix: str, count: int = 30) -> list[str]:
    """Acknowledged by all in sync, in every partition; the values."""
    values = [f"{prefix}-{number}" for number in range(count)]
    with Client(addresses(quorum)) as client, Producer(client) as producer:
        for number, value in enumerate(values):
            producer.send(TOPIC, value.encode(), partition=number % PARTITIONS)
            if number % 7 == 0:
                producer.flush()
    return values


def read(quorum: Quorum, broker_id: int, count: int) -> list[str]:
    """By Apache Kafka's consumer, which begins with this broker."""
    return apache.consume(quorum.nodes[broker_id].address, TOPIC, count, "--from-beginning")


def checksum(data_dir: Path, partition: int) -> str:
    """Over the log's files, byte for byte."""
    digest = hashlib.sha256()
    for path in sorted((data_dir / f"{TOPIC}-{partition}").glob("*.log")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def check_audit(quorum: Quorum) -> None:
    """Whether brokers are at work or not: both kinds' logs are sound, and equal.

    What is committed in a log a broker notes every few seconds, and no more can be compared.
    """

    def all_are_compared() -> bool:
        outcome = audit(*(quorum.nodes[id_].data_dir for id_ in BROKERS), pause=time.sleep)
        assert outcome.is_clean, outcome.findings
        compared = [one for one in outcome.ranges if one.topic == TOPIC]
        assert all(one.is_equal for one in compared), compared
        return {one.partition for one in compared} == set(range(PARTITIONS)) and all(
            len(one.replicas) == len(BROKERS) for one in compared
        )

    eventually(all_are_compared, "all brokers have noted the same high watermarks")


def test_each_kind_follows_the_other_and_leads_in_turn(quorum: Quorum) -> None:
    create_led_by_both(quorum)
    everybody = set(BROKERS)
    written = write(quorum, "all")
    for id_ in (101, 102):
        quorum.nodes[id_].kill()
        wait_for_isrs(quorum, everybody - {id_})
        written += write(quorum, f"without-{id_}")
        quorum.nodes[id_].start()
        wait_for_isrs(quorum, everybody)
        quorum.nodes[id_].stop()
        wait_for_isrs(quorum, everybody - {id_})
        written += write(quorum, f"stopped-{id_}")
        quorum.nodes[id_].start()
        wait_for_isrs(quorum, everybody)
    for id_ in BROKERS:
        assert sorted(read(quorum, id_, len(written))) == sorted(written)
    check_audit(quorum)
    for id_ in BROKERS:
        quorum.nodes[id_].stop()
    check_audit(quorum)
    for partition in range(PARTITIONS):
        sums = {checksum(quorum.nodes[id_].data_dir, partition) for id_ in BROKERS}
        assert len(sums) == 1, f"partition {partition} is the same everywhere"
