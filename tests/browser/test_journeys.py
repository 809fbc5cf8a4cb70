"""What people do with the console, in a browser."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.testing import Cluster
from tests.browser.conftest import Watched
from tests.browser.data import MARKUP
from tests.browser.serving_paths import header_paths
from tests.console.serving import ServedConsole, serving
from tests.ports import address_of, refusing_port
from tests.waiting import DEADLINE_S, eventually

REFRESHED = "() => document.querySelector('.age').dataset.ageMs !== window.before"


def wait_for_look(page: Any) -> None:
    """Until the page has been asked for again and shows the answer."""
    page.evaluate("() => { window.before = document.querySelector('.age').dataset.ageMs }")
    page.wait_for_function(REFRESHED)


def expect() -> Any:
    from playwright.sync_api import expect as found

    found.set_options(timeout=DEADLINE_S * 1000)
    return found


def test_from_a_list_to_a_topic_and_back(page):
    page.goto("/")
    page.get_by_role("link", name="Topics", exact=True).click()
    expect()(page.get_by_role("heading", level=1)).to_have_text("Topics")
    page.get_by_role("link", name="orders", exact=True).click()
    expect()(page.get_by_role("heading", level=1)).to_have_text("Topic orders")
    assert page.locator("tbody tr").count() == 3
    page.go_back()
    expect()(page.get_by_role("heading", level=1)).to_have_text("Topics")


def test_a_filter_is_in_the_address_and_outlives_a_reload(page):
    page.goto("/topics")
    page.get_by_label("name contains").fill("topic-01")
    page.get_by_role("button", name="Show").click()
    expect()(page).to_have_url(re.compile("filter=topic-01"))
    assert page.locator("tbody tr").count() == 10
    page.reload()
    assert page.locator("tbody tr").count() == 10
    assert page.get_by_label("name contains").input_value() == "topic-01"


def test_a_long_list_goes_on(page):
    page.goto("/topics?order=partitions")
    total = int(page.locator(".findings").inner_text().split(" topics of ")[0])
    assert page.locator("tbody tr").count() == 100
    page.get_by_role("link", name="More").click()
    expect()(page).to_have_url(re.compile("first=100"))
    assert page.locator("tbody tr").count() == total - 100
    assert "order=partitions" in page.url


def test_refreshing_is_paused_and_goes_on(page):
    page.goto("/")
    button = page.get_by_role("button", name="Pause")
    button.click()
    expect()(button).to_have_attribute("aria-pressed", "true")
    expect()(page.get_by_role("status")).to_contain_text("Paused")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(6_000)  # a page is asked for again after 5 s
    assert asked == []
    button.click()
    wait_for_look(page)
    expect()(button).to_have_attribute("aria-pressed", "false")


def test_a_look_keeps_focus_typed_text_and_what_is_open(page):
    page.goto("/topics")
    field = page.get_by_label("name contains")
    field.type("ord")
    wait_for_look(page)
    assert field.input_value() == "ord"
    assert page.evaluate("document.activeElement.name") == "filter"
    link = page.get_by_role("link", name="payments", exact=True)
    link.focus()
    wait_for_look(page)
    assert page.evaluate("document.activeElement.textContent") == "payments"


def test_a_row_keeps_the_focus_when_others_come_before_it(watched, console, cluster):
    """`aaa` is created while the link of `orders` has the focus."""
    from fencepost.client.admin import Admin
    from fencepost.client.cluster import Cluster as Client

    page = watched.page(console.origin)
    page.goto("/topics")
    page.get_by_role("link", name="orders", exact=True).focus()
    with Client(cluster.bootstrap_servers) as client:
        Admin(client).create_topic("aaa", 1, 1)
        page.get_by_role("link", name="aaa", exact=True).wait_for()
        assert page.evaluate("document.activeElement.textContent") == "orders"
        Admin(client).delete_topic("aaa")
    page.get_by_role("link", name="aaa", exact=True).wait_for(state="detached")
    assert page.evaluate("document.activeElement.textContent") == "orders"


def test_the_keyboard_alone_reaches_every_page_of_the_header(page):
    paths = header_paths(page)
    for number, path in enumerate(paths):
        page.goto("/")
        page.keyboard.press("Tab")  # to the content
        page.keyboard.press("Tab")  # the name
        for _ in range(number + 1):
            page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.getAttribute('href')") == path
        page.keyboard.press("Enter")
        page.wait_for_url("**" + path)
        expect()(page.locator('.top [aria-current="page"]')).to_have_attribute("href", path)


def test_the_first_stop_of_the_keyboard_skips_the_header(page):
    page.goto("/topics")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "filter"


def test_keys_focus_the_filter_and_tell_what_keys_there_are(page):
    page.goto("/topics")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "filter"
    page.keyboard.type("a/?p")
    assert page.get_by_label("name contains").input_value() == "a/?p"
    page.get_by_role("heading", level=1).click()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect()(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect()(dialog).to_have_count(0)
    page.keyboard.press("p")
    expect()(page.get_by_role("button", name="Pause")).to_have_attribute("aria-pressed", "true")


def test_text_that_is_selected_stays_selected(page):
    page.goto("/topics/orders")
    heading = page.get_by_role("heading", level=1)
    heading.dblclick(position={"x": 10, "y": 10})
    page.wait_for_timeout(6_000)  # a look would have come after 5 s
    assert page.evaluate("getSelection().toString()").strip() == "Topic"


def test_names_are_text_wherever_they_come_from(page):
    page.goto("/topics/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    assert page.locator("main img").count() == 0
    expect()(page.locator("main")).to_contain_text("no topic '<img src=x onerror=alert(1)>'")
    page.goto("/topics?filter=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
    assert page.locator("main script").count() == 0
    assert page.get_by_label("name contains").input_value() == '"><script>alert(1)</script>'


@pytest.fixture
def page(watched: Watched, console: ServedConsole) -> Any:
    # Answers that say "not there" are 404, of which the browser tells its console.
    watched.allowed_errors = ["status of 404", "status of 400", "status of 409"]
    return watched.page(console.origin, viewport={"width": 1280, "height": 800})


def test_pages_that_are_not_there_say_so(page):
    assert page.goto("/nowhere").status == 404
    expect()(page.locator("main")).to_contain_text("This console has no page '/nowhere'")
    page.get_by_role("link", name="Topics", exact=True).click()
    assert page.goto("/topics?rows=0").status == 400
    expect()(page.locator("main")).to_contain_text("rows='0': a number from 1 to 1000 is allowed")


def test_a_mistyped_filter_is_told_with_the_right_one(page):
    assert page.goto("/topics?fliter=orders").status == 400
    expect()(page.locator("main")).to_contain_text("fliter='orders': did you mean filter?")


def test_a_group_with_a_slash_in_its_name_is_reached_from_the_list(page, cluster):
    name = "team/billing?"
    with Client(cluster.bootstrap_servers) as client:
        Admin(client).alter_group_offsets(name, {TopicPartition("orders", 0): CommittedOffset(0)})

    def listed() -> bool:
        page.goto("/groups")
        return page.get_by_role("link", name=name, exact=True).is_visible()

    eventually(listed, "the group to be in the list")
    page.get_by_role("link", name=name, exact=True).click()
    expect()(page.get_by_role("heading", level=1)).to_have_text(f"Group {name}")
    assert page.url.endswith("/groups/team%2Fbilling%3F")


def test_every_page_works_without_javascript(watched, console):
    page = watched.page(console.origin, java_script_enabled=False)
    for path in header_paths(page):
        page.goto(path)
        assert page.get_by_role("heading", level=1).inner_text()
        assert not page.get_by_role("button", name="Pause").is_visible()
    page.goto("/topics")
    page.get_by_label("name contains").fill("orders")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="orders", exact=True).click()
    expect()(page.get_by_role("heading", level=1)).to_have_text("Topic orders")


def test_narrow_pages_do_not_scroll_sideways(watched, console):
    page = watched.page(console.origin, viewport={"width": 420, "height": 800})
    for path in (*header_paths(page), "/topics/orders"):
        page.goto(path)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 420, f"{path} is {wide} pixels wide"


def test_wide_pages_do_not_scroll_sideways_and_heads_of_tables_stay(page):
    for path in (*header_paths(page), "/topics/orders"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280, path
    page.goto("/topics")
    page.get_by_role("link", name="topic-080").scroll_into_view_if_needed()
    box = page.locator("thead th").first.bounding_box()
    assert -1 <= box["y"] < 800, "the head of the table is in sight"


def test_dark_pages_are_dark(watched, console):
    page = watched.page(console.origin, color_scheme="dark")
    page.goto("/")
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", colour)[:3])) < 64


def test_print_has_the_facts_and_not_the_controls(page):
    page.goto("/topics")
    page.emulate_media(media="print")
    assert not page.locator(".top nav").is_visible()
    assert not page.locator("form.fields").is_visible()
    assert page.locator("table").is_visible()
    assert page.evaluate("getComputedStyle(document.querySelector('.scroll')).maxHeight") == "none"


def test_every_page_says_what_the_console_costs(page):
    for path in (*header_paths(page), "/topics/orders", "/nowhere"):
        page.goto(path)
        expect()(page.locator("footer")).to_contain_text("the console's load on the cluster")


def test_json_is_what_the_page_shows(page):
    page.goto("/topics?filter=orders")
    with page.expect_navigation():
        page.get_by_role("link", name="JSON").click()
    assert '"name":"orders"' in page.locator("body").inner_text()


def test_a_console_that_ends_is_told_of(watched, cluster):
    watched.allowed_errors = ["Failed to load resource"]
    with serving(cluster.bootstrap_servers) as console:
        page = watched.page(console.origin)
        page.goto("/topics")
        console.process.terminate()
        console.process.wait()
        page.keyboard.press("r")
        expect()(page.get_by_role("status")).to_contain_text("has not answered since")
        assert page.locator("tbody tr").count() == 100, "what was shown is still there"


def test_a_token_leaves_the_address_bar(watched, cluster):
    watched.allowed_errors = ["status of 401"]
    with serving(cluster.bootstrap_servers, "--token") as console:
        page = watched.page(console.origin)
        assert page.goto("/topics").status == 401
        expect()(page.locator("main")).to_contain_text("asks for its token")
        page.goto(console.url)
        assert "token" not in page.url
        page.get_by_role("link", name="Topics", exact=True).click()
        expect()(page.get_by_role("heading", level=1)).to_have_text("Topics")
        assert "token" not in page.evaluate("document.cookie"), "scripts cannot read it"


def test_a_cluster_that_is_away_at_the_start_and_comes(watched):
    watched.allowed_errors = ["status of 502"]
    with refusing_port() as held, serving(address_of(held)) as console:
        page = watched.page(console.origin)
        assert page.goto("/").status == 502
        expect()(page.locator(".standing")).to_contain_text("The cluster has not answered since")
        port = held.getsockname()[1]
        held.close()
        with Cluster(1, faults=False, config={"listeners": f"PLAINTEXT://127.0.0.1:{port}"}):
            heading = page.get_by_role("heading", level=1)
            expect()(heading).to_have_text(re.compile("^Cluster "))
            expect()(page.locator(".standing")).to_have_count(0)


def test_a_broker_that_dies_while_its_page_is_open(watched):
    with Cluster(3, faults=False) as cluster, serving(cluster.bootstrap_servers) as console:
        page = watched.page(console.origin)
        page.goto("/")
        rows = page.locator("table", has_text="brokers").locator("tbody tr")
        expect()(rows).to_have_count(3)
        cluster.kill(3)
        expect()(page.locator("main")).to_contain_text("Broker 3 is fenced")
        expect()(page.locator("tr.bad")).to_contain_text("fenced")
        cluster.start(3)
        expect()(page.locator("main")).not_to_contain_text("Broker 3 is fenced")
        expect()(page.locator("main")).to_contain_text("broker 3 is in the cluster")


def test_a_cluster_that_dies_while_a_page_is_open(watched):
    watched.allowed_errors = ["status of 502"]
    with Cluster(1, faults=False) as cluster, serving(cluster.bootstrap_servers) as console:
        page = watched.page(console.origin)
        page.goto("/topics")
        cluster.kill()
        standing = page.locator(".standing")
        expect()(standing).to_contain_text("The cluster has not answered since")
        expect()(standing).to_contain_text("what is shown of it was so then")
        cluster.start()
        expect()(standing).to_have_count(0, timeout=90_000)


def test_a_record_that_is_markup_is_text(page):
    page.goto("/topics/orders/records")
    expect()(page.locator("main")).to_contain_text(MARKUP)
    assert page.locator("main script, main img").count() == 0


def test_a_change_is_shown_confirmed_by_name_and_made(page, cluster):
    page.goto("/writes")
    page.get_by_role("link", name="Create a topic").click()
    page.get_by_label("topic", exact=True).fill("made-here")
    page.get_by_label("configs").fill("retention.ms=60000")
    page.get_by_role("button", name="Show").click()
    expect()(page.locator("pre")).to_contain_text("+ topic made-here: 1 partition")
    page.get_by_label("To make this change, type made-here").fill("made-her")
    page.get_by_role("button", name="Create a topic").click()
    expect()(page.locator("main")).to_contain_text("Nothing was changed")
    page.get_by_label("To make this change, type made-here").fill("made-here")
    page.get_by_role("button", name="Create a topic").click()
    expect()(page.locator("main")).to_contain_text("Topic made-here was created")
    page.goto("/writes/delete-topic?topic=made-here")
    page.get_by_label("To make this change, type made-here").fill("made-here")
    page.get_by_role("button", name="Delete a topic").click()
    expect()(page.locator("main")).to_contain_text("Topic made-here was deleted")
