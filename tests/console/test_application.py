"""Every page over HTTP on a real cluster: as HTML, as JSON, and the same as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.config import ClientConfig
from fencepost.testing import Cluster

pytest.importorskip("starlette")
testclient = pytest.importorskip("starlette.testclient")

from fencepost.console.pages.table import PAGES  # noqa: E402
from fencepost.console.session import Session  # noqa: E402
from fencepost.console.web.application import application  # noqa: E402
from fencepost.console.web.safety import HEADERS  # noqa: E402

HOST = "127.0.0.1:8093"


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with Cluster() as cluster:
        with Client(cluster.bootstrap_servers) as client:
            Admin(client).create_topic("orders", 3, 1)
        yield cluster.bootstrap_servers


@pytest.fixture
def browser(served: str) -> Iterator[object]:
    session = Session(ClientConfig(bootstrap_servers=served))
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
