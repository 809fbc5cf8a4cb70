"""The regular expressions of a group: which are used, and which topics they match.

A member subscribes by an expression, and the coordinator finds the topics (KIP-848). That is work
elsewhere: all expressions of the group in one pass over the names in the metadata, one pass at a
time for a group. It begins with a heartbeat when there is a new expression, when topics have been
created since the last pass, or when that is long ago; and at least ten seconds after the last one.
The result is kept in records, so that the group means the same topics wherever it is coordinated.
Where these have gone with the last user of an expression, a new one need not wait, as in Kafka.

Topics that the member whose heartbeat began the pass may not describe are left out. Its permissions
are looked at where the result arrives, since an authorizer is not for other threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from typing import Final, NamedTuple

from fencepost.machines.coordinator import WorkResult
from fencepost.machines.group.consumer.group import ConsumerGroup, Note, ResolvedRegex
from fencepost.machines.group.consumer.records import epoch_records, regex_record
from fencepost.machines.group.consumer.regexes import (
    InvalidRegexError,
    compile_regex,
    resolve_regexes,
)
from fencepost.machines.group.consumer.target import Changed
from fencepost.machines.group.consumer.timers import regex_work
from fencepost.machines.group.metadata_hash import group_metadata_hash
from fencepost.machines.group.refused import RefusedError
from fencepost.machines.group.shard import Decision, Shard
from fencepost.wire.errors import ErrorCode

REFRESH_PAUSE_MS: Final = 10_000
"""Between two passes for a group, as in Kafka."""

REGEXES_MAX: Final = 100
"""Expressions that the members of one group use; each is matched with every topic's name."""

_LENGTH_BYTES: Final = 2
_RECORD_ALLOWANCE_BYTES: Final = 64 * 1024
"""For an expression, the longest there can be, and what is around it."""

MayDescribe = Callable[[str], bool]
"""Whether a client may describe the topic of that name."""


class RegexChange(Enum):
    """What a heartbeat changes about the member's expression."""

    NONE = "none"
    UNRESOLVED = "unresolved"
    """Another one, whose topics are not known yet."""
    RESOLVED = "resolved"
    """None any more, or another whose topics are known."""


class _Spec(NamedTuple):
    """The expressions of a group, and the names of all topics."""

    regexes: tuple[str, ...]
    topic_names: Iterable[str]


def _resolve(spec: _Spec) -> dict[str, frozenset[str]]:
    return resolve_regexes(spec.regexes, spec.topic_names)


class RegexRefresh:
    """Decides about regular expressions; shares the shard's state."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def update(
        self,
        decision: Decision,
        group: ConsumerGroup,
        changed: Changed,
        may_describe: MayDescribe | None,
        wall_ms: int,
    ) -> RegexChange:
        """What the heartbeat changes; a pass over the topics is begun if it is time. RefusedError.

        Without `may_describe` none is begun: its client's permissions would not be known.

        An expression without users has its record deleted.
        """
        assert changed.after is not None
        old = (changed.before and changed.before.regex) or ""
        new = changed.after.regex or ""
        users, change, is_new = group.regex_users, RegexChange.NONE, False
        if new != old:
            change = RegexChange.RESOLVED
            if old and users[old] == 1 and old in group.regexes:
                decision.records.append(regex_record(group.group_id, old, None))
            if new and new not in users:
                self._check(group, new)
                is_new = True
            if new and (is_new or new not in group.regexes):
                change = RegexChange.UNRESOLVED
        if new or users:
            used = {regex for regex in users if regex != old or users[old] > 1}
            if new:
                used.add(new)
            if used and may_describe is not None and self._is_due(group, used, is_new, wall_ms):
                self._begin(decision, group, used, may_describe, wall_ms)
        return change

    @staticmethod
    def _check(group: ConsumerGroup, regex: str) -> None:
        invalid = ErrorCode.INVALID_REGULAR_EXPRESSION
        if len(group.regex_users) >= REGEXES_MAX:
            raise RefusedError(invalid, f"The group has {REGEXES_MAX} regular expressions already.")
        try:
            compile_regex(regex)
        except InvalidRegexError as error:
            raise RefusedError(invalid, str(error)) from None

    def _is_due(self, group: ConsumerGroup, used: set[str], is_new: bool, wall_ms: int) -> bool:
        if group.resolving_since_ms is not None:
            return False
        refreshed_ms = max((one.timestamp_ms for one in group.regexes.values()), default=0)
        passed_ms = wall_ms - max(refreshed_ms, group.failed_pass_ms)
        if 0 <= passed_ms <= REFRESH_PAUSE_MS:
            return False
        seen = max((one.version for one in group.regexes.values()), default=-1)
        return (
            is_new
            or len(used) != len(group.regexes)
            or seen < group.newest_topics_at
            or not 0 <= passed_ms <= self._shard.config.consumer_regex_refresh_interval_ms
        )

    def _begin(
        self,
        decision: Decision,
        group: ConsumerGroup,
        used: set[str],
        may_describe: MayDescribe,
        wall_ms: int,
    ) -> None:
        image = self._shard.image
        spec = _Spec(tuple(sorted(used)), image.topics_by_name)
        decision.changes.append(Note(group.group_id, "resolving_since_ms", wall_ms))
        on_done = partial(self._resolved, group.group_id, image.offset, may_describe)
        decision.begin_work(regex_work(group.group_id), _resolve, spec, on_done)

    def _resolved(
        self,
        group_id: str,
        version: int,
        may_describe: MayDescribe,
        result: WorkResult,
        wall_ms: int,
    ) -> Decision:
        """A pass is done: what has users still is kept, and other topics raise the group epoch.

        A pass that failed changes nothing; a later heartbeat begins the next. So it is with an
        expression whose topics are too many for a record.
        """
        decision = Decision(is_atomic=False)
        group = self._shard.group_of(group_id, ConsumerGroup)
        if group is None:
            return decision
        decision.changes.append(Note(group_id, "resolving_since_ms", None))
        if result.error is not None:
            decision.changes.append(Note(group_id, "failed_pass_ms", wall_ms))
            decision.notes.append(f"group {group_id}: topics cannot be matched: {result.error!r}")
            return decision
        found: dict[str, frozenset[str]] = {
            regex: topics for regex, topics in result.value.items() if regex in group.regex_users
        }
        everything: frozenset[str] = frozenset().union(*found.values())
        hidden = {name for name in everything if not may_describe(name)}
        names = set(group.topic_users)
        is_changed = False
        for regex, topics in found.items():
            before = group.regexes.get(regex)
            visible = topics - hidden
            if not self._fits(visible):
                decision.notes.append(f"group {group_id}: {len(visible)} topics match {regex!r}")
                decision.changes.append(Note(group_id, "failed_pass_ms", wall_ms))
                names |= frozenset() if before is None else before.topics
                continue
            resolved = ResolvedRegex(visible, version, wall_ms)
            decision.records.append(regex_record(group_id, regex, resolved))
            is_changed |= visible != (frozenset() if before is None else before.topics)
            names |= visible
        for regex in group.regex_users.keys() - found.keys():
            other = group.regexes.get(regex)
            names |= frozenset() if other is None else other.topics
        self._raise_epoch(decision, group, names, is_changed)
        return decision

    def _fits(self, topics: frozenset[str]) -> bool:
        """Whether a record can have them all; names of topics are ASCII."""
        size_bytes = sum(len(name) + _LENGTH_BYTES for name in topics)
        return size_bytes <= self._shard.record_bytes_max - _RECORD_ALLOWANCE_BYTES

    def _raise_epoch(
        self, decision: Decision, group: ConsumerGroup, names: set[str], is_changed: bool
    ) -> None:
        if is_changed:
            metadata_hash = group_metadata_hash(self._shard.image, names)
            decision.records += epoch_records(group, metadata_hash)
            # Should the log take the expressions and not the epoch behind them, the hash tells.
            decision.changes.append(Note(group.group_id, "is_check_due", True))
