"""Errors that programs read: what provokes each, and what Apache Kafka 4.3 says of it.

`CASES` is one table for two tests: `broker.apis.test_error_messages` asks a node of ours, and
`interop.test_error_messages` asks ours and Apache Kafka's, so an expectation that is wrong fails
there. The broker is node 1, alone, with the topics of `TOPICS`.

Not in the table, as they differ on purpose: what a Produce answers of a batch that is damaged
(Kafka says nothing, we say what is wrong), security configs, changes of listeners, configs of
single listeners, and what Kafka answers with an unexpected server error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fencepost.batch.records import BatchBuilder
from fencepost.wire.api import (
    add_raft_voter as adding,
    alter_configs as replacing,
    alter_partition_reassignments as moving,
    create_partitions as growing,
    create_topics as creating,
    delete_topics as deleting,
    describe_cluster as cluster,
    describe_configs as describing,
    describe_producers as producers,
    describe_quorum as quorum,
    elect_leaders as electing,
    incremental_alter_configs as changing,
    produce as producing,
    remove_raft_voter as removing,
    unregister_broker as unregistering,
    update_features as updating,
)
from fencepost.wire.message import Message, Struct
from fencepost.wire.types import Uuid

WELL, COMPACTED, TIMELY, DOTTED = "messages", "messages-compacted", "messages-timely", "mess.ages"
ABSENT, NEW = "messages-absent", "messages-new"
TOPICS: dict[str, dict[str, str]] = {
    WELL: {},
    COMPACTED: {"cleanup.policy": "compact"},
    TIMELY: {"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"},
    DOTTED: {},
}
"""What there has to be, with configs; each topic has two partitions."""

UNKNOWN_ID = Uuid(b"no topic has it!")
TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
VERSION_FEATURE = "metadata.version"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
LATE_MS = 1 << 62


class Case(NamedTuple):
    """A request, and the codes and texts of its answer, in order; `{cluster}` is the cluster's id.

    `is_part`: Kafka says more around the text.
    """

    name: str
    request: Any
    answers: tuple[tuple[int, str | None], ...]
    version: int | None = None
    is_part: bool = False


def answers_in(struct: Struct) -> list[tuple[int, str | None]]:
    """Every error of a response, with its text; bounds of time without their values."""
    found: list[tuple[int, str | None]] = []
    names = {descriptor.name for descriptor in type(struct).fields}
    if "error_code" in names and struct.error_code:  # type: ignore[attr-defined]
        message = getattr(struct, "error_message", None)
        found.append((struct.error_code, message))  # type: ignore[attr-defined]
    if isinstance(struct, producing.BatchIndexAndErrorMessage):
        text = re.sub(r"\[-?\d+, \d+\]$", "[EARLIEST, LATEST]", struct.batch_index_error_message)
        found.append((struct.batch_index, text))
    for name in names:
        value = getattr(struct, name)
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, Struct):
                found += answers_in(one)
    return sorted(found, key=str)


def new_topic(
    name: str = NEW,
    partitions: int = 1,
    replicas: int = 1,
    assignments: list[tuple[int, list[int]]] | None = None,
    **configs: str | None,
) -> creating.CreatableTopic:
    return creating.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            creating.CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in assignments or []
        ],
        configs=[
            creating.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


# -- topics --------------------------------------------------------------------------------------


def _named(name: str, why: str) -> tuple[Any, int, str]:
    return new_topic(name), 17, f"Topic name is invalid: {why}"


def _placed(*assignments: tuple[int, list[int]]) -> creating.CreatableTopic:
    return new_topic(NEW, -1, -1, list(assignments))


NO_BROKER_9 = "The manual partition assignment includes broker 9, but no such broker is registered."
TWICE_1 = "The manual partition assignment includes the broker 1 more than once."
NO_REPLICA = "The manual partition assignment includes an empty replica list."
ODD_CHARACTERS = (
    "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
)
NOT_HOSTED = "This server does not host this topic-partition."

NEW_TOPICS = [
    (new_topic(WELL), 36, f"Topic '{WELL}' already exists."),
    (
        new_topic("__cluster_metadata"),
        42,
        "Creation of internal topic __cluster_metadata is prohibited.",
    ),
    _named("", "the empty string is not allowed"),
    _named("..", "'..' is not allowed"),
    _named("a b", ODD_CHARACTERS),
    _named("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
    (new_topic("mess_ages"), 17, f"Topic 'mess_ages' collides with existing topic: {DOTTED}"),
    (new_topic(NEW, 0), 37, "Number of partitions was set to an invalid non-positive value."),
    (new_topic(NEW, -2), 37, "Number of partitions was set to an invalid non-positive value."),
    (
        new_topic(NEW, 1, 0),
        38,
        "Replication factor must be larger than 0, or -1 to use the default value.",
    ),
    (
        new_topic(NEW, 1, 5),
        38,
        "Unable to replicate the partition 5 time(s): The target replication factor of 5 cannot be"
        " reached because only 1 broker(s) are registered or some brokers have all their log"
        " directories cordoned.",
    ),
    (new_topic(NEW, 10_001), 44, "Excessively large number of partitions per request."),
    (
        new_topic(NEW, 1, -1, [(0, [1])]),
        42,
        "A manual partition assignment was specified, but numPartitions was not set to -1.",
    ),
    (
        new_topic(NEW, 1, 1, [(0, [1])]),
        42,
        "A manual partition assignment was specified, but replication factor was not set to -1.",
    ),
    (_placed((1, [1])), 39, "partitions should be a consecutive 0-based integer sequence"),
    (
        _placed((0, [1]), (0, [1])),
        39,
        "Found multiple manual partition assignments for partition 0",
    ),
    (_placed((0, [9])), 39, NO_BROKER_9),
    (_placed((0, [1, 1])), 39, TWICE_1),
    (_placed((0, [])), 39, NO_REPLICA),
    (
        new_topic(retention_ms=None, segment_ms=None),
        40,
        "Null value not supported for topic configs: retention.ms,segment.ms",
    ),
]

VALUES = [
    ({"no.such": "1"}, "Unknown topic config name: no.such"),
    ({"retention.ms": "x"}, "Not a number of type LONG"),
    ({"segment.bytes": "5000000000"}, "Not a number of type INT"),
    ({"retention.ms": "-5"}, "Value must be at least -1"),
    ({"min.cleanable.dirty.ratio": "2.0"}, "Value must be no more than 1"),
    ({"preallocate": "perhaps"}, "Expected value to be either true or false"),
    ({"cleanup.policy": "shred"}, "String must be one of: compact, delete"),
    (
        {"compression.type": "pigz"},
        "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
    ),
    ({"compression.gzip.level": "0"}, "Value must be between 1 and 9 or equal to -1"),
    (
        {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
    ),
    (
        {"remote.storage.enable": "true"},
        "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with"
        " remote log storage.",
    ),
]
"""Configs that a topic cannot have, and why; of one alone Kafka says which value it is about."""


def _invalid(configs: dict[str, str], reason: str) -> str:
    if len(configs) > 1 or reason.startswith(("Unknown", "Tiered")):
        return reason
    [(name, value)] = configs.items()
    return f"Invalid value {value} for configuration {name}: {reason}"


def _topic_cases() -> Iterator[Case]:
    for topic, code, text in NEW_TOPICS:
        request = creating.CreateTopicsRequest(topics=[topic], validate_only=True)
        yield Case(f"create {text[:60]}", request, ((code, text),))
    twice = creating.CreateTopicsRequest(topics=[new_topic(), new_topic()], validate_only=True)
    yield Case("create twice", twice, ((42, "Duplicate topic name."),))
    for configs, reason in VALUES:
        keyed = {key.replace(".", "_"): value for key, value in configs.items()}
        request = creating.CreateTopicsRequest(topics=[new_topic(**keyed)], validate_only=True)
        yield Case(f"create {reason[:60]}", request, ((40, _invalid(configs, reason)),))
    for count, assignments, code, text in (
        (2, None, 37, "Topic already has 2 partition(s)."),
        (1, None, 37, _no_increase(1)),
        (-1, None, 37, _no_increase(-1)),
        (
            4,
            [[1]],
            39,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (3, [[9]], 39, NO_BROKER_9),
        (3, [[1, 1]], 39, TWICE_1),
        (3, [[]], 39, NO_REPLICA),
    ):
        yield Case(
            f"grow to {count} {assignments}", _grown(WELL, count, assignments), ((code, text),)
        )
    yield Case("grow what there is not", _grown(ABSENT, 3, None), ((3, None),))
    twice = _grown(WELL, 5, None)
    twice.topics *= 2
    yield Case("grow twice", twice, ((42, "Duplicate topic name."),))
    for name, states, code, text in (
        ("name", [(ABSENT, Uuid.ZERO)], 3, NOT_HOSTED),
        ("id", [(None, UNKNOWN_ID)], 100, "This server does not host this topic ID."),
        ("neither", [(None, Uuid.ZERO)], 42, "Neither topic name nor id were specified."),
        ("both", [("x", UNKNOWN_ID)], 42, "You may not specify both topic name and topic id."),
        ("name twice", [(ABSENT, Uuid.ZERO)] * 2, 42, "Duplicate topic name."),
        ("id twice", [(None, UNKNOWN_ID)] * 2, 42, "Duplicate topic id."),
    ):
        topics = [deleting.DeleteTopicState(name=one, topic_id=id_) for one, id_ in states]
        request = deleting.DeleteTopicsRequest(topics=topics, timeout_ms=10_000)
        yield Case(f"delete by {name}", request, ((code, text),))


def _no_increase(count: int) -> str:
    return f"The topic {WELL} currently has 2 partition(s); {count} would not be an increase."


def _grown(
    name: str, count: int, assignments: list[list[int]] | None
) -> growing.CreatePartitionsRequest:
    placed = None
    if assignments is not None:
        placed = [growing.CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    topic = growing.CreatePartitionsTopic(name=name, count=count, assignments=placed)
    return growing.CreatePartitionsRequest(topics=[topic], timeout_ms=10_000, validate_only=True)


# -- configs -------------------------------------------------------------------------------------

Changes = list[tuple[str, int, str | None]]


def change(kind: int, name: str, changes: Changes) -> changing.IncrementalAlterConfigsRequest:
    """Single changes."""
    configs = [
        changing.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = changing.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=configs
    )
    return changing.IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def replace(kind: int, name: str, changes: Changes) -> replacing.AlterConfigsRequest:
    """The same as all that the resource has."""
    configs = [replacing.AlterableConfig(name=key, value=value) for key, _, value in changes]
    resource = replacing.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=configs
    )
    return replacing.AlterConfigsRequest(resources=[resource], validate_only=True)


FIXED = "Cannot update these configs dynamically: "
DUPLICATE = "Error due to duplicate config keys"
NULLS = "Null value not supported for : "
RETENTION = "log.retention.ms"

OF_BOTH: list[tuple[int, str, dict[str, str | None], int, str]] = [
    (TOPIC, "", {"retention.ms": "5"}, 42, "Default topic resources are not allowed."),
    (TOPIC, "a b", {"retention.ms": "5"}, 17, f"Topic name is invalid: {ODD_CHARACTERS}"),
    (TOPIC, ABSENT, {"retention.ms": "5"}, 3, f"The topic '{ABSENT}' does not exist."),
    (
        TOPIC,
        WELL,
        {"retention.ms": None, "segment.ms": None},
        42,
        f"{NULLS}retention.ms, segment.ms",
    ),
    (BROKER, "1", {"num.partitions": "3", "node.id": "3"}, 42, f"{FIXED}[node.id, num.partitions]"),
    (BROKER, "", {"num.partitions": "3"}, 42, f"{FIXED}[num.partitions]"),
    (
        BROKER,
        "",
        {"listeners": "PLAINTEXT://:9092"},
        42,
        "Cannot update these configs at default cluster level, broker id must be specified:"
        " [listeners]",
    ),
    (BROKER, "1", {RETENTION: None}, 42, f"{NULLS}{RETENTION}"),
    (
        BROKER,
        "1",
        {RETENTION: "x"},
        42,
        f"Invalid value x for configuration {RETENTION}: Not a number of type LONG",
    ),
    (
        BROKER,
        "1",
        {"compression.type": "pigz"},
        42,
        "Invalid value pigz for configuration compression.type: String must be one of:"
        " uncompressed, zstd, lz4, snappy, gzip, producer",
    ),
    (BROKER, "2", {RETENTION: "5"}, 42, "Unexpected broker id, expected 1, but received 2"),
    (BROKER, "x", {RETENTION: "5"}, 42, "Node id must be an integer, but it is: x"),
    (99, "x", {RETENTION: "5"}, 42, "Unknown resource type 99"),
]

OF_CHANGES: list[tuple[int, str, Changes, int, str]] = [
    (
        TOPIC,
        WELL,
        [("retention.ms", APPEND, "1")],
        40,
        "Can't APPEND to key retention.ms because its type is not LIST.",
    ),
    (
        TOPIC,
        WELL,
        [("no.such", SUBTRACT, "1")],
        40,
        "Can't SUBTRACT to key no.such because its type is not LIST.",
    ),
    (
        TOPIC,
        WELL,
        [("cleanup.policy", APPEND, "shred")],
        40,
        "Invalid value shred for configuration cleanup.policy: String must be one of: compact,"
        " delete",
    ),
    (
        BROKER,
        "1",
        [(RETENTION, APPEND, "1")],
        40,
        f"Config value append is not allowed for config key: {RETENTION}",
    ),
    (BROKER, "1", [("no.such", SUBTRACT, "1")], 40, "Unknown config name: no.such"),
    (BROKER, "1", [(RETENTION, 9, "1")], 42, "Unknown operations type 9"),
    (LOGGER, "1", [("no.such.logger", SET, "INFO")], 40, "Logger no.such.logger does not exist!"),
    (
        LOGGER,
        "1",
        [("root", SET, "LOUD")],
        40,
        "Cannot set the log level of root to LOUD as it is not a supported log level. Valid log"
        " levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
    ),
    (
        LOGGER,
        "1",
        [("root", APPEND, "INFO")],
        42,
        "APPEND operation is not allowed for the BROKER_LOGGER resource",
    ),
    (
        LOGGER,
        "1",
        [("root", DELETE, None)],
        42,
        "Removing the log level of the root logger is not allowed",
    ),
    (LOGGER, "1", [("root", SET, "INFO"), ("root", SET, "WARN")], 42, DUPLICATE),
    (LOGGER, "2", [("root", SET, "INFO")], 42, "Unexpected node id. Expected 1, but received 2"),
    (LOGGER, "", [("root", SET, "INFO")], 42, "Node id must be an integer, but it is: "),
]

DESCRIBED = [
    (TOPIC, "", 17, "Topic name is invalid: the empty string is not allowed"),
    (TOPIC, "a b", 17, f"Topic name is invalid: {ODD_CHARACTERS}"),
    (BROKER, "2", 42, "Unexpected broker id, expected 1 or empty string, but received 2"),
    (BROKER, "x", 42, "Broker id must be an integer, but it is: x"),
    (LOGGER, "2", 42, "Unexpected broker id, expected 1 but received 2"),
    (LOGGER, "", 42, "Broker id must not be empty"),
]


def _config_cases() -> Iterator[Case]:
    for of in (change, replace):
        for kind, resource, configs, code, text in OF_BOTH:
            changes: Changes = [(key, SET, value) for key, value in configs.items()]
            yield Case(
                f"{of.__name__} {kind} {resource} {text[:60]}",
                of(kind, resource, changes),
                ((code, text),),
            )
        for kind, resource, key in ((TOPIC, WELL, "retention.ms"), (BROKER, "1", RETENTION)):
            request = of(kind, resource, [(key, SET, "5"), (key, SET, "6")])
            yield Case(f"{of.__name__} {kind} {DUPLICATE}", request, ((42, DUPLICATE),))
        for values, reason in VALUES:
            request = of(TOPIC, WELL, [(key, SET, value) for key, value in values.items()])
            text = _invalid(values, reason)
            yield Case(f"{of.__name__} {reason[:60]}", request, ((40, text),))
        for threads, reason in (
            (100, "value should not be greater than double the current value 8"),
            (1, "value should be at least half the current value 8"),
        ):
            yield Case(
                f"{of.__name__} {threads} threads",
                of(BROKER, "1", [("num.io.threads", SET, str(threads))]),
                (
                    (
                        42,
                        "Dynamic thread count update validation failed for"
                        f" num.io.threads={threads}, {reason}",
                    ),
                ),
                is_part=True,
            )
    for kind, resource, several, code, text in OF_CHANGES:
        request = change(kind, resource, several)
        yield Case(f"change {kind} {resource} {text[:60]}", request, ((code, text),))
    logger = replace(LOGGER, "1", [("root", SET, "INFO")])
    yield Case("replace levels of loggers", logger, ((42, "Unknown resource type 8"),))
    for kind, resource, code, text in DESCRIBED:
        asked = describing.DescribeConfigsResource(
            resource_type=kind, resource_name=resource, configuration_keys=None
        )
        request = describing.DescribeConfigsRequest(resources=[asked])
        yield Case(f"describe {kind} {text[:60]}", request, ((code, text),))


# -- partitions, features, the cluster -----------------------------------------------------------


def _moved(name: str, index: int, replicas: list[int] | None) -> Message:
    partition = moving.ReassignablePartition(partition_index=index, replicas=replicas)
    topic = moving.ReassignableTopic(name=name, partitions=[partition])
    return moving.AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=10_000)


def _elected(name: str, index: int, kind: int) -> Message:
    partitions = [electing.TopicPartitions(topic=name, partitions=[index])]
    return electing.ElectLeadersRequest(
        election_type=kind, topic_partitions=partitions, timeout_ms=10_000
    )


NOT_NEEDED = "Leader election not needed for topic partition."


def _partition_cases() -> Iterator[Case]:
    for name, index, replicas, code, text in (
        (ABSENT, 0, [1], 3, f"Unable to find a topic named {ABSENT}."),
        (WELL, 9, [1], 3, f"Unable to find partition {WELL}:9."),
        (WELL, 0, None, 85, None),
        (WELL, 0, [], 39, NO_REPLICA),
        (WELL, 0, [1, 1], 39, TWICE_1),
        (WELL, 0, [9], 39, NO_BROKER_9),
    ):
        yield Case(
            f"move {name}-{index} to {replicas}", _moved(name, index, replicas), ((code, text),)
        )
    for name, index, kind, answers in (
        (ABSENT, 0, 0, [(3, f"No such topic as {ABSENT}")]),
        (WELL, 9, 0, [(3, f"No such partition as {WELL}-9")]),
        (WELL, 0, 0, [(84, NOT_NEEDED)]),
        (WELL, 0, 1, [(84, NOT_NEEDED)]),
        (WELL, 0, 9, [(42, "Unknown election type 9"), (42, None)]),
    ):
        yield Case(f"elect {name}-{index} {kind}", _elected(name, index, kind), tuple(answers))


def _invalid_update(feature: str, level: int, why: str) -> str:
    return f"Invalid update version {level} for feature {feature}. {why}"


WITHOUT_TYPE = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe"
    " or unsafe downgrade."
)
KIND_UNKNOWN = "The controller does not support the given upgrade type."
TO_20 = "Unsupported metadata.version downgrade from 33 to 20. "
FEATURES = [
    ("no.such", 1, UPGRADE, "Local controller 1 does not support this feature."),
    (VERSION_FEATURE, -1, UPGRADE, "A feature version cannot be less than 0."),
    (VERSION_FEATURE, 20, UPGRADE, WITHOUT_TYPE),
    (VERSION_FEATURE, 20, 0, KIND_UNKNOWN),
    (VERSION_FEATURE, 20, 9, KIND_UNKNOWN),
    ("kraft.version", 9, UPGRADE, "Local controller 1 only supports versions 0-1"),
    ("transaction.version", 9, UPGRADE, "Local controller 1 only supports versions 0-2"),
    ("transaction.version", 1, UPGRADE, WITHOUT_TYPE),
]


def _feature_cases() -> Iterator[Case]:
    texts = [
        (name, level, kind, _invalid_update(name, level, why))
        for name, level, kind, why in FEATURES
    ]
    texts += [
        (
            VERSION_FEATURE,
            20,
            SAFE_DOWNGRADE,
            f"{TO_20}Refusing to perform the requested downgrade because it might delete metadata"
            " information.",
        ),
        (
            VERSION_FEATURE,
            20,
            UNSAFE_DOWNGRADE,
            f"{TO_20}Unsafe metadata downgrade is not supported in this version.",
        ),
    ]
    for feature, level, kind, text in texts:
        update = updating.FeatureUpdateKey(
            feature=feature, max_version_level=level, upgrade_type=kind
        )
        request = updating.UpdateFeaturesRequest(
            feature_updates=[update], validate_only=True, timeout_ms=10_000
        )
        whole = (
            f"The update failed for all features since the following feature had an error: {text}"
        )
        yield Case(f"update {feature} to {level}, type {kind}", request, ((95, whole),))


def _cluster_cases() -> Iterator[Case]:
    yield Case(
        "unregister",
        unregistering.UnregisterBrokerRequest(broker_id=77),
        ((102, "Broker ID 77 is not currently registered"),),
    )
    yield Case(
        "describe controllers",
        cluster.DescribeClusterRequest(endpoint_type=2),
        (
            (
                114,
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of"
                " type CONTROLLER",
            ),
        ),
    )
    yield Case(
        "describe nodes of no type",
        cluster.DescribeClusterRequest(endpoint_type=3),
        ((115, "Unsupported endpoint type 3"),),
    )
    partition = quorum.PartitionDataRequest(partition_index=0)
    topic = quorum.TopicDataRequest(topic_name=WELL, partitions=[partition])
    yield Case(
        "describe no quorum", quorum.DescribeQuorumRequest(topics=[topic]), ((3, NOT_HOSTED),)
    )
    yield from _voter_cases()


def _voter_cases() -> Iterator[Case]:
    listener = adding.Listener(name="CONTROLLER", host="127.0.0.1", port=1)
    other = 'The given id "other" doesn\'t match the cluster id "{cluster}"'
    for cluster_id, voter_id, code, text in (
        ("other", 9, 104, other),
        (None, -9, 42, "{Doing} voter request didn't include a valid voter"),
        (
            None,
            9,
            35,
            "Cluster doesn't support {doing} voter because the kraft.version feature is 0",
        ),
    ):
        added = adding.AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=1000,
            voter_id=voter_id,
            voter_directory_id=UNKNOWN_ID,
            listeners=[listener],
        )
        said = text.replace("{doing}", "adding").replace("{Doing}", "Add")
        yield Case(f"add voter {voter_id} {cluster_id}", added, ((code, said),))
        removed = removing.RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=UNKNOWN_ID
        )
        said = text.replace("{doing}", "removing").replace("{Doing}", "Remove")
        yield Case(f"remove voter {voter_id} {cluster_id}", removed, ((code, said),))


# -- records -------------------------------------------------------------------------------------


def _produced(name: str, *records: tuple[bytes | None, int]) -> Message:
    builder = BatchBuilder()
    for key, timestamp_ms in records:
        builder.append(key, b"value", timestamp_ms=timestamp_ms)
    partition = producing.PartitionProduceData(index=0, records=builder.build())
    topic = producing.TopicProduceData(name=name, partition_data=[partition])
    return producing.ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])


KEYLESS = f"Compacted topic cannot accept message without key in topic partition {COMPACTED}-0"


def _keyless(count: int, *listed: int) -> str:
    errors = ", ".join(f"RecordError(batchIndex={index}, message='{KEYLESS}')" for index in listed)
    return (
        f"One or more records have been rejected due to {count} record errors in total, and only"
        f" showing the first three errors at most: [{errors}]"
    )


def _out_of_range(timestamp_ms: int, offset: int) -> str:
    return (
        f"Timestamp {timestamp_ms} of message with offset {offset} is out of range. The timestamp"
        " should be within [EARLIEST, LATEST]"
    )


def _record_cases() -> Iterator[Case]:
    when = "One or more records have been rejected due to invalid timestamp"
    yield Case(
        "records of other times",
        _produced(TIMELY, (b"k", LATE_MS), (b"k", -1), (b"k", 5)),
        ((32, when), (0, _out_of_range(LATE_MS, 0)), (2, _out_of_range(5, 2))),
        9,
    )
    yield Case(
        "a record without a key",
        _produced(COMPACTED, (b"k", -1), (None, -1)),
        ((87, _keyless(1, 1)), (1, KEYLESS)),
        9,
    )
    yield Case(
        "five records without a key",
        _produced(COMPACTED, *[(None, -1)] * 5),
        ((87, _keyless(5, 0, 1, 2)), *((index, KEYLESS) for index in range(5))),
        9,
    )
    for name, code, text in (
        ("a b", 17, f"Topic name is invalid: {ODD_CHARACTERS}"),
        (ABSENT, 3, NOT_HOSTED),
    ):
        asked = producers.TopicRequest(name=name, partition_indexes=[0])
        request = producers.DescribeProducersRequest(topics=[asked])
        yield Case(f"producers of {name}", request, ((code, text),))


_MAKERS: tuple[Callable[[], Iterator[Case]], ...] = (
    _topic_cases,
    _config_cases,
    _partition_cases,
    _feature_cases,
    _cluster_cases,
    _record_cases,
)
CASES = [case for make in _MAKERS for case in make()]
"""Every case."""


def check(case: Case, response: Struct, cluster_id: str) -> None:
    """Assert that the response has the case's errors, and no others."""
    expected = sorted(
        (
            (code, None if text is None else text.replace("{cluster}", cluster_id))
            for code, text in case.answers
        ),
        key=str,
    )
    found = answers_in(response)
    if case.is_part:
        [(code, text)], [(found_code, found_text)] = expected, found
        assert code == found_code
        assert text is not None and found_text is not None and text in found_text
    else:
        assert found == expected
