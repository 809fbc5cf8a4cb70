"""`next_epoch`: what follows a group epoch, or the generation of a classic group.

They are 32 bits with a sign in records and messages, and what follows the largest is the smallest,
as in Kafka 4.4 (`GroupMetadataManager` and `ClassicGroup` add one to a Java int). No group counts
that far by itself: a record that says so was written by something else. Its members are answered
all the same; as in Kafka, the group has no new target until it is deleted, since its target is of a
larger epoch.
"""

from __future__ import annotations

from typing import Final

_MAX: Final = (1 << 31) - 1


def next_epoch(epoch: int) -> int:
    """The epoch, or the generation, that follows."""
    return epoch + 1 if epoch < _MAX else -_MAX - 1
