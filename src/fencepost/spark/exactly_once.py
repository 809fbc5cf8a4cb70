"""The exactly-once sink's driver: who may decide, what is decided, and what a start puts right.

A sink has a name. Its driver has that name as its transactional id; the attempts of its tasks have
ids that begin with it, each its own (NAME-RUN-BATCH-TASK-ATTEMPT). A batch goes like this:

    open     InitProducerId(NAME): a driver that was there before can decide nothing any more.
             What it decided is finished; what it left open and undecided is aborted.
    tasks    each attempt writes its rows in a transaction of its own and leaves it open.
    commit   every transaction is still open? Then the decision is committed in a transaction of
             the driver (`decisions`), as the producer that `open` made. Then each is committed.

Why a batch is there once, wherever processes die:

* Before the decision nothing is visible, and nobody but the driver can decide. The next `open`
  fences it first, then reads whether it has decided; so a driver that goes on although it was
  replaced either decided before, or is refused.
* After the decision every later `open` commits what is still open. Spark runs a batch again that
  it does not know to be committed; its tasks see that it was decided and write nothing.
* No attempt touches another's transaction: ids differ by run and attempt. An id is used again, so
  that coordinators need not remember ever more of them, only two decisions later, in the same run,
  by the first attempt of one task.
* It decides only while the transactions have time left to be committed in (`_require_time`).
* Whatever was listed as open before InitProducerId succeeded, and is not decided after it, can
  never be decided: it is aborted. What is found later may be a newer driver's and is left alone.

A transaction that times out (`transaction.timeout.ms`) before the decision makes `commit` fail: all
are aborted, and Spark runs the batch again. One that timed out after the decision, because nobody
came back in time to finish: when all of the batch's are gone the decision is revoked, and the batch
is written again as a whole; when some were committed before that, IncompleteBatchError says so at
every start, because rows would be missing or twice and only a person can choose.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fencepost.client.admin import BROKER_RESOURCE, Admin
from fencepost.client.cluster import Cluster
from fencepost.client.errors import ClientError, ProducerFenced, TransactionError
from fencepost.client.open_transactions import OpenTransaction, Outcome, end_all, outcomes
from fencepost.client.produce_queue import Identity
from fencepost.client.transactional import TransactionDriver
from fencepost.spark.decisions import Decision, groups_of, read_decision
from fencepost.spark.sink_errors import (
    ExactlyOnceError,
    IncompleteBatchError,
    SinkFencedError,
    TransactionsLostError,
    UnfinishedBatchError,
    some_of,
)
from fencepost.spark.sinks import LISTING_TIMEOUT_MS, TASK_ID, finish
from fencepost.wire.errors import ErrorCode

log = logging.getLogger("fencepost.spark")

DEFAULT_MAX_TIMEOUT_MS: Final = 15 * 60_000
"""Kafka's `transaction.max.timeout.ms`, for brokers that do not tell theirs."""
LEAST_TIMEOUT_MS: Final = 1_000
REVOKED: Final = -1
GIVEN_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Mandate:
    """The right to decide one batch: the driver's producer as `open` made it, which the next
    `open` fences."""

    sink: str
    driver: Identity
    is_tv2: bool
    number: int
    """Of the last decision; 0 when there is none."""
    timeout_ms: int
    """Of the tasks' transactions."""
    opened_s: float
    """By the clock of the driver's machine; no transaction of the batch is older."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What tasks need of the driver."""

    mandate: Mandate
    run: str
    query: str
    batch: int
    """The batch of that query is decided already; -1 when none is."""
    spare: tuple[str, ...]
    """Transactional ids for the first attempts of tasks 0, 1, ..."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What an attempt of a task leaves for the driver."""

    mandate: Mandate
    query: str
    transaction: OpenTransaction | None
    """None if it had no rows, or the batch was decided already."""
    topics: tuple[str, ...]


# By sink, the producer of the last mandate that this process gave out, and the run it was for.
_given: dict[str, tuple[Identity, str]] = {}
# By bootstrap servers, the longest timeout that coordinators were seen to take.
_timeouts: dict[str, int] = {}


class SinkDriver:
    """One sink as its driver sees it. `timeout_ms`: of its transactions; None for the longest that
    brokers allow. `clock` is one that all processes of a machine share."""

    def __init__(
        self,
        cluster: Cluster,
        sink: str,
        timeout_ms: int | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cluster = cluster
        self.sink = sink
        self.timeout_ms = timeout_ms
        self._clock = clock

    # -- before the tasks ------------------------------------------------------------------------

    def open(self) -> Grant:
        """Fence earlier drivers, finish or abort what they left, and let tasks begin.

        IncompleteBatchError, DecisionError, ClientError.
        """
        before = _given.get(self.sink)
        seen = self._open_transactions() if before is None else []
        driver, timeout_ms = self._initialize()
        decision = read_decision(self.cluster, self.sink)
        if before is not None and (decision is None or before[0] != decision.maker):
            del _given[self.sink]  # this process gave out another batch, which was not committed
            return self.open()
        if decision is not None:
            decision = self._settle(decision, driver)
        self._abort_undecided(seen, decision)
        identity = driver.manager.identity
        assert identity is not None
        mandate = Mandate(
            self.sink,
            identity,
            driver.manager.is_tv2,
            decision.number if decision else 0,
            timeout_ms,
            self._clock(),
        )
        run = secrets.token_hex(4)
        spare: tuple[str, ...] = ()
        if decision is not None and before is not None and decision.transactions:
            run, spare = before[1], decision.spare  # the batch before this one, in this process
        if len(_given) >= GIVEN_MAX:
            _given.clear()  # which costs new transactional ids, no more
        _given[self.sink] = (identity, run)
        return Grant(
            mandate=mandate,
            run=run,
            query=decision.query if decision else "",
            batch=decision.batch if decision else REVOKED,
            spare=spare,
        )

    def _initialize(self) -> tuple[TransactionDriver, int]:
        """The driver's producer, which fences the one before, and the timeout that it was allowed.

        ClientError when a timeout that was asked for is above `transaction.max.timeout.ms`.
        """
        timeout_ms = self.timeout_ms or self._longest_timeout_ms()
        while True:
            driver = TransactionDriver(self.cluster, self.sink, timeout_ms)
            driver.manager.initialize()
            try:
                self.cluster.run(driver.run(f"taking over the sink {self.sink}"))
            except TransactionError as error:
                refused = error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
                if not refused or self.timeout_ms or timeout_ms < 2 * LEAST_TIMEOUT_MS:
                    raise
                timeout_ms //= 2
            else:
                if self.timeout_ms is None:
                    _timeouts[self.cluster.config.bootstrap_servers] = timeout_ms
                return driver, timeout_ms

    def _longest_timeout_ms(self) -> int:
        """`transaction.max.timeout.ms` of a broker, if it may be read (DescribeConfigs on Cluster),
        else what coordinators took before, or Kafka's default to begin with."""
        known = _timeouts.get(self.cluster.config.bootstrap_servers)
        if known is not None:
            return known
        name = "transaction.max.timeout.ms"
        try:
            self.cluster.describe([])
            found = [
                int(entry.value or 0)
                for node in self.cluster.metadata.nodes
                for entry in Admin(self.cluster).describe_configs(
                    BROKER_RESOURCE, str(node), [name]
                )
                if entry.name == name
            ]
        except ClientError as error:
            log.debug("cannot read %s (%s); starting with 15 minutes", name, error)
            return DEFAULT_MAX_TIMEOUT_MS
        return max(LEAST_TIMEOUT_MS, min(found)) if found else DEFAULT_MAX_TIMEOUT_MS

    def _open_transactions(self) -> list[str]:
        """Transactional ids of this sink's tasks that are in a transaction. What cannot be asked
        for is left to a later batch, or to its timeout."""
        try:
            return self._listed()
        except ClientError as error:
            log.warning("cannot look for abandoned transactions of %s: %s", self.sink, error)
            return []

    def _listed(self, older_than_ms: int | None = None) -> list[str]:
        listed = Admin(self.cluster).list_transactions(
            states=["Ongoing"],
            pattern=re.escape(self.sink) + TASK_ID,
            duration_ms=older_than_ms,
            timeout_ms=LISTING_TIMEOUT_MS,
        )
        return [one.transactional_id for one in listed]

    def _abort_undecided(self, seen: Iterable[str], decision: Decision | None) -> None:
        """End transactions that nobody can decide any more, so that readers get past them."""
        decided = {one.transactional_id for one in decision.transactions} if decision else set()
        for name in seen:
            if name in decided:
                continue
            try:
                Admin(self.cluster).force_terminate(name)
            except ClientError as error:
                log.warning("cannot abort the abandoned transaction of %s: %s", name, error)
            else:
                log.info("aborted the abandoned transaction of %s", name)

    def _settle(self, decision: Decision, driver: TransactionDriver) -> Decision:
        """Finish what was decided; the decision that counts now."""
        if not decision.transactions:
            return decision
        found = finish(self.cluster, self.sink, decision)
        left = _with(Outcome.OPEN, found)
        if not left and Outcome.ABORTED not in found.values():
            return decision
        if Outcome.ABORTED in found.values():
            end_all(self.cluster, left, commit=False)
            found |= outcomes(self.cluster, left) if left else {}
            left = _with(Outcome.OPEN, found)
        if left:
            count = len(decision.transactions)
            why = "coordinators do not answer"
            raise UnfinishedBatchError(self.sink, decision.batch, count, len(left), why)
        lost = _with(Outcome.ABORTED, found)
        if len(lost) < len(found):
            names = [one.transactional_id for one in lost]
            raise IncompleteBatchError(self.sink, decision.batch, len(found), names)
        log.warning(
            "all transactions of batch %d of %s timed out; writing the batch again",
            decision.batch,
            lost,
        )
        revoked = replace(
            decision, number=decision.number + 1, batch=REVOKED, transactions=(), spare=()
        )
        self._record(driver, revoked)
        return revoked

    # -- after the tasks -------------------------------------------------------------------------

    def commit(self, results: Sequence[TaskResult], batch: int) -> None:
        """Decide a batch and make it visible.

        TransactionsLostError, SinkFencedError: nothing of it is or will be. Any other error after
        the decision: the next `open` finishes it.
        """
        written = tuple(one.transaction for one in results if one.transaction is not None)
        if not written:
            return
        mandate = _common_mandate(results)
        seen = self._open_transactions()  # other attempts' among them
        self._require_open(written)
        last = read_decision(self.cluster, self.sink)
        if (last.number if last else 0) != mandate.number:
            raise SinkFencedError(
                self.sink, f"another driver has decided a batch of the sink {self.sink}"
            )
        decision = Decision(
            number=mandate.number + 1,
            query=results[0].query,
            batch=batch,
            topic=min(topic for one in results for topic in one.topics),
            maker=mandate.driver,
            transactions=written,
            spare=tuple(one.transactional_id for one in last.transactions) if last else (),
        )
        self._require_time(mandate, written)
        driver = TransactionDriver(self.cluster, self.sink, self.timeout_ms or LEAST_TIMEOUT_MS)
        driver.manager.adopt(mandate.driver, is_tv2=mandate.is_tv2, is_open=False)
        self._record(driver, decision)
        failed = end_all(self.cluster, written, commit=True)
        if failed:
            why = str(next(iter(failed.values())))
            raise UnfinishedBatchError(self.sink, batch, len(written), len(failed), why)
        self._abort_undecided(seen, decision)

    def _require_open(self, written: Sequence[OpenTransaction]) -> None:
        found = outcomes(self.cluster, written)
        lost = [one for one, outcome in found.items() if outcome is not Outcome.OPEN]
        if not lost:
            return
        end_all(self.cluster, _with(Outcome.OPEN, found), commit=False)
        names = some_of([one.transactional_id for one in lost])
        raise TransactionsLostError(
            "TRANSACTIONS_LOST",
            f"{len(lost)} of {len(written)} transactions of the batch were ended before it was "
            f"decided ({names}): a transaction took longer than transaction.timeout.ms, or another "
            f"driver of the sink {self.sink} is running. All of the batch is aborted and will be "
            "written again when the query is started again",
            {
                "sink": self.sink,
                "transactions": len(written),
                "lostTransactions": len(lost),
                "transactionalIds": names,
            },
        )

    def _require_time(self, mandate: Mandate, written: Sequence[OpenTransaction]) -> None:
        """Refuse to decide where a transaction could time out before its end is asked for: others
        would be committed then. No transaction is older than its mandate, by one machine's clock;
        where the mandate is too old, coordinators tell by theirs which transactions are."""
        margin_ms = min(2 * self.cluster.config.api_timeout_ms, mandate.timeout_ms // 4)
        oldest_ms = mandate.timeout_ms - margin_ms
        if (self._clock() - mandate.opened_s) * 1000 < oldest_ms:
            return
        names = sorted(one.transactional_id for one in written)
        try:
            listed = set(self._listed(older_than_ms=oldest_ms))
            late, why = [name for name in names if name in listed], "they"
        except ClientError as error:
            late, why = names, f"coordinators do not tell their ages ({error}), and they"
        if not late:
            return
        end_all(self.cluster, written, commit=False)
        raise TransactionsLostError(
            "DECISION_TOO_LATE",
            f"{len(late)} of {len(names)} transactions of the batch ({some_of(late)}) could time "
            f"out while it is committed: {why} may be older than {oldest_ms} ms, which is "
            f"transaction.timeout.ms={mandate.timeout_ms} less {margin_ms} ms to commit in. All of "
            "the batch is aborted. Make batches smaller, or kafka.transaction.timeout.ms longer",
            {
                "sink": self.sink,
                "transactions": len(names),
                "lateTransactions": len(late),
                "transactionalIds": some_of(late),
                "timeoutMs": mandate.timeout_ms,
                "marginMs": margin_ms,
            },
        )

    def _record(self, driver: TransactionDriver, decision: Decision) -> None:
        """Make a decision durable. SinkFencedError."""
        try:
            driver.begin()
            for group, offsets in groups_of(decision, self.sink).items():
                self.cluster.run(driver.send_offsets(offsets, group))
            self.cluster.run(driver.end(commit=True))
        except ProducerFenced as error:
            raise SinkFencedError(
                self.sink,
                f"another driver has taken over the sink {self.sink}; what this one wrote is not "
                f"committed: {error}",
            ) from error

    def abort(self, results: Sequence[TaskResult]) -> None:
        """Give a batch up, unless it is decided or the sink is another driver's: then whoever
        opens it next sees to it."""
        if not results:
            return
        mandate = _common_mandate(results)
        seen = self._open_transactions()
        known = Admin(self.cluster).describe_transaction(self.sink)
        if Identity(known.producer_id, known.producer_epoch) != mandate.driver:
            log.warning(
                "another driver has the sink %s; its next start ends the open transactions",
                self.sink,
            )
            return
        self._initialize()
        decision = read_decision(self.cluster, self.sink)
        if (decision.number if decision else 0) == mandate.number:
            written = [one.transaction for one in results if one.transaction is not None]
            end_all(self.cluster, written, commit=False)
            rest = set(seen) - {one.transactional_id for one in written}
            self._abort_undecided(sorted(rest), decision)


def _common_mandate(results: Sequence[TaskResult]) -> Mandate:
    mandates = {one.mandate for one in results}
    if len(mandates) != 1:
        sinks = ", ".join(sorted({one.sink for one in mandates}))
        raise ExactlyOnceError(
            "DIFFERENT_DRIVERS",
            f"the tasks of a batch were given out by different drivers of {sinks}",
            {"sink": sinks},
        )
    return mandates.pop()


def _with(outcome: Outcome, found: dict[OpenTransaction, Outcome]) -> list[OpenTransaction]:
    return [one for one, what in found.items() if what is outcome]
