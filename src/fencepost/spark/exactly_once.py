"""The exactly-once sink's driver: who may decide, what is decided, and what a start puts right.

A sink has a name. Its driver has that name as its transactional id; the attempts of its tasks have
ids that begin with it, each its own (NAME-RUN-BATCH-TASK-ATTEMPT). A batch goes like this:

    open     InitProducerId(NAME): a driver that was there before can decide nothing any more.
             What it decided is finished; what it left open and undecided is aborted.
    tasks    each attempt writes its rows in a transaction of its own and leaves it open.
    commit   every transaction is still open? Then the decision is committed in a transaction of
             the driver (`decisions`), as the producer that `open` made. Then each is committed.

Why a batch is there once, wherever processes die:

* Before the decision nothing is visible, and only the driver can decide. The next `open`
  fences it first, then reads whether it has decided; so a driver that goes on although it was
  replaced either decided before, or is refused.
* After the decision every later `open` commits what is still open. Spark runs a batch again that
  it does not know to be committed; its tasks see that it was decided and write nothing.
* No attempt touches another's transaction: ids differ by run and attempt. An id is used again, so
  that coordinators need not remember ever more of them, only two decisions later, in the same run,
  by the first attempt of one task.
* It decides only while the transactions have time left to be committed in (`_require_time`).
* Whatever was listed as open before InitProducerId succeeded, and is not decided after it, can
  never be decided: it is aborted. What is found later may be a newer driver's and is left alone,
  unless its id was given out for the batch that is aborted (`Grant.covers`).
* An attempt asks at its start, and again when its transaction is open and all is acknowledged,
  whether its driver still has the sink, and aborts its transaction if not. `abort` lists what is
  open once it has taken the sink over, so it leaves nothing open that is not killed at that moment.
* A decision also says up to where every other key was decided before (`memory`), so queries and
  repeated writes that share a sink, in turn, know their own. What the group should have and has not
  is not taken for nothing: `takeover.require_decision`, and `Grant.forgotten` for what may be older
  than brokers keep decisions.

A transaction that times out (`transaction.timeout.ms`) before the decision makes `commit` fail: all
are aborted, and Spark runs the batch again. One may also time out after the decision, because no
driver started in time to finish the batch: when all of the batch's are gone the decision is
revoked, and the batch is written again as a whole; when some were committed before that,
IncompleteBatchError says so at every start, because rows would be missing or twice and only an
operator can choose.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Final

from fencepost.client.cluster import Cluster
from fencepost.client.open_transactions import OpenTransaction, Outcome, end_all, outcomes
from fencepost.client.produce_queue import Identity
from fencepost.client.transactional import TransactionDriver
from fencepost.spark.decisions import (
    REVOKED,
    TOPICS_MAX,
    Decision,
    read_decision,
    record_decision,
    revoked_after,
)
from fencepost.spark.grants import Forgotten, Grant, Mandate, TaskResult
from fencepost.spark.memory import KEYS_MAX, NOTHING
from fencepost.spark.sink_errors import (
    ExactlyOnceError,
    IncompleteBatchError,
    SinkFencedError,
    TooManyKeysError,
    UnfinishedBatchError,
)
from fencepost.spark.sinks import finish
from fencepost.spark.takeover import (
    LEAST_TIMEOUT_MS,
    driver_of,
    require_decision,
    retention_ms,
    take_over,
)
from fencepost.spark.undecided import (
    abort_undecided,
    open_transactions,
    require_open,
    require_time,
)

log = logging.getLogger("fencepost.spark")

GIVEN_MAX: Final = 1_000
YOUNG_MS: Final = 60_000
"""A batch that was first tried so shortly ago is not looked at further: brokers keep offsets for a
minute at least."""

# By sink, the producer of the last mandate that this process gave out, and the run it was for.
_given: dict[str, tuple[Identity, str]] = {}


class SinkDriver:
    """One sink as its driver sees it. `timeout_ms`: of its transactions; None for the longest that
    brokers allow. `clock` is one that all processes of a machine share, in seconds; `wall_ms` tells
    the time."""

    def __init__(
        self,
        cluster: Cluster,
        sink: str,
        timeout_ms: int | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.cluster = cluster
        self.sink = sink
        self.timeout_ms = timeout_ms
        self._clock = clock
        self._wall_ms = wall_ms

    # -- before the tasks ------------------------------------------------------------------------

    def open(self, planned_since_ms: int | None = None) -> Grant:
        """Fence earlier drivers, finish or abort what they left, and let tasks begin.

        `planned_since_ms`: when the batch was first tried, in ms since 1970, if that is known.
        IncompleteBatchError, DecisionLostError, DecisionError, ClientError.
        """
        before = _given.get(self.sink)
        if before is None:
            require_decision(self.cluster, self.sink, self._wall_ms())
        seen = open_transactions(self.cluster, self.sink) if before is None else []
        driver, timeout_ms = take_over(self.cluster, self.sink, self.timeout_ms)
        decision = read_decision(self.cluster, self.sink)
        if before is not None and (decision is None or before[0] != decision.maker):
            del _given[self.sink]  # this process gave out another batch, which was not committed
            return self.open(planned_since_ms)
        if decision is not None:
            decision = self._settle(decision, driver)
        abort_undecided(self.cluster, seen, decision)
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
            memory=decision.known() if decision else NOTHING,
            forgotten=self._forgotten(planned_since_ms),
        )

    def _forgotten(self, planned_since_ms: int | None) -> Forgotten | None:
        """Whether a batch that was first tried then could be one whose decision has expired."""
        age_ms = 0 if planned_since_ms is None else self._wall_ms() - planned_since_ms
        if age_ms < YOUNG_MS:
            return None
        kept_ms = retention_ms(self.cluster)
        return Forgotten(age_ms, kept_ms) if age_ms >= kept_ms else None

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
            self.sink,
        )
        revoked = revoked_after(decision)
        record_decision(self.cluster, self.sink, driver, revoked)
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
        seen = open_transactions(self.cluster, self.sink)  # other attempts' among them
        require_open(self.cluster, self.sink, written)
        last = read_decision(self.cluster, self.sink)
        if (last.number if last else 0) != mandate.number:
            raise SinkFencedError(
                self.sink, f"another driver has decided a batch of the sink {self.sink}"
            )
        decision = self._decision(results, batch, last)
        require_time(self.cluster, mandate, written, self._clock())
        driver = TransactionDriver(self.cluster, self.sink, self.timeout_ms or LEAST_TIMEOUT_MS)
        driver.manager.adopt(mandate.driver, is_tv2=mandate.is_tv2, is_open=False)
        record_decision(self.cluster, self.sink, driver, decision)
        failed = end_all(self.cluster, written, commit=True)
        if failed:
            why = str(next(iter(failed.values())))
            raise UnfinishedBatchError(self.sink, batch, len(written), len(failed), why)
        abort_undecided(self.cluster, seen, decision)

    def _decision(
        self, results: Sequence[TaskResult], batch: int, last: Decision | None
    ) -> Decision:
        """What to record. TooManyKeysError."""
        first = results[0]
        memory = last.known() if last else NOTHING
        if first.query and not memory.has_room_for(first.query):
            written = [one.transaction for one in results if one.transaction is not None]
            end_all(self.cluster, written, commit=False)
            raise TooManyKeysError(self.sink, KEYS_MAX)
        return Decision(
            number=first.mandate.number + 1,
            query=first.query,
            batch=batch,
            topics=tuple(sorted({name for one in results for name in one.topics})[:TOPICS_MAX]),
            maker=first.mandate.driver,
            transactions=tuple(one.transaction for one in results if one.transaction is not None),
            spare=tuple(one.transactional_id for one in last.transactions) if last else (),
            label=first.label.shortened(),
            time_ms=self._wall_ms(),
            run=first.run,
            memory=memory,
        )

    def abort(self, results: Sequence[TaskResult], grant: Grant | None = None) -> None:
        """Abort a batch's transactions, unless it is decided or the sink is another driver's: then
        the next `open` commits or aborts them.

        `grant`: what the batch's tasks were given, if that is known. Attempts without a result are
        found by it, also those that begin a transaction until the sink is taken over; one that
        begins its transaction later sees that it was, and aborts it.
        """
        if results:
            mandate = _common_mandate(results)
        elif grant is not None:
            mandate = grant.mandate
        else:
            return
        seen = set(open_transactions(self.cluster, self.sink))
        if driver_of(self.cluster, self.sink) != mandate.driver:
            log.warning(
                "another driver has the sink %s; its next start ends the open transactions",
                self.sink,
            )
            return
        take_over(self.cluster, self.sink, self.timeout_ms)
        decision = read_decision(self.cluster, self.sink)
        if (decision.number if decision else 0) == mandate.number:
            written = [one.transaction for one in results if one.transaction is not None]
            end_all(self.cluster, written, commit=False)
            if grant is not None:
                seen |= {
                    one for one in open_transactions(self.cluster, self.sink) if grant.covers(one)
                }
            rest = seen - {one.transactional_id for one in written}
            abort_undecided(self.cluster, sorted(rest), decision)


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
