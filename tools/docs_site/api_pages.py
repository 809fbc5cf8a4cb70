"""The pages of Kafka's requests and responses, and the table of them all."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from docs_site.prose import markdown, module_markdown, page_of_api
from docs_site.schema import own_doc
from docs_site.tables import (
    change_table,
    code,
    facts,
    flexible,
    message_table,
    raw,
    span,
    table,
)
from fencepost.broker import apis
from fencepost.broker.net.registry import ROUTES
from fencepost.wire.api import API_NAMES, request_class, response_class
from fencepost.wire.api.facts import API_FACTS
from fencepost.wire.describe import heading
from fencepost.wire.message import Message

WIDE = "---\nhide-toc: true\n---\n\n"
"""Pages of tables use the room of the right-hand list of sections."""

CHANGES = "What each version changed"


def _sample(kind: str, number: int, text: str) -> str:
    cell = f'<i class="{kind}" data-v="{number}"></i>'
    return f'<span class="strip" aria-hidden="true">{cell}</span> {text} '


LEGEND = (
    '<p class="legend">'
    + _sample("on", 1, "the field is there")
    + _sample("tag", 2, "it goes by its tag")
    + _sample("off", 3, "the version does not have it")
    + "</p>"
)


def pages() -> Iterator[tuple[str, str]]:
    """Path and text of every page, the table first."""
    apis.load_all()
    yield "reference/apis/index.md", index_page()
    for key in sorted(API_NAMES):
        yield f"reference/{page_of_api(key)}.md", api_page(key)


def served(api_key: int) -> str:
    """The versions the broker of this project answers; empty when it does not."""
    route = ROUTES.get(api_key)
    return "" if route is None else span(route.min_version, route.max_version)


def index_page() -> str:
    """All APIs in one table."""
    names = [page_of_api(key).removeprefix("apis/") for key in sorted(API_NAMES)]
    rows = [_index_row(key) for key in sorted(API_NAMES)]
    headings = (
        "Key",
        "API",
        "Versions",
        "Flexible",
        "Kafka 4 from",
        "Fencepost",
        "Taken by",
        "Sent by",
        "Forwarded",
    )
    return "\n".join(
        [
            f"{WIDE}# APIs\n",
            f"All {len(rows)} requests of Kafka's protocol with their responses, in every version "
            "that was ever released. *Kafka 4 from* is the oldest version that Kafka 4 still "
            "answers, *forwarded* says that brokers may hand it to the controller inside of an "
            "Envelope, and *Fencepost* has the versions that `fencepost serve` answers.\n",
            raw(table(headings, rows, "apis")),
            "```{toctree}\n:hidden:\n",
            *names,
            "```",
        ]
    )


def _index_row(key: int) -> list[str]:
    request, about = request_class(key), API_FACTS[key]
    page = page_of_api(key).removeprefix("apis/")
    gone = f"<small>gone in {about.removed_in}</small>"
    return [
        str(key),
        f'<a href="{page}.html">{API_NAMES[key]}</a>',
        span(request.min_version, request.max_version),
        flexible(request),
        gone if about.oldest_served is None else str(about.oldest_served),
        served(key),
        ", ".join(about.listeners),
        ", ".join(about.senders),
        "yes" if about.forwardable else "",
    ]


def api_page(key: int) -> str:
    """One API: its docstring, both messages, and what versions changed."""
    request, response = request_class(key), response_class(key)
    module = import_module(request.__module__)
    changed = change_table([request, response])
    sections = [request.__name__, response.__name__, *([CHANGES] if changed else [])]
    parts = [
        f"{WIDE}# {API_NAMES[key]}\n",
        raw(facts(_facts(key))),
        "Below: " + ", ".join(f"[{one}](#{one.lower().replace(' ', '-')})" for one in sections),
        "",
        module_markdown(module, root="../", without_title=True),
        "",
        raw(LEGEND),
        *message_section(request, "##", "../"),
        *message_section(response, "##", "../"),
    ]
    if changed:
        parts += [f"## {CHANGES}\n", raw(changed)]
    return "\n".join(parts)


def _facts(key: int) -> Iterator[tuple[str, str]]:
    request, about = request_class(key), API_FACTS[key]
    oldest = about.oldest_served
    yield "API key", str(key)
    yield "Versions", span(request.min_version, request.max_version)
    yield "Flexible", flexible(request)
    yield "Kafka 4 answers", "" if oldest is None else span(oldest, request.max_version)
    yield "Gone in Kafka", about.removed_in or ""
    yield "Fencepost answers", served(key) or "no"
    yield "Taken by", ", ".join(about.listeners)
    yield "Sent by", ", ".join(about.senders)
    yield "Forwarded to the controller", "yes" if about.forwardable else ""
    yield "Takes CLUSTER_ACTION", "yes" if about.cluster_action else ""
    yield "Module", code(request.__module__)


def message_section(cls: type[Message], level: str, root: str) -> list[str]:
    """One message: a heading, what it is, and its fields."""
    return [
        f"{level} {cls.__name__}\n",
        f"{markdown(own_doc(cls), root=root)}\n",
        raw(f'<p class="heading">{heading(cls)}</p>{message_table(cls, root)}'),
    ]
