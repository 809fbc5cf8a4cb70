"""`fencepost wire apis`: every API with its versions and headers."""

from __future__ import annotations

import argparse
from typing import Any, Final

from fencepost.cli.failures import offline_command
from fencepost.cli.output import add_json_option, print_json, print_table
from fencepost.wire import api
from fencepost.wire.api.facts import API_FACTS, ApiFacts
from fencepost.wire.header import request_header_of, response_header_of
from fencepost.wire.message import Message

EPILOG = """\
Versions are all that were ever defined; a star marks a newest one that is not stable yet. Served is
what brokers of Kafka 4 serve. Headers are the versions before a request and before a response, and
from which version of the API on.

examples:
  fencepost wire apis
  fencepost wire apis --json | jq '.[] | select(.flexible_from == null) | .name'
"""


NO_FACTS: Final = ApiFacts(-1, (), (), 0)
"""Of an API that is not among Kafka's: all its versions count as served."""


def register_apis(actions: Any) -> None:
    """Add the parser of `fencepost wire apis`."""
    parser = actions.add_parser(
        "apis",
        help="every API: number, versions, headers",
        description="Every API of the protocol.",
        epilog=EPILOG,
    )
    add_json_option(parser)
    parser.set_defaults(run=list_apis)


@offline_command
def list_apis(arguments: argparse.Namespace) -> int:
    """All APIs, by key."""
    entries = [describe_api(key) for key in sorted(api.API_NAMES)]
    if arguments.json:
        print_json(entries)
    else:
        print_table(
            ("key", "API", "versions", "served", "flexible", "headers", "to", "from", "forwarded"),
            [_cells(entry) for entry in entries],
        )
    return 0


def describe_api(key: int) -> dict[str, Any]:
    """What is known of one API, for JSON."""
    request = api.request_class(key)
    facts = API_FACTS.get(key, NO_FACTS)
    return {
        "key": key,
        "name": api.API_NAMES[key],
        "min_version": request.min_version,
        "max_version": request.max_version,
        "flexible_from": request.flexible_from,
        "latest_unstable": request.latest_unstable,
        "request_header": _headers(request, request_header_of),
        "response_header": _headers(request, response_header_of),
        "listeners": list(facts.listeners),
        "senders": list(facts.senders),
        "oldest_served": facts.oldest_served,
        "removed_in": facts.removed_in,
        "forwardable": facts.forwardable,
        "cluster_action": facts.cluster_action,
    }


def _headers(cls: type[Message], header_of: Any) -> list[dict[str, int]]:
    """Header versions in the order of the API's versions, each with the first that has it."""
    found: list[dict[str, int]] = []
    for version in range(cls.min_version, cls.max_version + 1):
        header = header_of(cls, version)
        if not found or found[-1]["header"] != header:
            found.append({"from": version, "header": header})
    return found


def _cells(entry: dict[str, Any]) -> tuple[object, ...]:
    first, last, oldest = entry["min_version"], entry["max_version"], entry["oldest_served"]
    is_unstable, flexible = entry["latest_unstable"], entry["flexible_from"]
    newest = last - is_unstable
    return (
        entry["key"],
        entry["name"],
        _span(first, last) + ("*" if is_unstable else ""),
        f"until {entry['removed_in']}" if oldest is None else _span(oldest, newest),
        "never" if flexible is None else f"{flexible}+",
        _header_text(entry),
        entry["listeners"],
        entry["senders"],
        "yes" if entry["forwardable"] else "",
    )


def _span(first: int, last: int) -> str:
    if last < first:
        return "none"
    return str(first) if first == last else f"{first}-{last}"


def _header_text(entry: dict[str, Any]) -> str:
    """`1/0, 2/1 from 9`: version 1 before requests and 0 before responses, from version 9 on ..."""
    requests = {one["from"]: one["header"] for one in entry["request_header"]}
    responses = {one["from"]: one["header"] for one in entry["response_header"]}
    texts: list[str] = []
    request = response = 0
    for version in sorted({*requests, *responses}):
        request, response = requests.get(version, request), responses.get(version, response)
        since = f" from {version}" if texts else ""
        texts.append(f"{request}/{response}{since}")
    return ", ".join(texts)
