"""`/metrics`, `/health` and `/ready`: what is collected for a scrape, and how it is answered.

Theory of operation
-------------------
Nothing is collected before a scrape. Then every collector puts its values into a sheet, in pieces,
and the text is made of it, in pieces, too: in a lane of its own (`runtime.cooperative`), so a
scrape shares the event loop with all other long work and keeps no client waiting for more than a
turn. A request that comes while a scrape is under way gets the same answer, so the work does not
grow with the number of clients.

`/health` and `/ready` are answered at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from http import HTTPStatus
from time import perf_counter
from typing import Final

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from fencepost.broker.config.endpoints import Endpoint
from fencepost.broker.metrics.health import Report
from fencepost.broker.metrics.http import Answer, HttpServer, Respond
from fencepost.broker.metrics.sheet import Sheet
from fencepost.runtime.cooperative import Lane, Pieces

log = logging.getLogger(__name__)

Collect = Callable[[Sheet], Pieces[None]]
"""Puts values into a sheet, in pieces."""

_INDEX: Final = b"""/metrics  for Prometheus
/health   whether this node is well
/ready    whether it is ready for work
"""


class MetricsEndpoint:
    """See the module. `collectors` may be added to until the first scrape."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Lane,
        health: Callable[[], Report],
        readiness: Callable[[], Report],
    ) -> None:
        self._work = work
        self._health = health
        self._readiness = readiness
        self._waiting: list[Respond] = []
        self._scrapes = 0
        self._seconds = 0.0
        self._closed = False
        self.collectors: list[Collect] = []
        self.server = HttpServer(
            loop,
            {
                "/": lambda respond: respond(Answer(HTTPStatus.OK, (_INDEX,))),
                "/metrics": self._scrape,
                "/health": lambda respond: respond(self._health().answer("healthy", "failed")),
                "/ready": lambda respond: respond(self._readiness().answer("ready", "not ready")),
            },
        )

    async def start(self, endpoint: Endpoint, names: Iterable[str] = ()) -> Endpoint:
        """Listen; where. Clients may call the node by these names. BindError."""
        called = (endpoint.host, *names)
        self.server.names = frozenset(name.lower().removesuffix(".") for name in called)
        return await self.server.start(endpoint)

    def close(self) -> None:
        """Stop listening, and answer no more requests."""
        self._closed = True
        self.server.close()

    def _scrape(self, respond: Respond) -> None:
        self._waiting.append(respond)
        if len(self._waiting) == 1:
            self._work.begin(self._measured(self._make()), is_wanted=lambda: not self._closed)

    def _make(self) -> Pieces[None]:
        """Collect, and answer all requests that wait then."""
        try:
            answer = Answer(HTTPStatus.OK, (yield from self._text()), CONTENT_TYPE_PLAIN_0_0_4)
        except Exception:
            log.exception("collecting metrics failed")
            answer = Answer(HTTPStatus.INTERNAL_SERVER_ERROR, (b"collecting metrics failed\n",))
        waiting, self._waiting = self._waiting, []
        for respond in waiting:
            respond(answer)
        return None

    def _text(self) -> Pieces[list[bytes]]:
        self._scrapes += 1
        sheet = Sheet(perf_counter())
        for collect in self.collectors:
            yield from collect(sheet)
            yield None
        sheet.add("fencepost_metrics_scrapes_total", self._scrapes)
        sheet.add("fencepost_metrics_seconds_total", self._seconds)
        return (yield from sheet.render())

    def _measured(self, pieces: Pieces[None]) -> Pieces[None]:
        """The pieces, with the time counted that they take."""
        while True:
            began_s = perf_counter()
            try:
                next(pieces)
            except StopIteration:
                return None
            finally:
                self._seconds += perf_counter() - began_s
            yield None
