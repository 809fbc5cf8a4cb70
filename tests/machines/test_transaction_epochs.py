"""The arithmetic of producer ids and epochs, over all that there can be."""

from __future__ import annotations

from itertools import product

import pytest

from fencepost.machines.transaction.epochs import (
    EPOCH_MAX,
    EXHAUSTED,
    NEEDS_PRODUCER_ID,
    Claim,
    Identity,
    NeedsProducerId,
    claim_of,
    completed,
    ended,
    fenced,
    initialized,
)
from fencepost.wire.errors import ErrorCode

PID, OTHER, FRESH = 7, 8, 9
EPOCHS = [-1, 0, 1, 5, EXHAUSTED - 1, EXHAUSTED, EPOCH_MAX]
IDENTITIES = [
    Identity(PID, epoch, last_epoch, prev, next_id)
    for epoch, last_epoch, prev, next_id in product(
        EPOCHS, [-1, 0, 4, EXHAUSTED - 1, EXHAUSTED], [-1, PID, OTHER], [-1]
    )
]


def test_a_new_producer_gets_the_next_epoch_and_fences_every_other() -> None:
    for identity in IDENTITIES:
        after = initialized(identity, None, FRESH)
        assert isinstance(after, Identity)
        if identity.epoch >= EXHAUSTED:
            assert after == Identity(FRESH, 0, -1, PID)
        else:
            assert after == Identity(PID, identity.epoch + 1, -1, PID, -1)


@pytest.mark.parametrize("fresh", [None, FRESH])
def test_a_producer_is_never_given_the_last_epoch(fresh: int | None) -> None:
    for identity, expected in product(
        IDENTITIES, [None, *((pid, e) for pid in (PID, OTHER) for e in EPOCHS[1:])]
    ):
        after = initialized(identity, expected, fresh)
        if isinstance(after, Identity):
            assert 0 <= after.epoch <= EXHAUSTED
            assert after.producer_id == FRESH or after.epoch in (
                identity.epoch,
                identity.epoch + 1,
            )
        elif isinstance(after, NeedsProducerId):
            assert fresh is None and identity.is_exhausted
        else:
            assert after is ErrorCode.PRODUCER_FENCED


def test_a_producer_goes_on_after_an_error_and_may_ask_again() -> None:
    before = Identity(PID, 3, -1, PID)
    after = initialized(before, (PID, 3), None)
    assert after == Identity(PID, 4, 3, PID)
    assert initialized(after, (PID, 3), None) == after, "a retry does not bump"
    assert initialized(after, (PID, 2), None) is ErrorCode.PRODUCER_FENCED
    assert initialized(after, (OTHER, 4), None) is ErrorCode.PRODUCER_FENCED
    taken_over = initialized(after, None, None)
    assert isinstance(taken_over, Identity) and taken_over.last_epoch == -1
    assert initialized(taken_over, (PID, 4), None) is ErrorCode.PRODUCER_FENCED


def test_a_producer_whose_epochs_are_used_up_gets_an_id_and_may_ask_again() -> None:
    before = Identity(PID, EXHAUSTED, EXHAUSTED - 1, PID)
    assert initialized(before, (PID, EXHAUSTED), None) is NEEDS_PRODUCER_ID
    after = initialized(before, (PID, EXHAUSTED), FRESH)
    assert after == Identity(FRESH, 0, EXHAUSTED, PID)
    again = initialized(after, (PID, EXHAUSTED), None)
    assert isinstance(again, Identity) and (again.producer_id, again.epoch) == (FRESH, 0)
    assert initialized(after, (PID, EXHAUSTED - 1), None) is ErrorCode.PRODUCER_FENCED
    assert initialized(after, (PID, 0), None) is ErrorCode.PRODUCER_FENCED, (
        "the epoch of another id"
    )
    repeated = initialized(before, (PID, EXHAUSTED - 1), None)
    assert isinstance(repeated, Identity) and repeated.epoch == EXHAUSTED


def test_a_fence_at_the_last_epoch_leads_to_a_new_id() -> None:
    fence = Identity(PID, EPOCH_MAX, EXHAUSTED, PID)
    assert initialized(fence, (PID, EXHAUSTED), FRESH) == Identity(FRESH, 0, EPOCH_MAX, PID)
    assert initialized(fence, None, FRESH) == Identity(FRESH, 0, -1, PID)


def test_version_2_bumps_once_at_every_end_and_never_past_the_last() -> None:
    for identity in IDENTITIES:
        if identity.epoch < 0:
            continue
        prepared = ended(identity, FRESH)
        assert isinstance(prepared, Identity)
        assert prepared.epoch == min(identity.epoch + 1, EPOCH_MAX)
        assert prepared.last_epoch == identity.epoch
        assert prepared.next_producer_id == (FRESH if identity.is_exhausted else -1)
        over = completed(prepared, 2)
        assert isinstance(over, Identity) and over.next_producer_id == -1
        if identity.is_exhausted:
            assert over == Identity(FRESH, 0, identity.epoch, PID)
            assert ended(identity, None) is NEEDS_PRODUCER_ID
        else:
            assert (over.producer_id, over.epoch) == (PID, identity.epoch + 1)


def test_versions_0_and_1_keep_the_epoch_unless_they_fence() -> None:
    for identity, version in product(IDENTITIES, (0, 1)):
        over = completed(identity, version)
        assert isinstance(over, Identity)
        assert (over.producer_id, over.epoch, over.last_epoch) == (
            PID,
            identity.epoch,
            identity.last_epoch,
        )
        assert fenced(identity) == Identity(PID, min(identity.epoch + 1, EPOCH_MAX), -1, PID)


def test_a_next_id_that_was_lost_is_drawn_again() -> None:
    lost = Identity(PID, EPOCH_MAX, -1, -1, -1)
    assert completed(lost, 2) is NEEDS_PRODUCER_ID
    assert completed(lost, 2, FRESH) == Identity(FRESH, 0, -1, PID)
    assert completed(lost, 0) == Identity(PID, EPOCH_MAX, -1, PID)
    assert completed(lost._replace(next_producer_id=FRESH), 0) == Identity(PID, EPOCH_MAX, -1, PID)


@pytest.mark.parametrize(
    ("identity", "claims"),
    [
        (Identity(PID, 5, -1, PID), {(PID, 5): "CURRENT", (PID, 4): "RETRY", (PID, 3): "STALE"}),
        (Identity(PID, 5, -1, PID), {(PID, 6): "STALE", (OTHER, 5): "OTHER_ID"}),
        (
            Identity(PID, 0, EXHAUSTED, OTHER),
            {(OTHER, EXHAUSTED): "OVERFLOW_RETRY", (OTHER, EPOCH_MAX): "OTHER_ID"},
        ),
        (Identity(PID, 1, 0, OTHER), {(OTHER, EXHAUSTED): "OTHER_ID"}),
    ],
)
def test_a_claim(identity: Identity, claims: dict[tuple[int, int], str]) -> None:
    for named, claim in claims.items():
        assert claim_of(identity, *named) is Claim[claim]


def test_a_repeated_end_is_known_across_the_overflow() -> None:
    before = Identity(PID, EXHAUSTED, EXHAUSTED - 1, PID)
    prepared = ended(before, FRESH)
    assert isinstance(prepared, Identity)
    assert claim_of(prepared, PID, EXHAUSTED) is Claim.RETRY
    over = completed(prepared, 2)
    assert isinstance(over, Identity)
    assert claim_of(over, PID, EXHAUSTED) is Claim.OVERFLOW_RETRY
    assert claim_of(over, FRESH, 0) is Claim.CURRENT
