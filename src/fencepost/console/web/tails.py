"""Live tails over HTTP: server-sent events, whose ids are the offsets to go on at.

    id: 0:340,1:220
    event: records
    data: {"rows": [{"cells": [...], "link": "/topics/..."}], "not_shown": 0, "skipped": 0, ...}

A browser that reconnects sends the last id (`Last-Event-ID`), and gets what followed it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from fencepost.client.errors import ClientError
from fencepost.console.asked import BadQuery, NotThere
from fencepost.console.pages.records import record_path, wanted_partitions
from fencepost.console.pages.tail import PASSED_ON, tail_query
from fencepost.console.records.query import finding_ranges, positions_of, positions_text
from fencepost.console.records.row_maker import RowMaker, filter_of
from fencepost.console.records.rows import RecordRow
from fencepost.console.records.tailing import Tail, TailEvent
from fencepost.console.records.topic_decoders import decoders_of
from fencepost.console.session import Session
from fencepost.console.web.asking import asked_of

PATH: Final = "/topics/{topic}/tail/events"
TAILS_MAX: Final = 8
CELL_BYTES_MAX: Final = 256
LAST_EVENT_ID: Final = "last-event-id"


class TailResponse(StreamingResponse):
    """Events until the browser leaves; `on_end` is called then, however it ended."""

    def __init__(self, stream: AsyncGenerator[bytes, None], on_end: Callable[[], None]) -> None:
        super().__init__(stream, media_type="text/event-stream")
        self._stream = stream
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_end()
            await self._stream.aclose()


def tail_routes(session: Session) -> list[Route]:
    """The route of events. TAILS_MAX tails may be open at once; another one is refused."""
    opened: set[object] = set()

    async def answer(request: Request) -> Response:
        if len(opened) >= TAILS_MAX:
            text = f"{TAILS_MAX} tails are open, and no more may be: stop one of them\n"
            return PlainTextResponse(text, 503, {"Retry-After": "5"})
        me = object()
        opened.add(me)
        response: Response | None = None
        try:
            tail, topic = await _tail_of(session, request)
            response = TailResponse(_events(tail, topic), lambda: opened.discard(me))
        except (BadQuery, NotThere, ClientError) as error:
            status = 400 if isinstance(error, BadQuery) else 404
            status = 502 if isinstance(error, ClientError) else status
            return PlainTextResponse(f"{error}\n", status)
        finally:
            if response is None:
                opened.discard(me)
        return response

    return [Route(PATH, answer, methods=["GET"])]


async def _events(tail: Tail, topic: str) -> AsyncGenerator[bytes, None]:
    yield b"retry: 2000\n\n"
    async with aclosing(tail.events()) as found:
        async for one in found:
            yield event_bytes(topic, one)


async def _tail_of(session: Session, request: Request) -> tuple[Tail, str]:
    """The tail that a request asks for, and its topic. Raises BadQuery, NotThere, ClientError."""
    asked = asked_of(request)
    asked.check("a tail", ("topic",), (*PASSED_ON, "at"))
    query = tail_query(asked)
    key_as, value_as = decoders_of(asked, query.topic, session.schemas)
    make = RowMaker(key_as, value_as, filter_of(asked), CELL_BYTES_MAX)
    chosen, _ = await wanted_partitions(session, query)
    last = request.headers.get(LAST_EVENT_ID)
    given = positions_of(last, "Last-Event-ID") if last else dict(query.at)
    found = await session.run(finding_ranges(session.cluster, query, chosen))
    positions = {
        one: min(max(given.get(one, log.start), log.log_start), log.log_end)
        for one, log in found.items()
    }
    is_live = not given and query.first.kind == "latest"
    return Tail(session.config, query, positions, make, is_live), query.topic


def event_bytes(topic: str, event: TailEvent) -> bytes:
    """An event as it is sent."""
    data = {
        "rows": [
            {"cells": _cells(row), "link": record_path(topic, row.partition, row.offset)}
            for row in event.rows
        ],
        "not_shown": event.not_shown,
        "skipped": event.skipped,
        "problem": event.problem,
    }
    return b"id: %s\nevent: records\ndata: %s\n\n" % (
        positions_text(event.positions).encode(),
        msgspec.json.encode(data),
    )


def _cells(row: RecordRow) -> list[str]:
    values = (getattr(row, name) for name in RecordRow.columns.values())
    return ["–" if value is None else str(value) for value in values]
