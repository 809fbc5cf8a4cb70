"""What becomes of a topology of a streams group, given the topics of the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.group.streams.configuring import (
    INCORRECTLY_PARTITIONED_TOPICS,
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
    BrokenTopologyError,
    ConfiguredTopology,
    InvalidTopologyError,
    _Configuration,
    configure,
    creatable,
)
from fencepost.machines.group.streams.topology import MalformedTopologyError, Topology
from fencepost.wire.api.streams_group_heartbeat import Subtopology

from .streams_groups.world import image_of, subtopology, topology


def configured(*subtopologies: Subtopology, **topics: int) -> ConfiguredTopology:
    """The topology of these, in a cluster with these topics."""
    return configure(Topology.of_request(topology(*subtopologies)), image_of(**topics))


def missing(result: ConfiguredTopology) -> dict[str, int]:
    """The partitions of internal topics to create."""
    return {topic.name: topic.partitions for topic in result.to_create}


def task_counts(result: ConfiguredTopology) -> dict[str, int]:
    assert result.subtopologies is not None
    return {id_: one.task_count for id_, one in result.subtopologies.items()}


WORDS = (
    subtopology("0", ["in"], sinks=["rep"]),
    subtopology("1", [], repartition={"rep": 0}, changelogs=["log"]),
)


def test_a_subtopology_has_as_many_tasks_as_its_largest_source_partitions() -> None:
    result = configured(subtopology("0", ["a", "b"]), a=2, b=5)
    assert result.is_ready and task_counts(result) == {"0": 5}


@pytest.mark.parametrize(
    ("sources", "detail"),
    [
        (["b", "in"], "Source topics b are missing."),
        (["d", "c", "b"], "Source topics b, c, d are missing."),
        (list("fedcb"), "Source topics b, c, d and 2 additional topics are missing."),
    ],
)
def test_missing_source_topics_are_named(sources: list[str], detail: str) -> None:
    result = configured(subtopology("0", sources), **{"in": 1})
    assert result.status == (MISSING_SOURCE_TOPICS, detail)
    assert result.subtopologies is None and not result.to_create


def test_missing_internal_topics_are_to_be_created() -> None:
    result = configured(*WORDS, **{"in": 3})
    assert result.status == (MISSING_INTERNAL_TOPICS, "Internal topics are missing: log, rep")
    assert missing(result) == {"log": 3, "rep": 3}
    assert task_counts(result) == {"0": 3, "1": 3}
    made = creatable(result.to_create[0])
    assert (made.name, made.num_partitions, made.replication_factor) == ("log", 3, -1)


def test_a_topology_whose_topics_exist_is_ready() -> None:
    assert configured(*WORDS, log=3, rep=3, **{"in": 3}).is_ready


def test_an_internal_topic_of_another_size_does_not_fit() -> None:
    result = configured(*WORDS, log=2, rep=3, **{"in": 3})
    assert result.status == (
        INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic log has different number of partitions: expected 3, found 2",
    )


def test_partitions_go_along_a_chain_of_repartition_topics_in_any_order() -> None:
    chain = [
        subtopology("2", [], repartition={"r1": 0}, sinks=["r2"]),
        subtopology("1", [], repartition={"r0": 0}, sinks=["r1"]),
        subtopology("0", ["in"], sinks=["r0"]),
        subtopology("3", [], repartition={"r2": 0}),
    ]
    assert missing(configured(*chain, **{"in": 6})) == {"r0": 6, "r1": 6, "r2": 6}


def test_a_fixed_number_of_partitions_goes_before_the_sources() -> None:
    result = configured(
        subtopology("0", ["in"], sinks=["rep"]),
        subtopology("1", [], repartition={"rep": 7}, changelogs=["log"]),
        **{"in": 3},
    )
    assert missing(result) == {"log": 7, "rep": 7}


def test_a_repartition_topic_has_the_partitions_of_the_source_that_it_is_joined_with() -> None:
    result = configured(
        subtopology("0", ["in"], sinks=["rep"]),
        subtopology("1", ["table"], repartition={"rep": 0}, copartition=[([0], [0])]),
        **{"in": 3, "table": 5},
    )
    assert missing(result) == {"rep": 5}


def test_joined_source_topics_must_have_equally_many_partitions() -> None:
    result = configured(subtopology("0", ["a", "b"], copartition=[([0, 1], [])]), a=2, b=3)
    assert result.status == (
        INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [{a=2, b=3}]",
    )


def test_a_fixed_repartition_topic_must_fit_the_source_that_it_is_joined_with() -> None:
    result = configured(
        subtopology("0", ["in"], sinks=["rep"]),
        subtopology("1", ["table"], repartition={"rep": 4}, copartition=[([0], [0])]),
        **{"in": 3, "table": 5},
    )
    assert result.status == (
        INCORRECTLY_PARTITIONED_TOPICS,
        "Number of partitions [4] of repartition topic [rep] doesn't match number of partitions"
        " [5] of the source topic.",
    )


def joined(**repartition: int) -> ConfiguredTopology:
    """Repartition topics that are joined with each other, of sources of 3 and 5 partitions."""
    return configured(
        subtopology("0", ["in"], sinks=["r0"]),
        subtopology("1", ["more"], sinks=["r1"]),
        subtopology("2", [], repartition=repartition, copartition=[([], [0, 1])]),
        **{"in": 3, "more": 5},
    )


def test_joined_repartition_topics_have_the_partitions_of_the_largest() -> None:
    assert missing(joined(r0=0, r1=0)) == {"r0": 5, "r1": 5}


def test_joined_repartition_topics_follow_the_fixed_one() -> None:
    assert missing(joined(r0=4, r1=0)) == {"r0": 4, "r1": 4}


def test_fixed_repartition_topics_that_are_joined_must_be_equal() -> None:
    assert joined(r0=4, r1=6).status == (
        INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [{r0=4, r1=6}]",
    )


INVALID = {
    "a loop": (
        [
            subtopology("0", [], repartition={"a": 0}, sinks=["b"]),
            subtopology("1", [], repartition={"b": 0}, sinks=["a"]),
        ],
        "Failed to compute number of partitions for all repartition topics. There may be loops in"
        " the topology that cannot be resolved.",
    ),
    "a source that is no sink": (
        [subtopology("0", ["in"], repartition={"rep": 0})],
        "Failed to compute number of partitions for all repartition topics, because a repartition"
        " source topic is never used as a sink topic.",
    ),
    "nothing to read": ([subtopology("0", [])], "No source topics found for subtopology 0"),
}


@pytest.mark.parametrize(("subtopologies", "words"), INVALID.values(), ids=INVALID)
def test_a_topology_that_no_topics_can_make_run_is_invalid(
    subtopologies: list[Subtopology], words: str
) -> None:
    with pytest.raises(InvalidTopologyError) as raised:
        configured(*subtopologies, **{"in": 1})
    assert str(raised.value) == words


@pytest.mark.parametrize(
    "subtopologies",
    [
        [subtopology("0", ["in"], copartition=[([1], [])])],
        [subtopology("0", ["in"], copartition=[([-1], [])])],
        [subtopology("0", ["in"], copartition=[([], [0])])],
        [subtopology("0", ["in"], repartition={"rep": -2})],
    ],
)
def test_a_topology_that_contradicts_itself_is_broken(subtopologies: list[Subtopology]) -> None:
    with pytest.raises(BrokenTopologyError):
        configured(*subtopologies, **{"in": 1})


@pytest.mark.parametrize(
    "sent", [topology(subtopology("0"), subtopology("0")), topology(epoch=-1)], ids=["ids", "epoch"]
)
def test_subtopologies_have_ids_of_their_own_and_topologies_an_epoch(sent: Any) -> None:
    with pytest.raises(MalformedTopologyError):
        Topology.of_request(sent)


def test_a_long_chain_in_the_worst_order_takes_no_longer_than_its_length() -> None:
    """Every subtopology waits for the one behind it in the order of ids."""
    length = 3_000
    parts: list[Any] = [
        subtopology(f"{number:05}", [], repartition={f"r{number + 1}": 0}, sinks=[f"r{number}"])
        for number in range(length)
    ]
    parts.append(subtopology(f"{length:05}", ["in"], sinks=[f"r{length}"]))
    result = configured(*parts, **{"in": 2})
    assert len(result.to_create) == length and set(missing(result).values()) == {2}


def test_equal_topologies_are_equal_whatever_the_order_of_their_subtopologies() -> None:
    ahead, behind = topology(*WORDS), topology(*reversed(WORDS))
    assert Topology.of_request(ahead) == Topology.of_request(behind)
    assert Topology.of_request(ahead) != Topology.of_request(topology(*WORDS, epoch=1))
    assert Topology.of_request(ahead) != Topology.of_request(topology(WORDS[0]))


def test_many_copartition_groups_of_fixed_topics_cost_no_more_than_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each group looked at all fixed topics: 2,000 of both took a broker 18 seconds."""
    count = 500
    looked_at: list[str] = []
    known_count_of = _Configuration._known_count_of

    def counted(self: _Configuration, topic: str) -> int:
        looked_at.append(topic)
        return known_count_of(self, topic)

    monkeypatch.setattr(_Configuration, "_known_count_of", counted)
    result = configured(
        *(
            subtopology(
                str(number),
                ["in"],
                sinks=[f"rep{number}"],
                repartition={f"rep{number}": 4},
                copartition=[([], [0])],
            )
            for number in range(count)
        ),
        **{"in": 4},
    )
    assert len(missing(result)) == count
    assert len(looked_at) < 10 * count


def test_subtopologies_are_in_the_order_of_their_numbers() -> None:
    sent = topology(*(subtopology(str(number), ["in"]) for number in (10, 9, 0, 11)))
    assert list(Topology.of_request(sent).subtopologies) == ["0", "9", "10", "11"]
