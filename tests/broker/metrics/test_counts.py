"""What collectors make of what they find: values that alarms stand on, of known partitions,
brokers, groups and connections."""

from collections import Counter
from types import SimpleNamespace as Made

import pytest

from fencepost.broker.metrics.catalogue import REQUESTS
from fencepost.broker.metrics.cluster import RATE_WINDOW_S, QuorumMetrics, collect_controller
from fencepost.broker.metrics.groups import collect_groups
from fencepost.broker.metrics.partitions import PartitionMetrics, _count, _tell, _Totals
from fencepost.broker.metrics.requests import _tell_connections, _tell_logins, collect_requests
from fencepost.broker.metrics.sheet import Sheet
from fencepost.broker.metrics.transactions import collect_transactions
from fencepost.broker.metrics.verifications import Verifications
from fencepost.broker.net.logins import LoginCounts
from fencepost.broker.net.request_metrics import ApiMetrics
from fencepost.machines.group.classic.member import GroupState
from fencepost.machines.group.consumer.group import ConsumerGroupState
from fencepost.machines.image import NO_LEADER
from fencepost.machines.quorum import Role
from fencepost.runtime.coordinator.coordinator import CoordinatorState

from .test_sheet import rendered

PARTITION = "kafka_cluster_partition_"
CONTROLLER = "kafka_controller_kafkacontroller_"
GROUP_TYPES_OF = {GroupState: "classic", ConsumerGroupState: "consumer"}
LOADED = Made(load_times=Made(recent=lambda: (30.0, 20.0)))


class Producers(list):
    def oldest_transaction_ms(self):
        return None


def hosted(isr, least, replicas, is_leader=True):
    machine = Made(
        is_leader=is_leader,
        isr=isr,
        effective_min_isr=least,
        replica_count=replicas,
        high_watermark=7,
        last_stable_offset=4,
        leader_epoch=3,
        leader_id=1,
        followers={2: Made(offset=6), 3: Made(offset=-1), 4: Made(offset=11)},
    )
    log = Made(
        producers=Producers([1, 2]), size_bytes=99, start_offset=2, end_offset=9, segment_count=1
    )
    return Made(machine=machine, log=log, topic="t", index=0, topic_id=None)


@pytest.mark.parametrize(
    ("isr", "least", "is_leader", "under_replicated", "under_min", "at_min"),
    [
        ((1, 2, 3), 2, True, 0, 0, 0),
        ((1, 2), 2, True, 1, 0, 1),
        ((1,), 2, True, 1, 1, 0),
        ((1, 2, 3), 3, True, 0, 0, 1),
        ((), 2, False, 0, 0, 0),
    ],
)
def test_in_sync_sets_are_held_against_replicas_and_the_minimum(
    isr, least, is_leader, under_replicated, under_min, at_min
):
    one, totals, sheet = hosted(isr, least, 3, is_leader), _Totals(), Sheet(0.0)
    _count(totals, one, Made(partition=lambda *_: Made(is_reassigning=True)), 0)
    assert (totals.partitioncount, totals.leadercount, totals.produceridcount) == (1, is_leader, 2)
    assert totals.reassigningpartitions == is_leader
    assert totals.underreplicatedpartitions == under_replicated
    assert totals.underminisrpartitioncount == under_min
    assert totals.atminisrpartitioncount == at_min
    _tell(sheet, one, None)
    found = rendered(sheet)
    labels = {"topic": "t", "partition": "0"}
    assert found.value(f"{PARTITION}underreplicated", **labels) == under_replicated
    assert found.value(f"{PARTITION}underminisr", **labels) == under_min
    assert found.value(f"{PARTITION}atminisr", **labels) == at_min
    assert found.value(f"{PARTITION}insyncreplicascount", **labels) == len(isr)
    assert found.value(f"{PARTITION}replicascount", **labels) == 3 * is_leader
    assert found.value(f"{PARTITION}laststableoffsetlag", **labels) == 3
    lags = {dict(key)["replica"]: lag for key, lag in found.find("fencepost_replica_lag").items()}
    assert lags == {"2": 3, "4": 0}


def drained(pieces):
    for _ in pieces:
        pass


def test_what_a_controller_says_of_the_cluster():
    places = [(1, (1, 2)), (2, (1, 2)), (NO_LEADER, (1, 2)), (2, (2, 1))]
    partitions = [Made(leader=leader, replicas=replicas) for leader, replicas in places]
    brokers = {
        1: Made(fenced=False, in_controlled_shutdown=True),
        2: Made(fenced=True, in_controlled_shutdown=False),
        3: Made(fenced=False, in_controlled_shutdown=False),
    }
    topics = {"t": Made(partitions=partitions[:3]), "u": Made(partitions=partitions[3:])}
    image = Made(topics_by_name=topics, brokers=brokers, offset=40)
    sheet = Sheet(0.0)
    drained(collect_controller(sheet, Made(image=image, machine=Made(high_watermark=43)), False))
    found = rendered(sheet)
    for name, value in {
        "activecontrollercount": 0,
        "offlinepartitionscount": 1,
        "preferredreplicaimbalancecount": 2,
        "globaltopiccount": 2,
        "globalpartitioncount": 4,
        "activebrokercount": 2,
        "fencedbrokercount": 1,
        "controlledshutdownbrokercount": 1,
        "lastappliedrecordoffset": 40,
        "lastcommittedrecordoffset": 42,
    }.items():
        assert found.value(f"{CONTROLLER}{name}") == value, name


def test_rates_of_the_quorum_are_of_the_last_half_minute():
    machine = Made(end_offset=100, role=Role.LEADER, epoch=1, high_watermark=0)
    metrics = QuorumMetrics(Made(machine=machine, on_step=lambda look: None))

    def rate(now_s, end_offset):
        machine.end_offset = end_offset
        metrics.look()
        sheet = Sheet(now_s)
        metrics._rates(sheet)
        return rendered(sheet).value("kafka_server_raftmetrics_append_records_rate")

    assert rate(0, 100) == 0
    assert rate(10, 150) == 5  # of 10 s, which is all there is
    assert rate(RATE_WINDOW_S, 190) == 3
    assert rate(2 * RATE_WINDOW_S, 250) == 2  # of the last 30 s: 60 records
    assert rate(10 * RATE_WINDOW_S, 490) == 1  # no scrape meanwhile: of 240 s
    assert rate(10 * RATE_WINDOW_S + 20, 770) == 2  # 20 s are too short: of 260 s


def test_connections_are_told_by_what_became_of_them():
    counts = {"created": 9, "closed": 5, "expired": 3, "refused": 2}
    listener = Made(
        counts=Made(**{name: Counter({"A": count}) for name, count in counts.items()}),
        names=["A", "B"],
        connections=[Made(listener_name="A")] * 4,
    )
    sheet = Sheet(0.0)
    _tell_connections(sheet, listener)
    found = rendered(sheet)
    prefix = "kafka_server_socket_server_metrics_"
    for name, value in {
        f"{prefix}connection_count": 4,
        f"{prefix}connection_creation_total": 9,
        f"{prefix}connection_close_total": 5,
        "fencepost_connections_idle_closed_total": 3,
        "fencepost_connections_refused_total": 2,
    }.items():
        assert found.value(name, listener="A", networkProcessor="0") == value, name
        assert found.value(name, listener="B", networkProcessor="0") == 0, name


def test_logins_are_told_by_mechanism_and_in_kafkas_sums():
    counts = LoginCounts()
    counts.succeeded.update({("A", "PLAIN"): 3, ("A", "SCRAM-SHA-256"): 4})
    counts.failed["A", "PLAIN"] = 2
    counts.succeeded_again["A", "PLAIN"] = 6
    counts.cannot_again["A", "PLAIN"] = 1
    counts.expired["A"] = 5
    sheet = Sheet(0.0)
    _tell_logins(sheet, Made(logins=Made(counts=counts), names=["A", "B"], securities={}))
    found = rendered(sheet)
    prefix = "kafka_server_socket_server_metrics_"
    for name, value in {
        "successful_authentication_total": 7,
        "failed_authentication_total": 2,
        "successful_reauthentication_total": 6,
        "failed_reauthentication_total": 0,
        "successful_authentication_no_reauth_total": 1,
        "expired_connections_killed_count": 5,
    }.items():
        assert found.value(prefix + name, listener="A", networkProcessor="0") == value, name
        assert found.value(prefix + name, listener="B", networkProcessor="0") == 0, name
    one = {"listener": "A", "mechanism": "SCRAM-SHA-256", "result": "succeeded"}
    assert found.value("fencepost_logins_total", **one) == 4


def test_groups_are_counted_by_state_with_their_members_and_offsets():
    def coordinator(state, groups, offsets):
        found = {
            str(i): Made(state=s, member_count=n, group_type=GROUP_TYPES_OF[type(s)])
            for i, (s, n) in enumerate(groups)
        }
        return Made(state=state, machine=Made(groups=found, offset_count=offsets))

    coordinators = [
        coordinator(CoordinatorState.ACTIVE, [(GroupState.STABLE, 3), (GroupState.EMPTY, 0)], 5),
        coordinator(
            CoordinatorState.ACTIVE,
            [(GroupState.STABLE, 2), (ConsumerGroupState.STABLE, 4), (ConsumerGroupState.EMPTY, 0)],
            6,
        ),
        coordinator(CoordinatorState.LOADING, [(GroupState.STABLE, 100)], 100),
    ]
    host = Made(coordinators=lambda: coordinators, runtime=LOADED, memory=Made(used_bytes=77))
    sheet = Sheet(0.0)
    drained(collect_groups(sheet, host))
    found = rendered(sheet)
    groups = "kafka_coordinator_group_groupmetadatamanager_"
    for name, value in {
        f"{groups}numgroups": 3,
        f"{groups}numgroupsstable": 2,
        f"{groups}numgroupsempty": 1,
        f"{groups}numoffsets": 11,
        "fencepost_group_members": 9,
        "fencepost_group_memory_bytes": 77,
    }.items():
        assert found.value(name) == value, name
    metrics = "kafka_server_group_coordinator_metrics_"
    for protocol, count in {"classic": 3, "consumer": 2, "share": 0, "streams": 0}.items():
        assert found.value(f"{metrics}group_count", protocol=protocol) == count
    for name, state, count in (
        ("classic", "Stable", 2),
        ("classic", "PreparingRebalance", 0),
        ("consumer", "Stable", 1),
        ("consumer", "Empty", 1),
        ("consumer", "Reconciling", 0),
        ("streams", "NotReady", 0),
    ):
        assert found.value(f"{metrics}{name}_group_count", state=state) == count


def test_transactions_are_counted_over_all_partitions():
    def coordinator(state, ids, retried):
        machine = Made(transactions=range(ids))
        return Made(state=state, machine=machine, retried_count=retried)

    active = CoordinatorState.ACTIVE
    coordinators = [coordinator(active, 3, 4), coordinator(active, 2, 1)]
    host = Made(
        coordinators=lambda: coordinators,
        markers=Made(without_leader=1, waiting=2, refused=3),
        runtime=LOADED,
        memory=Made(used_bytes=88),
    )
    sheet = Sheet(0.0)
    drained(collect_transactions(sheet, host, Verifications()))
    found = rendered(sheet)
    markers = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
    for name, value in {
        f"{markers}unknowndestinationqueuesize": 1,
        f"{markers}logappendretryqueuesize": 5,
        "fencepost_transactional_ids": 5,
        "fencepost_transactions_waiting_for_markers": 2,
        "fencepost_transactions_with_refused_markers": 3,
        "fencepost_transaction_memory_bytes": 88,
    }.items():
        assert found.value(name) == value, name


@pytest.mark.parametrize("known", [None, Made(is_reassigning=False)])
def test_a_partition_at_rest_is_not_being_reassigned(known):
    """Nor is one that the metadata do not know yet."""
    totals = _Totals()
    _count(totals, hosted((1, 2), 2, 3), Made(partition=lambda *_: known), 0)
    assert (totals.leadercount, totals.reassigningpartitions) == (1, 0)


def test_directories_are_told_by_their_paths():
    dirs = [
        Made(path="/a", is_online=True, log_dir=Made(strays=2)),
        Made(path="/b", is_online=False, log_dir=Made(strays=1)),
        Made(path="/c", is_online=False, log_dir=None),
    ]
    metrics = PartitionMetrics(None, None, Made(data_dirs=dirs), Made(get=None))
    sheet = Sheet(0.0)
    metrics._directories(sheet, {id(dirs[0]): 30, id(dirs[1]): 7})
    found = rendered(sheet)
    for name, counts in (
        ("kafka_log_logmanager_logdirectoryoffline", [0, 1, 1]),
        ("fencepost_log_directory_size_bytes", [30, 7, 0]),
        ("fencepost_log_directory_strays", [2, 1, 0]),
    ):
        assert [found.value(name, logDirectory=one.path) for one in dirs] == counts
    assert found.value("kafka_log_logmanager_offlinelogdirectorycount") == 2


def test_an_api_that_two_listeners_serve_is_counted_together():
    """Fetch of clients and that of the quorum; what one of them counts last hides nothing."""
    ours, theirs = ApiMetrics("Fetch"), ApiMetrics("Fetch")
    for api, versions, errors, size_bytes in (
        (ours, {17: 5, 18: 1}, {0: 4, 1: 2}, 100),
        (theirs, {17: 3}, {0: 3, 6: 1}, 10),
    ):
        api.versions.update(versions)
        api.errors.update(errors)
        api.request_bytes, api.response_bytes = size_bytes, 2 * size_bytes
    listeners = {
        role: Made(request_metrics=Made(apis={1: api}))
        for role, api in (("broker", ours), ("controller", theirs))
    }
    sheet = Sheet(0.0)
    next(collect_requests(sheet, listeners))
    found = rendered(sheet)
    of = {"request": "Fetch"}
    for metric, label, counts in (
        ("requests", "version", {"17": 8, "18": 1}),
        ("errors", "error", {"NONE": 7, "OFFSET_OUT_OF_RANGE": 2, "NOT_LEADER_OR_FOLLOWER": 1}),
    ):
        name = f"{REQUESTS}{metric}_total"
        assert {one: found.value(name, **of, **{label: one}) for one in counts} == counts
        assert len(found.find(name)) == len(counts)
    assert found.value("fencepost_request_bytes_total", **of) == 110
    assert found.value("fencepost_response_bytes_total", **of) == 220
