"""Every page over HTTP on a real cluster: as HTML, as JSON, and the same as text."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.config import ClientConfig
from fencepost.client.consumer import Consumer
from fencepost.client.metadata import TopicPartition
from fencepost.testing import Cluster
from tests.waiting import eventually

pytest.importorskip("starlette")
testclient = pytest.importorskip("starlette.testclient")

from fencepost.console.asked import Asked, NotThere, part_of, path_to  # noqa: E402
from fencepost.console.page import Page  # noqa: E402
from fencepost.console.pages.table import PAGES, PageKind  # noqa: E402
from fencepost.console.session import Options, Session  # noqa: E402
from fencepost.console.web.access import Access  # noqa: E402
from fencepost.console.web.application import application  # noqa: E402
from fencepost.console.web.safety import HEADERS  # noqa: E402
from tests.console.looking import in_session  # noqa: E402

HOST = "127.0.0.1:8093"


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with Cluster() as cluster:
        with Client(cluster.bootstrap_servers) as client:
            Admin(client).create_topic("orders", 3, 1)
        yield cluster.bootstrap_servers


@pytest.fixture
def browser(served: str) -> Iterator[object]:
    session = Session(ClientConfig(bootstrap_servers=served), Options(interval_s=0.5))
    with testclient.TestClient(
        application(session, frozenset({HOST})), base_url=f"http://{HOST}"
    ) as client:
        yield client


def test_a_page_is_html_and_json_of_the_same_value(browser):
    page, document = browser.get("/topics"), browser.get("/api/topics")
    assert page.status_code == document.status_code == 200
    assert '<a href="/topics/orders">orders</a>' in page.text
    assert [row["name"] for row in document.json()["sections"][0]["document"]] == ["orders"]
    assert document.json()["requests"] == {}, "lists ask the cluster nothing"


def test_a_topic_is_asked_for_when_it_is_shown(browser):
    document = browser.get("/api/topics/orders").json()
    assert 0 < sum(document["requests"].values()) <= 3
    partitions = document["sections"][0]["document"]["partitions"]
    assert [one["partition"] for one in partitions] == [0, 1, 2]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/topics/absent", 404, "no topic 'absent'"),
        ("/topics?rows=0", 400, "a number from 1 to 1000 is allowed"),
        ("/topics?order=x", 400, "allowed are name, trouble, partitions"),
        ("/topics?first=%00", 400, "a number from 0"),
        ("/topics/%3Cscript%3E", 404, "no topic '<script>'"),
    ],
)
def test_what_cannot_be_shown_says_why(browser, path: str, status: int, words: str):
    answer = browser.get("/api" + path)
    assert (answer.status_code, words in answer.json()["error"]) == (status, True)
    page = browser.get(path)
    assert page.status_code == status
    assert "<script>'" not in page.text


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/topics?rowz=5", "rowz='5': did you mean rows? the page topics takes filter, order,"),
        ("/quorum?first=5", "first='5': the page quorum takes nothing"),
        ("/topics/orders?topic=letters", "topic='letters': it is 'orders' already"),
        ("/topics?rows=1&rows=2", "rows='2': it is '1' already"),
        ("/topics/orders/records?ordr=oldest", "did you mean order?"),
        ("/topics/orders/tail/events?fliter=x", "did you mean filter?"),
        ("/topics/orders/records/0/0/value?hex=1", "a file of a record takes nothing"),
    ],
)
def test_what_a_page_does_not_take_is_said(browser, path: str, words: str):
    """It would be left out silently, and a filter with a slip of the pen would filter nothing."""
    answers = [browser.get(path)]
    if not path.endswith(("value?hex=1", "fliter=x")):
        answers.append(browser.get("/api" + path))
    for answer in answers:
        assert answer.status_code == 400
        text = answer.text.replace("&#39;", "'").replace("&amp;", "&")
        assert words in text


def test_a_token_that_nobody_asks_for_is_passed_over(browser):
    assert browser.get("/topics?token=abc&rows=5").status_code == 200


class Noting(Asked):
    """Notes by which names values are asked for."""

    def __init__(self, values: dict[str, str], read: set[str]) -> None:
        object.__setattr__(self, "values", NotingValues(values, read))


class NotingValues(dict[str, str]):
    """A dictionary that notes what is looked up."""

    def __init__(self, values: dict[str, str], read: set[str]) -> None:
        super().__init__(values)
        self._read = read

    def get(self, key: str, default: Any = None) -> Any:
        self._read.add(key)
        return super().get(key, default)


GIVEN = {
    "topic": "orders",
    "partition": "0",
    "offset": "0",
    "broker": "1",
    "id": "none",
    "group": "none",
    "principal": "User:a",
    "operation": "read",
    "type": "topic",
    "name": "orders",
}


@pytest.mark.parametrize("kind", PAGES, ids=lambda kind: kind.name)
def test_a_page_takes_what_it_asks_for_and_every_field(served: str, kind: PageKind):
    read: set[str] = set()

    async def look(session: Session) -> Page | None:
        values = {key: GIVEN[key] for key in (*kind.parts, *kind.keys) if key in GIVEN}
        if kind.name in ("configs", "groups"):
            values = {}
        with contextlib.suppress(NotThere):
            return await kind.make(session, Noting(values, read))
        return None

    page = in_session(served, look)
    takes = {*kind.parts, *kind.keys}
    # A tail is a look at records whose order and end are given.
    fixed = {"order", "at", "limit", "bytes", "seconds"} if kind.name == "tail" else set()
    assert read - fixed <= takes
    if page is not None:
        assert {field.name for field in page.fields} <= takes


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/topics/a%2Fb", 404, "no topic 'a/b'"),
        ("/topics/a%2Fb/0", 404, "no topic 'a/b'"),
        ("/topics/a%20b/records", 404, "no topic 'a b'"),
        ("/topics/a%3Fb/batches/0", 404, "no topic 'a?b'"),
        ("/topics/%2e%2e/tail", 404, "no topic '..'"),
        ("/topics/a%252Fb", 404, "no topic 'a%2Fb'"),
        ("/topics/%00", 404, "no topic '\\x00'"),
        ("/topics/%ff", 404, "no topic '\ufffd'"),
        ("/topics/a%2Fb/records/0/0", 404, "no topic 'a/b'"),
        ("/configs?topic=a%2Fb", 404, "no topic 'a/b'"),
        ("/transactions?explain=a%2Fb", 404, "no partition 'a/b'"),
        ("/groups/a%2Fb%20c", 404, "no group 'a/b c'"),
        ("/groups/a/b", 404, "no group 'a/b'"),
        ("/transactions/a%2Fb", 404, "no coordinator knows the transactional id 'a/b'"),
        ("/replays/%2e%2e%2Fetc%2Fpasswd", 404, "no recording '../etc/passwd'"),
        ("/absent%2Fpage", 404, "absent/page'"),
    ],
)
def test_names_may_have_any_characters(browser, path: str, status: int, words: str, capsys):
    answer = browser.get("/api" + path)
    assert (answer.status_code, words in answer.json()["error"]) == (status, True), answer.text
    assert browser.get(path).status_code == status
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("team/a?b", "team%2Fa%3Fb"),
        # A browser takes these out of a path, percent-encoded or not.
        (".", "~."),
        ("..", "~.."),
        ("~.", "~~."),
    ],
)
def test_a_group_has_a_page_whatever_its_name(served: str, browser, name: str, sent: str):
    with Client(served, group_id=name) as client:
        committing = Consumer(client, ["orders"])
        committing.poll(100)
        committing.store(TopicPartition("orders", 0), 0)
        committing.commit()
        committing.close()
    link = f'href="/groups/{sent}"'
    eventually(lambda: link in browser.get("/groups").text, "the group to be listed")
    answer = browser.get(f"/api/groups/{sent}")
    assert (answer.status_code, answer.json()["title"]) == (200, f"Group {name}")


@pytest.mark.parametrize(
    "name", [".", "..", "...", "~", "~.", "~..", "~~.", "a~.", ".~", "%2e", ""]
)
def test_a_part_of_a_path_comes_back_as_it_was(name: str):
    path = path_to("groups", name, "x")
    _, _, sent, _ = path.split("/")
    assert part_of(sent) == name
    assert unquote(sent) not in (".", "..")


def test_a_reader_without_a_token_learns_nothing_from_files_that_are_not_there(served: str):
    session = Session(ClientConfig(bootstrap_servers=served))
    routes = application(session, frozenset({HOST}), Access("secret"))
    with testclient.TestClient(routes, base_url=f"http://{HOST}") as client:
        for path in ("/static/absent", "/static%2Fabsent", "/static/..%2Ftopics"):
            answer = client.get(path)
            assert answer.status_code in (401, 404)
            assert "requests to the cluster" not in answer.text and "<nav" not in answer.text


def test_every_answer_has_the_headers_of_safety(browser):
    for path in ("/", "/api/topics", "/static/console.css", "/absent"):
        headers = browser.get(path).headers
        assert {name: headers[name] for name in HEADERS} == HEADERS


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8093", "", "127.0.0.1"])
def test_other_hosts_are_not_answered(browser, host: str):
    answer = browser.get("/", headers={"Host": host})
    assert answer.status_code == 421
    assert "orders" not in answer.text


def test_the_document_names_every_page():
    text = (Path(__file__).parents[2] / "docs" / "CONSOLE.md").read_text(encoding="utf-8")
    for kind in PAGES:
        row = f"| `{kind.name}` | `{kind.path.replace(':path', '')}` | "
        assert row in text, "docs/CONSOLE.md has a table of the pages"
