"""What a transactional producer does about every error: the table against Kafka's own rows."""

from __future__ import annotations

import itertools

import pytest

from fencepost.client.protocol.transaction_errors import (
    DIFFERING,
    OTHERWISE,
    Kind,
    Reaction,
    reaction_to,
    worst,
)
from fencepost.wire.errors import ErrorCode as E

R = Reaction
REQUESTS = [kind for kind in Kind if kind is not Kind.PRODUCE]
TO_COORDINATORS = [kind for kind in REQUESTS if kind is not Kind.FIND_COORDINATOR]
# Code by code what Kafka's Java producer does, in the order of `TO_COORDINATORS`: init, partitions,
# offsets, offset commit, commit, abort.
JAVA = {
    E.NONE: (R.DONE,) * 6,
    E.COORDINATOR_LOAD_IN_PROGRESS: (R.AGAIN,) * 6,
    E.COORDINATOR_NOT_AVAILABLE: (R.FIND_COORDINATOR,) * 6,
    E.NOT_COORDINATOR: (R.FIND_COORDINATOR,) * 6,
    E.CONCURRENT_TRANSACTIONS: (R.SOON,) * 6,
    E.UNKNOWN_TOPIC_OR_PARTITION: (R.AGAIN,) * 6,
    E.NOT_ENOUGH_REPLICAS: (R.AGAIN,) * 6,
    E.REQUEST_TIMED_OUT: (R.AGAIN, R.AGAIN, R.AGAIN, R.FIND_COORDINATOR, R.AGAIN, R.AGAIN),
    E.INVALID_PRODUCER_EPOCH: (R.FENCED,) * 6,
    E.PRODUCER_FENCED: (R.FENCED,) * 6,
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (R.FATAL,) * 6,
    E.INVALID_TXN_STATE: (R.FATAL,) * 6,
    E.INVALID_PRODUCER_ID_MAPPING: (R.FATAL, R.ABORT, R.ABORT, R.FATAL, R.FATAL, R.FATAL),
    E.UNKNOWN_PRODUCER_ID: (R.FATAL, R.ABORT, R.ABORT, R.FATAL, R.ABORT, R.FATAL),
    E.TRANSACTION_ABORTABLE: (R.ABORT, R.ABORT, R.ABORT, R.ABORT, R.ABORT, R.FATAL),
    E.TOPIC_AUTHORIZATION_FAILED: (R.FATAL, R.ABORT, R.FATAL, R.FATAL, R.FATAL, R.FATAL),
    E.OPERATION_NOT_ATTEMPTED: (R.FATAL, R.ABORT, R.FATAL, R.FATAL, R.FATAL, R.FATAL),
    E.GROUP_AUTHORIZATION_FAILED: (R.FATAL, R.ABORT, R.ABORT, R.ABORT, R.FATAL, R.FATAL),
    E.FENCED_INSTANCE_ID: (R.FATAL, R.ABORT, R.FATAL, R.ABORT, R.FATAL, R.FATAL),
    E.UNKNOWN_MEMBER_ID: (R.FATAL, R.ABORT, R.FATAL, R.ABORT, R.FATAL, R.FATAL),
    E.ILLEGAL_GENERATION: (R.FATAL, R.ABORT, R.FATAL, R.ABORT, R.FATAL, R.FATAL),
    E.REBALANCE_IN_PROGRESS: (R.FATAL, R.ABORT, R.FATAL, R.ABORT, R.FATAL, R.FATAL),
    E.STALE_MEMBER_EPOCH: (R.FATAL, R.ABORT, R.FATAL, R.ABORT, R.FATAL, R.FATAL),
    E.INVALID_TRANSACTION_TIMEOUT: (R.FATAL, R.ABORT, R.FATAL, R.FATAL, R.FATAL, R.FATAL),
    E.UNKNOWN_SERVER_ERROR: (R.FATAL, R.ABORT, R.FATAL, R.FATAL, R.FATAL, R.FATAL),
    E.CLUSTER_AUTHORIZATION_FAILED: (R.FATAL,) * 6,
    E.UNSUPPORTED_VERSION: (R.FATAL,) * 6,
}


@pytest.mark.parametrize("code", JAVA, ids=lambda code: code.name)
def test_coordinators_answers_mean_what_they_mean_to_kafkas_producer(code: E):
    assert tuple(reaction_to(kind, code) for kind in TO_COORDINATORS) == JAVA[code]


@pytest.mark.parametrize(
    ("code", "reaction"),
    [
        (E.NONE, R.DONE),
        (E.INVALID_PRODUCER_EPOCH, R.ABORT),  # KIP-588: EndTxn says whether for good
        (E.PRODUCER_FENCED, R.FENCED),
        (E.INVALID_TXN_STATE, R.ABORT),
        (E.TRANSACTION_ABORTABLE, R.ABORT),
        (E.INVALID_PRODUCER_ID_MAPPING, R.FATAL),
        (E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, R.FATAL),
        (E.CLUSTER_AUTHORIZATION_FAILED, R.FATAL),
        (E.OUT_OF_ORDER_SEQUENCE_NUMBER, R.ABORT),
        (E.MESSAGE_TOO_LARGE, R.ABORT),
        (E.TOPIC_AUTHORIZATION_FAILED, R.ABORT),
        (E.NOT_ENOUGH_REPLICAS, R.AGAIN),
    ],
    ids=lambda value: value.name,
)
def test_answers_to_produce(code: E, reaction: R):
    assert reaction_to(Kind.PRODUCE, code) is reaction


@pytest.mark.parametrize(
    ("code", "reaction"),
    [
        (E.COORDINATOR_NOT_AVAILABLE, R.AGAIN),
        (E.GROUP_AUTHORIZATION_FAILED, R.ABORT),
        (E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, R.FATAL),
        (E.INVALID_REQUEST, R.FATAL),
    ],
    ids=lambda value: value.name,
)
def test_answers_to_find_coordinator(code: E, reaction: R):
    assert reaction_to(Kind.FIND_COORDINATOR, code) is reaction


def test_every_kind_has_its_rows():
    assert set(DIFFERING) == set(OTHERWISE) == set(Kind)
    assert all(reaction_to(kind, 31_000) is OTHERWISE[kind] for kind in Kind)


def test_the_gravest_error_of_an_answer_counts_and_what_was_not_attempted_only_alone():
    assert worst([]) == (R.DONE, 0)
    skipped = (R.ABORT, int(E.OPERATION_NOT_ATTEMPTED))
    again = (R.AGAIN, int(E.UNKNOWN_TOPIC_OR_PARTITION))
    assert worst([skipped, again, skipped]) == again
    assert worst([skipped, (R.DONE, 0)]) == skipped
    assert worst([(R.ABORT, 29), (R.FENCED, 90), again]) == (R.FENCED, 90)
    order = [R.DONE, R.AGAIN, R.SOON, R.FIND_COORDINATOR, R.ABORT, R.FENCED, R.FATAL]
    assert [worst([(a, 1), (b, 2)])[0] for a, b in itertools.pairwise(order)] == order[1:]
