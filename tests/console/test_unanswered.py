"""A cluster that does not answer any more: what pages say of it, since when, and how soon."""

from __future__ import annotations

import asyncio
import time

import pytest

pytest.importorskip("starlette")

from fencepost.client.config import ClientConfig
from fencepost.client.errors import ClientError, ConnectionFailed, DeadlineExceeded
from fencepost.console.page import Page, document_of
from fencepost.console.sampling import Failing, Sampler
from fencepost.console.session import Session
from fencepost.console.text import text_of
from tests.console.looking import page_of, partition_info, sample_of, topic_info
from tests.ports import address_of, refusing_port
from tests.waiting import eventually

SINCE = "1970-01-01T00:00:01.000Z"


def page_while_away(name: str, **values: str) -> Page:
    """A page of a cluster that was well at its last sample and has not answered since."""

    async def look() -> Page:
        session = Session(ClientConfig(bootstrap_servers="127.0.0.1:1", api_timeout_ms=100))
        session.sampler.newest = sample_of(
            [topic_info("orders", [partition_info(0, 1, [1, 2], [1, 2])])], taken_at_ms=1_000
        )
        session.sampler.failing = Failing(1_000, 1, ClientError("refused"))
        try:
            return await page_of(session, name, **values)
        finally:
            await session.close()

    return asyncio.run(look())


def test_the_overview_does_not_say_that_all_is_well():
    page = page_while_away("overview")
    health, brokers = document_of(page)["sections"][:2]
    assert [one["text"] for one in health["sentences"]] == [
        f"Not known since {SINCE}: the cluster does not answer."
        " Then it had 3 brokers, 1 topic, 1 partition."
    ]
    assert health["sentences"][0]["level"] == "bad"
    assert {row["state"] for row in brokers["document"]["brokers"]} == {"not known"}
    assert "All is well" not in text_of(page)
    assert "runs" not in text_of(page)


def test_troubles_of_the_last_sample_are_of_then():
    async def look() -> Page:
        session = Session(ClientConfig(bootstrap_servers="127.0.0.1:1"))
        session.sampler.newest = sample_of(fenced=[2])
        session.sampler.failing = Failing(1_000, 1, ClientError("refused"))
        try:
            return await page_of(session, "overview")
        finally:
            await session.close()

    first, second = document_of(asyncio.run(look()))["sections"][0]["sentences"]
    assert first["text"].startswith("Not known")
    assert second["text"].startswith("Then: Broker 2 is fenced")


@pytest.mark.parametrize(("name", "values"), [("brokers", {}), ("broker", {"broker": "1"})])
def test_the_state_of_brokers_is_not_known(name: str, values: dict[str, str]):
    page = page_while_away(name, **values)
    document = document_of(page)["sections"][0]["document"]
    one = document[0] if isinstance(document, list) else document
    assert one["fenced"] is None
    assert "not known" in text_of(page)
    assert "It is in the cluster" not in text_of(page)


def failing_of(sampler: Sampler) -> Failing:
    sampler.start()
    try:
        eventually(lambda: sampler.failing, "a look fails")
        assert sampler.failing is not None
        return sampler.failing
    finally:
        sampler.close()


def test_since_when_is_the_time_of_the_last_answer():
    with refusing_port() as held:
        sampler = Sampler(ClientConfig(bootstrap_servers=address_of(held)))
        sampler.newest = sample_of(taken_at_ms=1_234)
        assert failing_of(sampler).since_ms == 1_234


def test_before_any_answer_it_is_the_begin_of_the_first_look():
    with refusing_port() as held:
        sampler = Sampler(ClientConfig(bootstrap_servers=address_of(held)))
        before_ms = time.time_ns() // 1_000_000
        failing = failing_of(sampler)
    assert before_ms <= failing.since_ms <= time.time_ns() // 1_000_000


def test_a_look_that_every_broker_refuses_fails_without_trying_again():
    with refusing_port() as held:
        error = failing_of(Sampler(ClientConfig(bootstrap_servers=address_of(held)))).error
    assert isinstance(error, ConnectionFailed)
    assert not isinstance(error, DeadlineExceeded)
    assert "can be reached" in str(error)


def test_the_banner_names_one_time():
    session = Session(ClientConfig(bootstrap_servers="127.0.0.1:1"))
    session.sampler.newest = sample_of(taken_at_ms=1_000)
    session.sampler.failing = Failing(1_000, 2, ClientError("refused"))
    first = session.standing().findings[0].text
    assert first.startswith(f"The cluster has not answered since {SINCE} (2 looks failed")
    assert "what is shown of it was so then, " in first
