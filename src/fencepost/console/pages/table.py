"""Which pages there are: their paths, and the functions that make them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from fencepost.console.asked import Asked, NotThere
from fencepost.console.page import Page
from fencepost.console.pages.access import access
from fencepost.console.pages.batches import batches
from fencepost.console.pages.groups import group, groups
from fencepost.console.pages.overview import overview
from fencepost.console.pages.record import record
from fencepost.console.pages.records import records
from fencepost.console.pages.replays import replay, replays
from fencepost.console.pages.topics import topic, topics
from fencepost.console.session import Counting, Session

Make = Callable[[Session, Asked], Awaitable[Page]]


class PageKind(NamedTuple):
    """A kind of page. `path` is its path with the names of its parts in braces; `label` is what
    the list of pages at the top calls it, None for one that others link to."""

    name: str
    path: str
    make: Make
    label: str | None
    help: str


PAGES: Final = (
    PageKind("overview", "/", overview, "Overview", "health, brokers, events seen"),
    PageKind("topics", "/topics", topics, "Topics", "all topics, those in trouble first"),
    PageKind("topic", "/topics/{topic}", topic, None, "one topic: partitions, replicas, configs"),
    PageKind("records", "/topics/{topic}/records", records, None, "records of a topic"),
    PageKind(
        "record",
        "/topics/{topic}/records/{partition}/{offset}",
        record,
        None,
        "one record, its bytes, and its batch",
    ),
    PageKind(
        "batches",
        "/topics/{topic}/batches/{partition}",
        batches,
        None,
        "batches of a partition: codec, producer, sequence, leader epoch",
    ),
    PageKind("groups", "/groups", groups, "Groups", "groups of every type"),
    PageKind(
        "group", "/groups/{group}", group, None, "one group: who waits for whom, members, lag"
    ),
    PageKind("access", "/access", access, "Access", "ACLs, users, quotas, tokens; who may?"),
    PageKind("replays", "/replays", replays, "Replays", "recordings of simulated runs"),
    PageKind("replay", "/replays/{recording}", replay, None, "a simulated run, step by step"),
)


def page_named(name: str) -> PageKind:
    """The kind of page with this name. Raises NotThere with the names there are."""
    for kind in PAGES:
        if kind.name == name:
            return kind
    raise NotThere(f"no page {name!r}; there are {', '.join(kind.name for kind in PAGES)}")


async def make_page(kind: PageKind, session: Session, asked: Asked) -> Page:
    """The page, with the requests that it cost the cluster. Raises BadQuery, NotThere, and
    ClientError where the cluster does not answer."""
    import msgspec

    with Counting() as requests:
        page = await kind.make(session, asked)
    return msgspec.structs.replace(page, requests=dict(requests))
