"""The rules of partitions by name: what the simulator can take away, one at a time.

Like `machines/quorum/rules.py`, for a leader and its in-sync set: each rule is a function of the
facts that it is given and of nothing else. Production uses `RULES`; an ablation is a subclass that
overrides some of these methods and nothing besides.
"""

from __future__ import annotations

from typing import Final

from fencepost.wire.errors import ErrorCode


class PartitionRules:
    """Production's rules; see the module docstring. Stateless: one instance serves all."""

    __slots__ = ()

    def needed_to_join(self, high_watermark: int, epoch_start_offset: int) -> int:
        """Which offset a follower must have reached to be in sync.

        Reaching the high watermark is not enough: it may lag behind this epoch's start, below
        which a replica can lack what was acknowledged in an earlier epoch (KAFKA-7128).
        """
        return max(high_watermark, epoch_start_offset)

    def must_be_caught_up(self, is_under_min_isr: bool) -> bool:
        """Whether a follower must be caught up besides, as it must be to stay in sync.

        With too few in sync the high watermark does not advance: a follower that has reached no
        more than that may be far behind, would be dropped for it, and join again, endlessly
        (KAFKA-19996).
        """
        return is_under_min_isr

    def is_former_incarnation(self, broker_epoch: int, newest: int) -> bool:
        """Whether a fetch with `broker_epoch` is of a broker that has started again since.

        `newest` is the highest epoch that the broker has fetched with or is registered under. What
        the older incarnation had may be gone with its disk (KIP-903, KAFKA-15221).
        """
        return broker_epoch < newest

    def vouches(self, fetched: int, registered: int) -> int:
        """Under which broker epoch a follower enters the in-sync set: the one that it has fetched
        with, which the controller compares with the one registered by then (KIP-903)."""
        return fetched

    def epoch_to_ask_with(self, proposed: int, fetched_since: int) -> int:
        """Under which broker epoch a replica is asked for that was found to be in sync under
        `proposed`, and has fetched under another since: what it had was that incarnation's
        (KAFKA-15221)."""
        return proposed

    def is_of_older_epoch(self, asked: int, leader_epoch: int) -> bool:
        """Whether an asker is fenced who goes by an older leader epoch than ours.

        What it has may be cut when it hears of the epochs in between (KIP-320).
        """
        return asked < leader_epoch

    def is_of_newer_epoch(self, asked: int, leader_epoch: int) -> bool:
        """Whether an asker has to wait who goes by a newer leader epoch than ours: our own log may
        be cut when we hear of it, and what we say of it now be wrong (KIP-320)."""
        return asked > leader_epoch

    def is_undone(self, error: int) -> bool:
        """Whether a change of the in-sync set that the controller refuses with `error` was
        certainly not made. After any other error it counts until metadata tell: an earlier request
        for it may have been granted, and its answer lost."""
        return error in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)

    def knows_latest_offset(self, high_watermark: int, epoch_start_offset: int) -> bool:
        """Whether a leader may tell where its log ends for consumers.

        Until its high watermark has reached the start of its epoch, an earlier leader may have
        shown more (KIP-207).
        """
        return high_watermark >= epoch_start_offset

    def advances_by_metadata(self) -> bool:
        """Whether a leader that hears of another in-sync set, or of brokers that may not be in sync
        any more, looks if its high watermark waited for these replicas alone (KAFKA-14334).

        Always; it is a rule since it is asked in two places, which one ablation changes together.
        """
        return True

    def isr_to_acknowledge_with(
        self, isr: frozenset[int], proposed: frozenset[int]
    ) -> frozenset[int]:
        """Which set must not be below `min.insync.replicas`, while a change is on its way.

        Only what the controller has granted: while its own set is below the minimum it keeps others
        eligible to lead, which a leader does not know of (KIP-966).
        """
        return isr

    def counted_isr(self, isr: frozenset[int], proposed: frozenset[int]) -> frozenset[int]:
        """The replicas that hold the high watermark back: all that the controller may have in sync
        by now, while a change is on its way (KIP-497)."""
        return isr | proposed

    def asks_coordinator(self, is_open: bool) -> bool:
        """Whether a transaction's coordinator is asked before something of it is appended: unless
        the transaction is open here already. No marker would ever end a transaction that its
        coordinator does not know of (KIP-890, KAFKA-14402)."""
        return not is_open

    def is_verified(self, ticket: int, present: int) -> bool:
        """Whether the first batch of a transaction may be appended with `ticket`: only with the
        present one of its producer, given out before the coordinator was asked. An answer that was
        true before the transaction was aborted is not true behind its marker."""
        return ticket == present

    def is_late_marker(self, is_open: bool) -> bool:
        """Whether a marker of KIP-890 that has the epoch which the producer has here already is
        refused: only if a transaction of that epoch is open, which it is not meant for. Otherwise
        it comes again, from the next coordinator for example (KAFKA-19999)."""
        return is_open

    def decided_from(self, high_watermark: int, end_offset: int) -> int:
        """Below which offset a marker decides its transaction for readers of committed data: what
        may still be cut decides nothing (KAFKA-9807)."""
        return high_watermark


RULES: Final = PartitionRules()
"""What production leaders go by."""

RULE_NAMES: Final = tuple(name for name in vars(PartitionRules) if not name.startswith("_"))
"""The names of all rules, in the order of the class."""
