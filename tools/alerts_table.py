"""The table of docs/OPERATIONS.md that says which metrics ask for what; see `docs_tables`."""

from __future__ import annotations

from typing import NamedTuple

from fencepost.broker.metrics.catalogue import CATALOGUE


class Alert(NamedTuple):
    """A metric, the condition that needs an operator, and what to do then."""

    metric: str
    condition: str
    action: str


DISK = "see [A full disk](#a-full-disk) and [Replacing a disk](#replacing-a-disk)"
HALTED = "see [Halted replicas](RUNNING.md#halted-replicas): `/ready` and the log say which and why"

ALERTS = (
    Alert(
        "kafka_controller_kafkacontroller_activecontrollercount",
        "sum over all nodes is not 1 for 30 s",
        "`fencepost quorum describe`: start controllers until a majority runs; look at the network"
        " between them",
    ),
    Alert(
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "above 0",
        "`fencepost topics describe --unavailable`: start the brokers in the ISR or ELR",
    ),
    Alert(
        "kafka_server_replicamanager_underminisrpartitioncount",
        "above 0",
        "producers with acks=all are refused: bring the missing brokers back",
    ),
    Alert(
        "kafka_server_replicamanager_underreplicatedpartitions",
        "above 0 for some minutes, outside of restarts",
        "`fencepost topics describe --under-replicated` names the brokers that are out of sync",
    ),
    Alert("fencepost_replicas_halted", "above 0", HALTED),
    Alert("kafka_server_replicamanager_offlinereplicacount", "above 0", HALTED),
    Alert("kafka_log_logmanager_logdirectoryoffline", "1", DISK),
    Alert(
        "fencepost_log_directory_size_bytes",
        "near what the disk holds",
        "lower retention, move replicas, enlarge the disk, before it is full",
    ),
    Alert(
        "fencepost_log_directory_strays",
        "above 0",
        "directories of partitions that the cluster does not place here: delete them by hand when"
        " the records are not needed, and start the broker again",
    ),
    Alert(
        "kafka_controller_kafkacontroller_fencedbrokercount",
        "above 0, outside of restarts",
        "`fencepost brokers list` names them: start them, or unregister those that are gone",
    ),
    Alert(
        "fencepost_broker_fenced",
        "1 while the process runs",
        "it does not reach the active controller, or is too slow: its log, network and CPU",
    ),
    Alert(
        "fencepost_ready",
        "0 for longer than a start takes",
        "`curl` its `/ready`: it gives the reasons",
    ),
    Alert(
        "fencepost_unclean_truncations_total",
        "grows",
        "a follower cut records that its leader did not have: after an unclean election that is"
        " expected, else a disk or a restored directory lost records",
    ),
    Alert(
        "kafka_server_replicafetchermanager_failedpartitionscount",
        "above 0",
        HALTED,
    ),
    Alert(
        "fencepost_raft_replica_lag",
        "grows for one voter",
        "that controller is down, slow or cut off: a further loss may cost the majority",
    ),
    Alert(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        "above 0",
        "`fencepost transactions` finds the transaction; read_committed consumers wait for it"
        " ([Transactions](COMMANDS.md#transactions))",
    ),
    Alert(
        "fencepost_transactions_with_refused_markers",
        "above 0",
        "the log names partition and error; see [Transactions](COMMANDS.md#transactions)",
    ),
    Alert(
        "fencepost_connections_refused_total",
        "grows",
        "raise `max.connections` or `ulimit -n`, or find the client that opens so many",
    ),
    Alert(
        "fencepost_memory_budget_used_bytes",
        "near `fencepost_memory_budget_limit_bytes`",
        "clients send or ask for more than they take: the log names those that were disconnected",
    ),
    Alert(
        "fencepost_event_loop_delay_seconds",
        "quantile 0.99 above 0.5",
        "the node has too little CPU, or too many clients: spread leaders, or add a broker",
    ),
    Alert(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "above 0",
        DISK,
    ),
)


def alerts() -> str:
    """What to watch; what a metric says is the catalogue's."""
    rows = [
        f"| `{one.metric}` | {CATALOGUE[one.metric].doc.removesuffix('.')} | {one.condition}"
        f" | {one.action} |\n"
        for one in ALERTS
    ]
    return "| metric | what it says | when | what to do |\n| --- | --- | --- | --- |\n" + "".join(
        rows
    )
