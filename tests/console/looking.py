"""Pages of a session on some cluster, made without a server or a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

import pytest

pytest.importorskip("starlette")

from fencepost.client.config import ClientConfig
from fencepost.client.metadata import Node, PartitionInfo, TopicInfo
from fencepost.console import html
from fencepost.console.asked import Asked
from fencepost.console.page import Page, document_of
from fencepost.console.pages.table import make_page, page_named
from fencepost.console.sample import Sample
from fencepost.console.session import Session
from fencepost.console.standing import Standing
from fencepost.console.text import text_of
from fencepost.wire.types import Uuid

T = TypeVar("T")
STANDING = Standing(0, "<script>", 0, None, 0, None, 1.0, 0, 0, 0.0, 4)


def in_session(bootstrap: str, look: Callable[[Session], Awaitable[T]]) -> T:
    """What `look` returns of a session that is closed afterwards."""

    async def looking() -> T:
        session = Session(ClientConfig(bootstrap_servers=bootstrap))
        try:
            return await look(session)
        finally:
            await session.close()

    return asyncio.run(looking())


async def page_of(session: Session, name: str, **values: str) -> Page:
    """A page, of which all three renderings can be made."""
    page = await make_page(page_named(name), session, Asked(values))
    html.document(page, "/", session.standing())
    text_of(page)
    document_of(page)
    return page


def look_at(bootstrap: str, name: str, **values: str) -> Page:
    """One page of a session of its own."""
    return in_session(bootstrap, lambda session: page_of(session, name, **values))


def sentences(page: Page) -> list[str]:
    """All sentences of a page."""
    return [one.text for section in page.sections for one in section.sentences]


def documents(page: Page) -> list[Any]:
    """What JSON has of each section."""
    found: list[Any] = document_of(page)["sections"]
    return [section["document"] for section in found]


# -- samples without a cluster ---------------------------------------------------------------------


def partition_info(
    number: int, leader: int, replicas: Sequence[int], isr: Sequence[int], epoch: int = 0
) -> PartitionInfo:
    return PartitionInfo(number, leader, epoch, tuple(replicas), tuple(isr), ())


def topic_info(name: str, partitions: Iterable[PartitionInfo], id_: int = 1) -> TopicInfo:
    topic_id = Uuid(id_.to_bytes(16, "big"))
    return TopicInfo(name, topic_id, False, {one.partition: one for one in partitions})


def sample_of(
    topics: Iterable[TopicInfo] = (),
    brokers: Iterable[int] = (1, 2, 3),
    fenced: Iterable[int] = (),
    taken_at_ms: int = 1_000,
    **fields: Any,
) -> Sample:
    """A sample without groups or a quorum, unless they are given."""
    nodes = {id_: Node(id_, f"b{id_}", 9092, None) for id_ in brokers}
    given = {"groups": None, "quorum": None, **fields}
    return Sample(
        taken_at_ms=taken_at_ms,
        took_ms=1.0,
        cluster_id="made up",
        controller_id=1,
        brokers=nodes,
        fenced=frozenset(fenced),
        topics={topic.name: topic for topic in topics},
        requests={},
        errors={},
        **given,
    )
