"""Producer ids and epochs of a transactional id: who may go on, who is fenced, what comes next.

Theory of operation
-------------------
A transactional id has one producer at a time, known by its producer id and epoch. A producer that
names an older epoch is fenced. All arithmetic about them is here, over `Identity` and nothing else:

* `initialized`: InitProducerId gives the id to a producer, in the next epoch;
* `ended`: with transaction version 2 (KIP-890) every end of a transaction begins the next epoch, so
  what a producer wrote for an earlier transaction is refused; the record that decides the end
  (PrepareCommit, PrepareAbort) already has it, and so have the markers;
* `fenced`: with version 0 the coordinator begins one for the abort that it decides by itself;
* `completed`: the transaction is over, and the producer goes on.

Epochs are int16. `EXHAUSTED` (32766) is the last that a producer is given: one more is kept for the
end or the fence (`EPOCH_MAX`). Then the producer gets a new id with epoch 0. A new id comes from
the controller and may have to be waited for, so it is a parameter, `fresh`; without one the answer
is `NEEDS_PRODUCER_ID`, and the same is asked again with one.

A producer that got no answer asks again, with what it knew before. `claim_of` distinguishes such a
retry from a producer that is out of date: it names the epoch before, or, if the epochs had just
been used up, the id before (`Claim.OVERFLOW_RETRY`).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from fencepost.wire.errors import ErrorCode

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
EPOCH_MAX: Final = (1 << 15) - 1
EXHAUSTED: Final = EPOCH_MAX - 1

BUMPS_FROM: Final = 2
"""The transaction version from which the end of a transaction begins the next epoch."""


class NeedsProducerId(Enum):
    """A type of one value, so that it can be distinguished from an `Identity`."""

    TOKEN = "needs a producer id"


NEEDS_PRODUCER_ID: Final = NeedsProducerId.TOKEN
"""There is no answer without a fresh producer id."""


class Identity(NamedTuple):
    """Who the producer of a transactional id is, was and will be."""

    producer_id: int
    epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    """The epoch before, if the same producer had it; not in the log: a new coordinator has -1."""
    prev_producer_id: int = NO_PRODUCER_ID
    """The id before the latest change, which often is the same one."""
    next_producer_id: int = NO_PRODUCER_ID
    """The id once the transaction is over, if the epochs of this one are used up."""

    @property
    def is_exhausted(self) -> bool:
        """Whether no producer may be given a further epoch."""
        return self.epoch >= EXHAUSTED


class Claim(Enum):
    """What a producer that names a producer id and an epoch is to a transactional id."""

    CURRENT = "current"
    RETRY = "retry"
    """The epoch before: the request that ended it comes again."""
    OVERFLOW_RETRY = "overflow retry"
    """The id before, with its last epoch: likewise."""
    STALE = "stale"
    """Another epoch of the present id."""
    OTHER_ID = "other id"


def claim_of(identity: Identity, producer_id: int, epoch: int) -> Claim:
    """What the producer that names these is to the transactional id."""
    if producer_id == identity.producer_id:
        if epoch == identity.epoch:
            return Claim.CURRENT
        return Claim.RETRY if epoch + 1 == identity.epoch else Claim.STALE
    is_before = producer_id == identity.prev_producer_id and epoch == EXHAUSTED
    return Claim.OVERFLOW_RETRY if is_before and identity.epoch == 0 else Claim.OTHER_ID


def initialized(
    identity: Identity, expected: tuple[int, int] | None, fresh: int | None
) -> Identity | ErrorCode | NeedsProducerId:
    """Who the producer is from now on that asks between transactions.

    `expected` is the (producer id, epoch) that it says it has (KIP-360); None is a new producer,
    which fences the one before. PRODUCER_FENCED if what it says is over.
    """
    if expected is not None and not may_go_on(identity, *expected):
        return ErrorCode.PRODUCER_FENCED
    expected_epoch = None if expected is None else expected[1]
    if identity.is_exhausted and expected_epoch in (None, identity.epoch):
        return _rotated(identity, fresh, keeps_last=expected is not None)
    bumped = identity._replace(epoch=identity.epoch + 1, prev_producer_id=identity.producer_id)
    if expected_epoch is None:
        return bumped._replace(last_epoch=NO_EPOCH)
    if identity.epoch in (NO_EPOCH, expected_epoch):
        return bumped._replace(last_epoch=identity.epoch)
    if expected_epoch == identity.last_epoch:
        if identity.epoch == EPOCH_MAX:  # the epoch of a fence, which no producer is given
            return _rotated(identity, fresh, keeps_last=True)
        return identity._replace(prev_producer_id=identity.producer_id)
    return ErrorCode.PRODUCER_FENCED


def ended(identity: Identity, fresh: int | None) -> Identity | NeedsProducerId:
    """The producer while its transaction ends, with version 2: in the next epoch.

    An epoch that is `EPOCH_MAX` already, by a mistake of older brokers, stays (KAFKA-20090).
    """
    if identity.is_exhausted and fresh is None:
        return NEEDS_PRODUCER_ID
    return Identity(
        identity.producer_id,
        min(identity.epoch + 1, EPOCH_MAX),
        last_epoch=identity.epoch,
        prev_producer_id=identity.producer_id,
        next_producer_id=fresh if identity.is_exhausted and fresh is not None else NO_PRODUCER_ID,
    )


def fenced(identity: Identity) -> Identity:
    """The producer while its transaction is aborted by the coordinator, with version 0 or 1.

    The new epoch is given to no producer, and a request with the one before is not taken for a
    retry.
    """
    return Identity(
        identity.producer_id,
        min(identity.epoch + 1, EPOCH_MAX),
        prev_producer_id=identity.producer_id,
    )


def unchanged(identity: Identity) -> Identity:
    """The producer goes on as it is."""
    return identity._replace(prev_producer_id=identity.producer_id)


def completed(
    identity: Identity, client_version: int, fresh: int | None = None
) -> Identity | NeedsProducerId:
    """The producer once all markers are written.

    Brokers of before KAFKA-20310 did not write the next id down: with the last epoch and without a
    next id, a fresh one takes its place.
    """
    if client_version < BUMPS_FROM:
        return unchanged(identity)._replace(next_producer_id=NO_PRODUCER_ID)
    next_id = identity.next_producer_id
    if next_id == NO_PRODUCER_ID and identity.epoch == EPOCH_MAX:
        if fresh is None:
            return NEEDS_PRODUCER_ID
        next_id = fresh
    if next_id == NO_PRODUCER_ID:
        return unchanged(identity)
    return Identity(
        next_id, 0, last_epoch=identity.last_epoch, prev_producer_id=identity.producer_id
    )


def may_go_on(identity: Identity, producer_id: int, epoch: int) -> bool:
    """Whether who names these can be the producer, or is asking again for what it was given."""
    if identity.epoch == NO_EPOCH or producer_id == identity.producer_id:
        return True
    return producer_id == identity.prev_producer_id and epoch >= EXHAUSTED


def _rotated(
    identity: Identity, fresh: int | None, *, keeps_last: bool
) -> Identity | NeedsProducerId:
    if fresh is None:
        return NEEDS_PRODUCER_ID
    return Identity(
        fresh,
        0,
        last_epoch=identity.epoch if keeps_last else NO_EPOCH,
        prev_producer_id=identity.producer_id,
    )
