"""What people do with pages of groups, replicas, runs, logs and faults, in a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.producer import Producer
from fencepost.testing import Cluster, Proxy
from fencepost.testing.control import ControlPort
from tests.browser.conftest import Watched
from tests.browser.data import GROUP, MARKUP, SHARE_GROUP
from tests.browser.sources import REFUSED, append_events, event
from tests.browser.test_journeys import expect
from tests.console.serving import serving
from tests.waiting import eventually


def rows(page: Any, caption: str) -> Any:
    return page.get_by_role("group", name=caption, exact=True).locator("tbody tr")


def test_from_a_group_to_the_first_record_that_it_has_not_read(page, cluster):
    page.goto("/groups")
    page.get_by_role("link", name=GROUP, exact=True).click()
    expect()(page.locator("main")).to_contain_text("offsets behind in 1 partition, and has no")
    row = rows(page, "lag by partition").filter(has_text="payments")
    before = int(row.locator("td.number").last.inner_text())
    with Client(cluster.bootstrap_servers) as client, Producer(client) as producer:
        producer.send("payments", b"one more", partition=0)
    expect()(row.locator("td.number").last).to_have_text(str(before + 1))
    row.get_by_role("link").click()
    expect()(page.get_by_role("heading", level=1)).to_have_text("Records of payments")
    expect()(page.locator("main")).to_contain_text("payments-0 0 to")


def test_groups_are_chosen_by_type_and_a_share_group_is_drawn(page):
    page.goto("/groups")
    page.locator("select[name=type]").select_option("share")
    page.get_by_role("button", name="Show").click()
    expect()(page).to_have_url(re.compile("type=share"))
    expect()(rows(page, "groups")).to_have_count(1)
    page.get_by_role("link", name=SHARE_GROUP, exact=True).click()
    expect()(page.locator("main svg rect.unsettled")).to_have_count(1)
    page.get_by_text("As text").click()
    expect()(page.locator("details pre")).to_contain_text("payments-0  start 0, end")


def test_the_matrix_of_replicas_is_walked_by_arrow_keys(page):
    page.goto("/replication?filter=orders")
    expect()(page.locator("table.matrix tbody tr")).to_have_count(3)
    page.locator("table.matrix td[tabindex='0']").focus()
    place = "[document.activeElement.parentElement.rowIndex, document.activeElement.cellIndex]"
    assert page.evaluate(place) == [1, 1]
    for key, there in (("ArrowRight", [1, 2]), ("ArrowDown", [2, 2]), ("ArrowLeft", [2, 1])):
        page.keyboard.press(key)
        assert page.evaluate(place) == there
    page.locator("table.matrix").get_by_role("link", name="orders-1").click()
    expect()(page.locator("main svg.epochs")).to_have_count(1)
    expect()(page.get_by_role("heading", level=1)).to_contain_text("orders-1")


def test_a_run_is_gone_through_step_by_step(page):
    page.goto("/replays")
    page.get_by_role("link", name="run.json").click()
    expect()(page.locator(".findings .bad")).to_have_count(1)
    page.locator("select[name=messages]").select_option("all")
    page.get_by_role("button", name="Show").click()
    expect()(page).to_have_url(re.compile("messages=all"))
    where = page.locator(".findings").filter(has_text="Steps")
    shown = where.inner_text()
    page.get_by_role("link", name="The steps before these.").click()
    expect()(page).to_have_url(re.compile("first="))
    assert where.inner_text() != shown
    page.get_by_role("link", name="More").click()
    expect()(page).not_to_have_url(re.compile("first=0"))


def test_refusals_come_while_the_audit_log_is_open(page, sources: Path):
    page.goto("/audit-log")
    refused = rows(page, "events")
    expect()(refused).to_have_count(REFUSED)
    assert MARKUP in refused.first.text_content()
    append_events(sources / "audit.log", [event(40, False, "User:eve")])
    expect()(refused.first).to_contain_text("User:eve")
    expect()(rows(page, "refused, by principal and resource")).to_have_count(2)
    page.locator("select[name=show]").select_option("all")
    page.get_by_label("principal contains").fill("bob")
    page.keyboard.press("Enter")
    expect()(page).to_have_url(re.compile("show=all"))
    expect()(rows(page, "events")).to_have_count(30)


def test_from_an_audit_to_the_batches_of_a_finding(page):
    page.goto("/audits")
    page.get_by_role("link", name="monday.json").click()
    expect()(page.locator("table.matrix td.bad")).to_have_text("E 1")
    page.locator("select[name=severity]").select_option("error")
    page.get_by_role("button", name="Show").click()
    expect()(page).to_have_url(re.compile("severity=error"))
    expect()(rows(page, "findings")).to_have_count(1)
    rows(page, "findings").get_by_role("link").click()
    expect()(page.get_by_role("heading", level=1)).to_have_text("Batches of orders-0")


def test_a_fault_is_put_in_force_and_lifted_by_the_keyboard_alone(page, proxy: Proxy):
    def follow(name: str) -> None:
        page.get_by_role("link", name=name).focus()
        page.keyboard.press("Enter")

    def confirm() -> None:
        target = page.locator("form.confirm strong").inner_text()
        page.get_by_label("To make this change").focus()
        page.keyboard.type(target)
        page.keyboard.press("Enter")

    page.goto("/faults")
    expect()(page.locator("main")).to_contain_text("No fault is in force")
    follow("Have requests fail or wait.")
    page.get_by_label("requests of API").focus()
    page.keyboard.type("Produce")
    page.keyboard.press("Enter")
    expect()(page.locator("pre")).to_contain_text("+ fail with NOT_LEADER_OR_FOLLOWER: Produce")
    confirm()
    expect()(page.locator("main")).to_contain_text("The fault is in force")
    assert [one.kind for one in proxy.faults] == ["fail"]
    page.goto("/faults")
    expect()(page.locator("main")).to_contain_text("In force: 1 fault")
    follow(str(proxy.faults[0].id))
    expect()(page.locator("pre")).to_contain_text("- fault")
    confirm()
    expect()(page.locator("main")).to_contain_text("1 fault lifted")
    assert proxy.faults == []


def test_dead_letters_are_produced_again(page, cluster):
    page.goto("/topics/letters/records")
    page.get_by_role("link", name="Produce dead letters again").click()
    expect()(page.locator("pre")).to_contain_text("+ payments-0: 6 bytes, of letter letters-0 at 0")
    page.get_by_label("To make this change").fill("letters")
    page.get_by_role("button", name="Redrive dead letters").click()
    expect()(page.locator("main")).to_contain_text("Produced 1 record again")
    page.goto("/topics/payments/records?partitions=0&limit=1")
    expect()(rows(page, "records")).to_contain_text("a copy")


@pytest.fixture
def three(watched: Watched) -> Any:
    """A cluster of three brokers that may die, and a page of its console."""
    with Cluster(3) as cluster, ControlPort(cluster) as port:
        options = ("--allow-writes", "--faults", f"http://{port.address}/")
        with serving(cluster.bootstrap_servers, *options) as console:
            yield cluster, watched.page(console.origin)


def test_a_broker_is_killed_on_one_page_and_out_of_sync_on_another(three):
    cluster, page = three
    with Client(cluster.bootstrap_servers) as client:
        Admin(client).create_topic("orders", 1, 3)
        Admin(client).wait_for_topic("orders")
    page.goto("/replication?filter=orders")
    cells = page.locator("table.matrix tbody td")
    expect()(cells.filter(has_text=re.compile("^[LS]"))).to_have_count(3)
    other = page.context.new_page()
    other.goto("/writes/node?node=3&action=kill")
    other.get_by_label("To make this change").fill("node 3")
    other.get_by_role("button", name="Stop or start a node").click()
    expect()(other.locator("main")).to_contain_text("Node 3: kill is done")
    expect()(cells.filter(has_text=re.compile("^[LS]"))).to_have_count(2)
    page.goto("/brokers/3")
    expect()(page.locator("main")).to_contain_text("fenced")
    other.goto("/faults")
    expect()(rows(other, "nodes").filter(has_text="stopped")).to_have_count(1)
    cluster.start(3)
    expect()(page.locator("main")).not_to_contain_text("fenced")
    expect()(other.locator("main")).to_contain_text("No fault is in force")


def test_a_tail_goes_on_when_the_leader_dies(three):
    cluster, page = three
    with Client(cluster.bootstrap_servers) as client:
        admin = Admin(client)
        admin.create_topic("orders", 1, 3)
        admin.wait_for_topic("orders")
        page.goto("/topics/orders/tail")
        live = page.locator(".live")
        with page.expect_response("**/tail/events*"):
            live.get_by_role("button", name="Start").click()
        with Producer(client) as producer:
            producer.send("orders", b"before")
            producer.flush()
            expect()(live.locator("tbody")).to_contain_text("before")
            leader = admin.describe_topic("orders").partitions[0].leader_id
            cluster.kill(leader)
            eventually(
                lambda: admin.describe_topic("orders").partitions[0].leader_id != leader,
                "another broker leads",
            )
            producer.send("orders", b"after")
            producer.flush()
        expect()(live.locator("tbody")).to_contain_text("after")
        expect()(live.locator("tbody tr")).to_have_count(2)
        live.get_by_role("button", name="Stop").click()
