"""The page of access: what a secured cluster says, who may what, and a cluster without rules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("cryptography")

from fencepost.client import ClientConfig
from fencepost.client.acls import AclBinding
from fencepost.machines.image.acls import WILDCARD, AclOperation, ResourceType
from fencepost.testing import Cluster, ClusterSecurity

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def config() -> Iterator[ClientConfig]:
    """How the admin of a secured cluster logs in."""
    rules = [
        AclBinding(ResourceType.TOPIC, "orders", "User:ada", AclOperation.WRITE),
        AclBinding(ResourceType.TOPIC, "<img>", "User:<b>", AclOperation.READ),
        AclBinding(ResourceType.GROUP, WILDCARD, "User:*", AclOperation.READ),
    ]
    with Cluster(security=ClusterSecurity(users={"ada": "of ada"}, acls=rules)) as cluster:
        yield ClientConfig.from_props(cluster.security.login("admin").properties())


def test_everything_is_shown_and_nothing_secret(config: ClientConfig, browse):
    console = browse(config)
    page, document = console.get("/access"), console.get("/api/access").json()
    sections = {one["heading"]: one["document"] for one in document["sections"]}
    assert {"ACLs", "Users who log in by SCRAM", "Quotas", "Delegation tokens"} == set(sections)
    assert {row["principal"] for row in sections["ACLs"]} >= {"User:ada", "User:<b>", "User:*"}
    assert "ada" in {row["user"] for row in sections["Users who log in by SCRAM"]}
    assert "of ada" not in page.text
    assert "<b>" not in page.text and "&lt;b&gt;" in page.text
    acls = next(one for one in document["sections"] if one["heading"] == "ACLs")
    assert any(one["level"] == "warning" for one in acls["sentences"]), "User:* reads every group"


@pytest.mark.parametrize(
    ("query", "words", "level"),
    [
        ("principal=ada&operation=write&type=topic&name=orders", "User:ada may WRITE", "good"),
        ("principal=ada&operation=read&type=topic&name=orders", "may not READ", "warning"),
        ("principal=eve&operation=write&type=topic&name=orders", "may not WRITE", "warning"),
        ("principal=User:eve&operation=read&type=group&name=g", "User:eve may READ", "good"),
        ("principal=admin&operation=alter&type=cluster", "super.users names it", "good"),
    ],
)
def test_who_may_is_decided_by_the_authorizer(
    config: ClientConfig, browse, query: str, words: str, level: str
):
    document = browse(config).get(f"/api/access?{query}").json()
    answer = document["sections"][0]
    assert answer["heading"] == "Who may?"
    assert words in answer["sentences"][0]["text"]
    assert answer["sentences"][0]["level"] == level


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("principal=ada&type=topic", "a topic has a name"),
        ("principal=ada&operation=fly&type=topic&name=t", "operation='fly'"),
        ("principal=ada&type=planet&name=t", "type='planet'"),
        ("principal=:&type=topic&name=t", "it must be as ada or User:ada"),
    ],
)
def test_what_cannot_be_asked_says_why(config: ClientConfig, browse, query: str, words: str):
    answer = browse(config).get(f"/api/access?{query}")
    assert answer.status_code == 400
    assert words in answer.json()["error"]


def test_a_cluster_without_rules_says_so(browse):
    with Cluster() as cluster:
        console = browse(cluster.bootstrap_servers)
        document = console.get("/api/access").json()
        asked = console.get("/api/access?principal=ada&type=topic&name=t&operation=read").json()
    acls = next(one for one in document["sections"] if one["heading"] == "ACLs")
    assert "SECURITY_DISABLED" in acls["sentences"][0]["text"]
    assert "It cannot be told" in asked["sections"][0]["sentences"][0]["text"]
