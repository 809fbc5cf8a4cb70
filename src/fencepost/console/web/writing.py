"""Routes of changes, which there are only where the console's owner allows them.

A change is shown first, by GET, as what its request would say; it is made by POST, of the form that
showed it: with this process's CSRF token, the name of what is changed typed in, and the digest of
what was shown. Each POST leaves a line on stderr: who asked, for what, and what became of it.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from fencepost.client.errors import ClientError
from fencepost.console import html
from fencepost.console.asked import Asked, BadQuery, path_to
from fencepost.console.page import Confirm, Page, Section, Sentence, Text
from fencepost.console.session import Changing, Counting, Session, now_ms
from fencepost.console.web.access import equal_secrets
from fencepost.console.web.asking import asked_of
from fencepost.console.writes.plan import CannotBe, Plan
from fencepost.console.writes.table import WriteKind, writes_of
from fencepost.views.times import iso_time
from fencepost.wire.errors import ErrorCode

FORM: Final = "application/x-www-form-urlencoded"
VALUES_MAX: Final = 50
NOT_THERE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND)
BAD_VALUES: Final = (
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.INVALID_PARTITIONS,
    ErrorCode.INVALID_REPLICATION_FACTOR,
    ErrorCode.INVALID_CONFIG,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.POLICY_VIOLATION,
)
"""Errors by which brokers refuse what is asked for, whatever the cluster does."""


class _Refused(Exception):
    """The form is not one that this console showed for what it asks; the words say why."""


def write_routes(session: Session) -> list[BaseRoute]:
    """The list of changes, and a route to show and to make each."""
    csrf = secrets.token_urlsafe(32)
    kinds = writes_of(session.options)

    async def listing(request: Request) -> Response:
        found = [
            Sentence(f"{kind.title}: {kind.what}", link=path_to("writes", kind.name))
            for kind in kinds
        ]
        page = Page("Writes", [Section("", found)], now_ms(), refresh_s=None)
        return _answer(session, request, page, 200, csrf)

    routes: list[BaseRoute] = [Route("/writes", listing, methods=["GET"])]
    for kind in kinds:
        path = f"/writes/{kind.name}"
        routes.append(Route(path, _showing(session, kind, csrf), methods=["GET"]))
        routes.append(Route(path, _making(session, kind, csrf), methods=["POST"]))
    return routes


def _showing(
    session: Session, kind: WriteKind, csrf: str
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        with Counting() as requests:
            try:
                page, status = await _shown(session, kind, asked_of(request))
            except BadQuery as error:
                page, status = _page(kind, Asked(), [_failed([], error)]), 400
        page = msgspec.structs.replace(page, requests=dict(requests))
        return _answer(session, request, page, status, csrf)

    return answer


async def _shown(
    session: Session, kind: WriteKind, asked: Asked, first: Sentence | None = None
) -> tuple[Page, int]:
    """The fields of a change and, once they are filled in, what it would do. Raises BadQuery for
    what it has no fields for."""
    said = [first] if first is not None else []
    if not asked.values:
        return _page(kind, asked, [Section("", said)]), 200
    _check(kind, asked)
    try:
        plan = await kind.plan(session, asked)
    except BadQuery as error:
        return _page(kind, asked, [_failed(said, error)]), 400
    except CannotBe as error:
        return _page(kind, asked, [_failed(said, error)]), 409
    except ClientError as error:
        return _page(kind, asked, [_failed(said, error)]), _status_of(error)
    return _plan_page(kind, asked, plan, said), 409 if first is not None else 200


def _making(
    session: Session, kind: WriteKind, csrf: str
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            form = await _form_of(request)
            if not equal_secrets(form.pop("csrf", ""), csrf):
                raise _Refused("the form is not one of this console as it runs now")
        except _Refused as error:
            _audit(request, kind, None, f"refused: {error}")
            page = _page(kind, Asked({}), [Section("", [Sentence(f"Refused: {error}.", "bad")])])
            return _answer(session, request, page, 403, csrf)
        typed, digest = form.pop("typed", ""), form.pop("digest", "")
        with Counting() as requests:
            page, status = await _made(session, request, kind, form, typed, digest)
        page = msgspec.structs.replace(page, requests=dict(requests))
        return _answer(session, request, page, status, csrf)

    return answer


async def _made(
    session: Session,
    request: Request,
    kind: WriteKind,
    values: dict[str, str],
    typed: str,
    digest: str,
) -> tuple[Page, int]:
    """Make the change, if it still is what was shown and its name was typed."""
    asked = Asked(values)
    try:
        _check(kind, asked)
        plan = await kind.plan(session, asked)
    except (BadQuery, CannotBe, ClientError) as error:
        _audit(request, kind, None, f"refused: {error}")
        return _page(kind, asked, [_failed([], error)]), 409
    problem = None
    if plan.digest != digest:
        problem = "Nothing was changed: the cluster is not as it was when this was shown."
    elif typed != plan.target:
        problem = f"Nothing was changed: what was typed is not {plan.target!r}."
    if problem is not None:
        _audit(request, kind, plan, "refused: not confirmed")
        return await _shown(session, kind, asked, Sentence(problem, "bad"))
    try:
        with Changing():
            became = await plan.carry_out(session)
    except ClientError as error:
        _audit(request, kind, plan, f"failed: {error}")
        return _page(kind, asked, [_failed([], error)]), _status_of(error)
    _audit(request, kind, plan, "done")
    return _page(kind, asked, [Section("", [Sentence(became, "good")])]), 200


def _check(kind: WriteKind, asked: Asked) -> None:
    asked.check(f"the change {kind.name}", (), [field.name for field in kind.fields])


def _status_of(error: ClientError) -> int:
    """What HTTP says of an error: 502 unless it is what was asked for that is wrong."""
    if error.code in NOT_THERE:
        return 404
    return 400 if error.code in BAD_VALUES else 502


def _failed(said: list[Sentence], error: Exception) -> Section:
    return Section("", [*said, Sentence(str(error), "bad")])


def _page(
    kind: WriteKind, asked: Asked, sections: list[Section], confirm: Confirm | None = None
) -> Page:
    try:
        fields = kind.fields_of(asked)
    except BadQuery:
        fields = list(kind.fields)
    return Page(kind.title, sections, now_ms(), refresh_s=None, fields=fields, confirm=confirm)


def _plan_page(kind: WriteKind, asked: Asked, plan: Plan, said: list[Sentence]) -> Page:
    section = Section(
        "What would change",
        [*said, *plan.sentences],
        [Text(f"the request, for {plan.target}", "\n".join(plan.diff))],
        list(plan.diff),
    )
    values = {field.name: field.value for field in kind.fields_of(asked)}
    confirm = Confirm(path_to("writes", kind.name), values, plan.target, plan.digest, kind.title)
    return _page(kind, asked, [section], confirm)


def _answer(session: Session, request: Request, page: Page, status: int, csrf: str) -> Response:
    path = request.scope["raw_path"].decode("latin-1")
    return HTMLResponse(html.document(page, path, session.standing(), csrf), status)


async def _form_of(request: Request) -> dict[str, str]:
    """The form's values by name. Raises _Refused; how long it may be, `safety` has seen to."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        raise _Refused(f"a form is {FORM}")
    try:
        text = (await request.body()).decode()
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=VALUES_MAX, errors="strict")
    except ValueError:
        raise _Refused(f"the form is not UTF-8, or has more than {VALUES_MAX} values") from None
    if len({key for key, _ in pairs}) != len(pairs):
        raise _Refused("a value is there twice")
    return dict(pairs)


def _audit(request: Request, kind: WriteKind, plan: Plan | None, result: str) -> None:
    """A line of JSON on stderr, of which no value can make two."""
    told: dict[str, Any] = {
        "at": iso_time(now_ms()),
        "who": request.scope.get("state", {}).get("who"),
        "what": kind.name,
        "target": None if plan is None else plan.target,
        "values": {} if plan is None else dict(plan.audited),
        "result": result[:500],
    }
    print(f"fencepost console: audit: {json.dumps(told)}", file=sys.stderr, flush=True)
