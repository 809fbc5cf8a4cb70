"""Fetch in runs: plain requests answered where they were received.

Theory of operation
-------------------
A consumer's plain request is answered at once as a rule: its records are in the page cache, and
nothing is in front of it. It needs no place in the connection's queue then, and nothing of what is
there for requests that wait. The compiled `wire._fetch` takes a run of such requests from where
they were received, asks the partitions and their logs, and puts the answers into the connection's
output, which leaves with one write. So of Python there is what decides, and what a session needs.

A request that has nothing to read yet, or cannot be read at once, gets its place then and goes on
as `fetch_from_bytes` has it; that ends the run. What does not begin like the latest request, or is
not plain, stays where it is.

A client with quotas is charged for each request before its answer is made: for its bytes, and for
the time since the one before. One that is too much gets a place, too, for an answer without records
that says for how long the client is throttled: the connection is muted when that leaves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from struct import Struct
from time import perf_counter
from typing import Final

from fencepost.broker.apis.fetch_bytes import (
    FLEXIBLE_FROM,
    Answered,
    PlainFetch,
    answer_in_bytes,
)
from fencepost.broker.apis.fetch_from_bytes import (
    Found,
    answer_found,
    answer_plain,
    begin_session,
    read_records,
)
from fencepost.broker.net.client_quotas import NO_QUOTAS, Meter
from fencepost.broker.net.pending_request import Buffer, PendingRequest
from fencepost.broker.net.request_metrics import ApiMetrics, timed_weight
from fencepost.broker.net.run_taker import RunClient, RunConnection, client_id_in
from fencepost.log.page_cache import NotCachedError
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.fetch import FetchContext, FetchWanted
from fencepost.machines.fetch.sessions import without_session
from fencepost.machines.partition import FetchBounds
from fencepost.runtime.delayed_fetches import SessionKey
from fencepost.runtime.requests.access import Find
from fencepost.runtime.requests.fetch_answer import throttled_answer
from fencepost.runtime.requests.fetch_parts import TOPIC_IDS_FROM, FetchParts
from fencepost.runtime.requests.permissions import READ_TOPIC
from fencepost.wire import backend
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)

FETCH_KEY: Final = 1
_CLASSES: Final = (PlainFetch, FetchWanted, Uuid, FetchBounds)
_FRAME_HEAD: Final = Struct(">i4xi")


def fetch_in_runs(*, parts: FetchParts) -> FetchInRuns | None:
    """What takes runs of Fetch requests; None without the compiled module."""
    return None if backend.fetch_kernel is None else FetchInRuns(parts)


class FetchInRuns:
    """The `RunTaker` of Fetch; see the module docstring."""

    latest_bytes: Final = 0
    """See `RunTaker`: what has a place in the queue was counted when it got it."""

    def __init__(self, parts: FetchParts, api: ApiMetrics | None = None) -> None:
        """Requests are counted in `api`, if there is one."""
        self._parts = parts
        self._api = api
        self._runs = backend.fetch_kernel.FetchRuns(self, _CLASSES)
        self.begin = partial(begin_session, parts)
        """Begins the session of a request; None if the request is to be left."""
        self._meter: Meter | None = None
        self._charge_answer = NO_QUOTAS.charge_answer
        self._throttle_ms = 0

    def counted_by(self, api: ApiMetrics) -> FetchInRuns:
        """See `RunTaker`."""
        return FetchInRuns(self._parts, api)

    def take(
        self,
        connection: RunConnection,
        frames: memoryview,
        start: int,
        end: int,
        head: bytes,
        requests_max: int,
    ) -> int:
        """Answer the plain requests at the front of frames[start:end]; see `RunTaker`."""
        version = int.from_bytes(head[2:4])
        if version < FLEXIBLE_FROM or not connection.may_answer():
            return start
        quotas, max_bytes = connection.quotas, self._parts.policy.max_bytes
        meter = quotas.run_begun(connection, client_id_in(head)) if quotas.is_on else None
        if meter is not None:
            if connection.is_broker:  # its limits are a client's, and it is not charged
                return start
            max_bytes = min(max_bytes, meter.fetch_bytes_max)
        self._meter, self._charge_answer = meter, quotas.charge_answer
        self._throttle_ms = 0  # the run before may have left one
        partitions, find, finder = self._parts.partitions, None, None
        if partitions.access.authorizer is None:
            find = partitions.finder_for_anyone(by_id=version >= TOPIC_IDS_FROM)
        else:
            finder = self._finder(connection, version)
        runs, began_s, failed_end = self._runs, perf_counter(), 0
        try:
            runs.take(
                connection, find, finder, frames, start, end, head, requests_max,
                connection.frame_bytes_max, max_bytes, meter is not None,
            )  # fmt: skip
        except Exception:
            log.exception("Fetch v%d from %s failed", version, connection)
            failed_end = self._fail(connection, frames, runs.start, version)
        if self._meter is not None:  # the latest request has not got it
            quotas.run_returned(self._meter)
        if self._api is not None and runs.requests:
            self._count(self._api, version, connection.arrived_s, began_s)
        return failed_end or int(runs.start)

    def _finder(self, connection: RunConnection, version: int) -> Callable[[], Find]:
        """What gives what finds the partitions of a request."""
        partitions, by_id = self._parts.partitions, version >= TOPIC_IDS_FROM
        return partial(partitions.finder, RunClient(connection, "Fetch"), READ_TOPIC, by_id=by_id)

    def _count(self, api: ApiMetrics, version: int, arrived_s: float, began_s: float) -> None:
        """Count the run that was taken; each of its requests has taken the same time."""
        runs = self._runs
        requests, number = runs.requests, api.number_before(arrived_s)
        times_s = (began_s - arrived_s, (perf_counter() - began_s) / requests, 0.0, 0.0)
        api.asked(requests, version, runs.frame_bytes)
        api.answered_without_errors(requests, runs.answer_bytes)
        for one in range(number + 1, number + 1 + requests):
            if weight := timed_weight(one):
                api.done(times_s, weight)

    # -- what only some requests need ----------------------------------------------------------

    def read(
        self,
        log: PartitionLog,
        offset: int,
        limits: tuple[int, int, int],
        min_one_batch: bool,
        isolation: int,
    ) -> Buffer | None:
        """`read_records` without waiting for a disk; None if it would."""
        reads = self._parts.cached_reads
        try:
            with reads.without_waiting(), reads.reading(0):
                return read_records(log, offset, limits, min_one_batch, isolation)
        except NotCachedError:
            return None

    def charge(self, size_bytes: int) -> bool:
        """Charge the client for an answer of about so many bytes; whether it is throttled."""
        assert self._meter is not None, "the run is charged"
        self._throttle_ms = throttle_ms = self._charge_answer(self._meter, size_bytes)
        return throttle_ms > 0

    def answer(
        self,
        session: FetchContext[SessionKey] | None,
        isolation: int,
        found: Found,
        some: list[Answered],
        correlation_id: int,
    ) -> list[Buffer]:
        """The answer of a request in a session, or one that is not made in one piece."""
        if session is None:
            return answer_in_bytes(correlation_id, 0, isolation, some)
        answer = answer_found(self._parts, session, isolation, found, some, correlation_id)
        assert isinstance(answer, list), "nothing has happened to the session since it was begun"
        return answer

    def queue(
        self,
        connection: RunConnection,
        request: PlainFetch,
        session: FetchContext[SessionKey] | ErrorCode | None,
        version: int,
        correlation_id: int,
        frame_size_bytes: int,
        find: Find,
    ) -> None:
        """The request gets a place in the queue, where it may wait, or where its answer says that
        the client is throttled. `find` has found its partitions before."""
        began_s = perf_counter()
        context = self._context(connection, version, correlation_id, frame_size_bytes)
        try:
            if session is None:
                session = without_session(request.wanted)
            if self._throttle_ms:
                self._throttle(context, session)
            else:
                answer = answer_plain(context, request, session, self._parts, find)
                if isinstance(answer, list):
                    context.reply_without_errors(*answer)
        except Exception:
            log.exception("Fetch v%d from %s failed", version, connection)
            context.fail()
        connection.quotas.returned(context)
        context.began(began_s)

    def _context(
        self, connection: RunConnection, version: int, correlation_id: int, size_bytes: int
    ) -> PendingRequest:
        """The place of a request in the queue. It ends the run, whose time goes on as its own."""
        context: PendingRequest
        context = connection.queue(FETCH_KEY, version, correlation_id, size_bytes)
        context.meter, self._meter = self._meter, None
        return context

    def _throttle(
        self, context: PendingRequest, session: FetchContext[SessionKey] | ErrorCode
    ) -> None:
        """Answer a request that was charged, and is too much."""
        assert context.meter is not None and not isinstance(session, ErrorCode), "it was charged"
        context.meter.is_charged = True
        context.throttle(self._throttle_ms)
        keys = [wanted.key for wanted in session.partitions]
        context.reply(throttled_answer(self._parts, session, keys))

    def _fail(self, connection: RunConnection, frames: memoryview, start: int, version: int) -> int:
        """Answer the request that begins there with an error of ours; where it ends."""
        size_bytes, correlation_id = _FRAME_HEAD.unpack_from(frames, start)
        context = self._context(connection, version, correlation_id, size_bytes)
        context.fail()
        connection.quotas.returned(context)
        return start + 4 + int(size_bytes)
