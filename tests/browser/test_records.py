"""Records in a browser: browsed, searched, looked at one by one, and followed as they come."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fencepost.client.cluster import Cluster as Client
from fencepost.client.producer import Producer
from fencepost.testing import Cluster
from tests.browser.data import MARKUP
from tests.browser.test_accessibility import axe_script, violations
from tests.browser.test_journeys import expect


@pytest.fixture
def producer(cluster: Cluster) -> Any:
    with Client(cluster.bootstrap_servers) as client, Producer(client) as made:
        yield made


def test_from_a_topic_to_a_record_and_its_batch(page):
    page.goto("/topics/orders")
    page.get_by_role("link", name="Its records").click()
    expect()(page.get_by_role("heading", level=1)).to_have_text("Records of orders")
    rows = page.get_by_role("group", name="records").locator("tbody tr")
    assert rows.count() == 50
    assert MARKUP in rows.first.text_content()
    rows.first.get_by_role("link").click()
    expect()(page.locator("main")).to_contain_text("shown as utf-8")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the bytes").last.click()
    assert MARKUP.encode() in download.value.path().read_bytes()
    page.get_by_role("link", name="Its batch and those after it").click()
    expect()(page.get_by_role("heading", level=1)).to_contain_text("Batches of orders-")


def test_a_search_is_in_the_address_and_says_what_it_went_over(page):
    page.goto("/topics/orders/records")
    page.get_by_label("filter").fill('value contains "49:"')
    page.keyboard.press("Enter")
    expect()(page).to_have_url(re.compile("filter=value"))
    expect()(page.locator(".findings")).to_contain_text("1 record; scanned orders-0")
    page.get_by_label("filter").fill("offset ==")
    page.keyboard.press("Enter")
    expect()(page.locator("main")).to_contain_text("at character 9")


def test_a_tail_is_started_stopped_and_goes_on(page, producer):
    def send(value: str) -> None:
        producer.send("clicks", value.encode(), partition=0)
        producer.flush()

    page.goto("/topics/clicks/tail")
    live, status = page.locator(".live"), page.locator(".live [role=status]")
    with page.expect_response("**/tail/events*"):  # it has begun at the end of the log
        live.get_by_role("button", name="Start").click()
    expect()(status).to_contain_text("Following")
    send(f"first {MARKUP}")
    expect()(live.locator("tbody tr")).to_have_count(1)
    assert MARKUP in live.locator("tbody").text_content()
    live.get_by_role("button", name="Stop").click()
    expect()(status).to_contain_text("Stopped; 1 record")
    send("while it was stopped")
    assert live.locator("tbody tr").count() == 1
    live.get_by_role("button", name="Start").click()
    expect()(live.locator("tbody tr")).to_have_count(2)
    expect()(live.locator("tbody tr").first).to_contain_text("while it was stopped")
    page.get_by_role("link", name="Topics", exact=True).click()
    expect()(page.get_by_role("heading", level=1)).to_have_text("Topics")


def test_axe_finds_nothing_on_pages_of_records(page):
    script = axe_script()
    found = []
    for path in ("records", "records?limit=1", "batches/0", "records/0/0", "tail"):
        page.goto(f"/topics/orders/{path}")
        found += violations(page, script)
    assert found == []
