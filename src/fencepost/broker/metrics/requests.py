"""Metrics of requests and connections, of all listeners of a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from fencepost.broker.metrics.catalogue import REQUESTS, SOCKETS
from fencepost.broker.metrics.sheet import Sheet
from fencepost.broker.net.listener import Listener
from fencepost.broker.net.request_metrics import ApiMetrics
from fencepost.runtime.cooperative import Pieces
from fencepost.wire.errors import error_name

PROCESSOR: Final = "0"
"""Kafka's connections belong to one of several threads; ours all to the event loop."""


def collect_requests(sheet: Sheet, listeners: Mapping[str, Listener]) -> Pieces[None]:
    """Put in what was asked. `listeners` are by the role that they serve."""
    for by_name in _by_name(listeners).values():
        _tell_api(sheet, by_name)
        yield None
    for role, listener in listeners.items():
        _tell_connections(sheet, listener)
        _tell_logins(sheet, listener)
        _tell_budgets(sheet, role, listener)


def _by_name(listeners: Mapping[str, Listener]) -> dict[str, list[ApiMetrics]]:
    """What clients and the quorum ask has one name where it is one API (Fetch)."""
    found: dict[str, list[ApiMetrics]] = {}
    for listener in listeners.values():
        if listener.request_metrics is not None:
            for api in listener.request_metrics.apis.values():
                found.setdefault(api.name, []).append(api)
    return found


def _tell_api(sheet: Sheet, apis: list[ApiMetrics]) -> None:
    name = apis[0].name
    versions: Counter[int] = Counter()
    errors: Counter[int] = Counter()
    for api in apis:
        versions += api.versions
        errors += api.errors
    for version, count in sorted(versions.items()):
        sheet.add(f"{REQUESTS}requests_total", count, request=name, version=str(version))
    for code, count in sorted(errors.items()):
        sheet.add(f"{REQUESTS}errors_total", count, request=name, error=error_name(code))
    sheet.add("fencepost_request_bytes_total", sum(a.request_bytes for a in apis), request=name)
    sheet.add("fencepost_response_bytes_total", sum(a.response_bytes for a in apis), request=name)
    all_times = [api.times() for api in apis]
    for part in all_times[0]:
        values = [times[part] for times in all_times]
        sheet.add_summary(f"{REQUESTS}{part}", *values, request=name)


def _tell_connections(sheet: Sheet, listener: Listener) -> None:
    counts = listener.counts
    names = listener.names
    count_by_name = Counter(connection.listener_name for connection in listener.connections)
    for name in names:
        labels = {"listener": name, "networkProcessor": PROCESSOR}
        sheet.add(f"{SOCKETS}connection_count", count_by_name[name], **labels)
        sheet.add(f"{SOCKETS}connection_creation_total", counts.created[name], **labels)
        sheet.add(f"{SOCKETS}connection_close_total", counts.closed[name], **labels)
        sheet.add("fencepost_connections_idle_closed_total", counts.expired[name], **labels)
        sheet.add("fencepost_connections_refused_total", counts.refused[name], **labels)


def _tell_logins(sheet: Sheet, listener: Listener) -> None:
    counts = listener.logins.counts
    by_result = {
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "succeeded_again": counts.succeeded_again,
        "failed_again": counts.failed_again,
    }
    for result, logins in by_result.items():
        offered = {(name, one) for name, of in listener.securities.items() for one in of.mechanisms}
        for name, mechanism in sorted(offered | logins.keys()):
            labels = {"listener": name, "mechanism": mechanism, "result": result}
            sheet.add("fencepost_logins_total", logins[name, mechanism], **labels)
    totals = {
        "successful_authentication_total": counts.succeeded,
        "failed_authentication_total": counts.failed,
        "successful_reauthentication_total": counts.succeeded_again,
        "failed_reauthentication_total": counts.failed_again,
        "successful_authentication_no_reauth_total": counts.cannot_again,
    }
    for name in listener.names:
        labels = {"listener": name, "networkProcessor": PROCESSOR}
        expired = counts.expired[name]
        sheet.add(f"{SOCKETS}expired_connections_killed_count", expired, **labels)
        for metric, logins in totals.items():
            count = sum(number for (of, _), number in logins.items() if of == name)
            sheet.add(f"{SOCKETS}{metric}", count, **labels)


def _tell_budgets(sheet: Sheet, role: str, listener: Listener) -> None:
    budget = listener.memory_budget
    for name, used_bytes, limit_bytes in (
        ("incoming", budget.incoming_bytes, budget.incoming_bytes_max),
        ("outgoing", budget.outgoing_bytes, budget.outgoing_bytes_max),
        ("waiting", budget.waiting_bytes, budget.waiting_bytes_max),
    ):
        tell_budget(sheet, role, name, used_bytes, limit_bytes)


def tell_budget(sheet: Sheet, role: str, name: str, used_bytes: int, limit_bytes: int) -> None:
    """Put in what is used of a bound of memory."""
    sheet.add("fencepost_memory_budget_used_bytes", used_bytes, role=role, budget=name)
    sheet.add("fencepost_memory_budget_limit_bytes", limit_bytes, role=role, budget=name)
