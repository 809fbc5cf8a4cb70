"""Who may do what: the decisions compared with an oracle, and what is remembered of them."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from msgspec.structs import replace

from fencepost.machines.authorizer import AclAuthorizer, Policy, Why
from fencepost.machines.authorizer.hosts import ClientHost, Range, client_host, parsed_range
from fencepost.machines.authorizer.index import MANY_RULES
from fencepost.machines.authorizer.machine import DECISIONS_MAX
from fencepost.machines.image.acls import Acl, AuthorizerNotReadyError
from fencepost.machines.image.persistent import PersistentMap
from fencepost.machines.session import Principal
from fencepost.wire.types import Uuid

from .authorizer_oracle import (
    ALLOW,
    DENY,
    LITERAL,
    PREFIXED,
    TOPIC,
    allows,
    allows_any,
    drawn_acl,
    drawn_question,
)

READ, WRITE = 3, 4
GROUP = 3
NOTHING_SET = Policy()
ALICE, HOST = Principal("User", "a"), "10.0.0.1"


def acl_id(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def numbered(acls: list[Acl] | tuple[Acl, ...]) -> PersistentMap[Uuid, Acl]:
    return PersistentMap((acl_id(number), acl) for number, acl in enumerate(acls, 1))


def authorizer(*acls: Acl, policy: Policy = NOTHING_SET) -> AclAuthorizer:
    made = AclAuthorizer(policy)
    made.learn(numbered(acls))
    made.loaded()
    return made


def acl(
    name: str = "t",
    operation: int = READ,
    *,
    principal: str = "User:a",
    host: str = "*",
    permission: int = ALLOW,
    pattern: int = LITERAL,
) -> Acl:
    return Acl(TOPIC, name, pattern, operation, principal, host, permission)


def compare(acls: list[Acl] | tuple[Acl, ...], made: AclAuthorizer, rnd: random.Random) -> None:
    supers, default = made.policy
    text, host, operation, kind, name = drawn_question(rnd)
    type_, _, own_name = text.partition(":")
    principal = Principal(type_, own_name)
    said = made.decide(principal, host, operation, kind, name)
    expected = allows(acls, text, host, operation, kind, name, default=default, supers=supers)
    assert said.allowed == expected, (acls, text, host, operation, kind, name, said)
    some = made.decide_any(principal, host, operation, kind)
    expected = allows_any(acls, text, host, operation, kind, default=default, supers=supers)
    assert some.allowed == expected, (acls, text, host, operation, kind, some)


def drawn_policy(rnd: random.Random) -> Policy:
    return Policy(frozenset({"User:c"}) if rnd.random() < 0.2 else frozenset(), rnd.random() < 0.3)


def compared(seed: int, cases: int) -> None:
    rnd = random.Random(seed)
    while cases > 0:
        acls = [drawn_acl(rnd) for _ in range(rnd.randrange(9))]
        made = authorizer(*acls, policy=drawn_policy(rnd))
        for _ in range(20):
            compare(acls, made, rnd)
            cases -= 1


def test_decisions_are_those_of_the_rules():
    compared(seed=1, cases=20_000)


@pytest.mark.long
def test_a_million_decisions_are_those_of_the_rules():
    for seed in range(100):
        compared(seed=1_000 + seed, cases=10_000)


def test_all_subsets_of_six_acls_decide_as_the_rules_say():
    for seed in range(6):
        rnd = random.Random(seed)
        drawn = [drawn_acl(rnd) for _ in range(6)]
        for size in range(7):
            for acls in combinations(drawn, size):
                made = authorizer(*acls, policy=Policy(allows_if_no_acl=seed % 2 == 0))
                for _ in range(4):
                    compare(acls, made, rnd)


def test_an_index_that_changes_decides_as_one_that_is_rebuilt():
    rnd = random.Random(7)
    acls: PersistentMap[Uuid, Acl] = PersistentMap()
    made = authorizer()
    for number in range(300):
        changes: dict[Uuid, Acl | None] = {acl_id(number): drawn_acl(rnd)}
        for gone in rnd.sample(sorted(acls), k=min(len(acls), rnd.randrange(3))):
            changes[gone] = None
        acls = acls.update(changes)
        made.learn(acls)
        assert made.acl_count == len(acls)
        for _ in range(5):
            compare(list(acls.values()), made, rnd)
    made.learn(PersistentMap())
    assert made.acl_count == 0 and not made.decide(ALICE, HOST, READ, TOPIC, "a").allowed


def test_many_acls_of_one_pattern_decide_as_few_do():
    rnd = random.Random(11)
    drawn = {drawn_acl(rnd) for _ in range(2_000)}
    one_pattern = [replace(one, resource_name="*", pattern_type=LITERAL) for one in drawn]
    acls = sorted(set(one_pattern) | drawn)
    made = authorizer(*acls)
    for _ in range(300):
        compare(acls, made, rnd)


def test_one_of_many_acls_of_a_pattern_that_is_revoked_counts_no_more():
    """Of so many it is remembered which are for a client."""
    hosts = [f"10.0.1.{n}" for n in range(2 * MANY_RULES)]
    acls = numbered([acl("*", host=host) for host in hosts])
    made = authorizer()
    made.learn(acls)
    assert all(made.decide(ALICE, host, READ, TOPIC, "t").allowed for host in hosts)
    revoked = next(one for one in acls if acls[one].host == hosts[3])
    made.learn(acls.remove(revoked))
    found = [made.decide(ALICE, host, READ, TOPIC, "t").allowed for host in hosts]
    assert found == [host != hosts[3] for host in hosts]


def test_a_right_to_all_topics_is_one_to_some_whatever_prefixes_are_denied():
    acls = [
        acl("*", WRITE),
        acl("*", WRITE, pattern=PREFIXED, permission=DENY),  # topics that begin with an asterisk
        acl("hard", WRITE, pattern=PREFIXED, permission=DENY),  # the name that is tried first
    ]
    assert authorizer(*acls).decide_any(ALICE, HOST, WRITE, TOPIC).allowed
    assert allows_any(acls, "User:a", HOST, WRITE, TOPIC)


def test_many_addresses_are_looked_at_once_for_a_client(monkeypatch: pytest.MonkeyPatch):
    """2,000 made-up names took a node with 10,000 such ACLs 96 s."""
    many = 2_000
    hosts = [f"10.{n // 256}.{n % 256}.0/24" for n in range(many)]
    made = authorizer(
        *(acl("*", principal=who, host=host) for host in hosts for who in ("User:a", "User:*"))
    )
    asked, is_in = 0, ClientHost.is_in

    def counting(self: ClientHost, host: str | Range) -> bool:
        nonlocal asked
        asked += 1
        return is_in(self, host)

    monkeypatch.setattr(ClientHost, "is_in", counting)
    for number in range(50):
        assert made.decide(ALICE, "10.0.7.7", READ, TOPIC, f"made-up-{number}").allowed
        assert not made.decide(ALICE, "10.200.0.1", READ, TOPIC, f"made-up-{number}").allowed
    assert asked == 2 * 2 * many


@pytest.mark.parametrize("permission", [ALLOW, DENY])
def test_whether_some_resource_is_allowed_takes_the_clients_own_acls_alone(
    monkeypatch: pytest.MonkeyPatch, permission: int
):
    """InitProducerId asks that of each producer; a cluster may have ACLs of 10,000 others."""
    others = [acl(f"t{n}", principal=f"User:{n}", host=HOST) for n in range(300)]
    own = [acl(f"mine-{n}", WRITE, host=HOST, permission=permission) for n in range(5)]
    made = authorizer(*others, *own)
    asked, is_in = 0, ClientHost.is_in

    def counting(self: ClientHost, host: str | Range) -> bool:
        nonlocal asked
        asked += 1
        return is_in(self, host)

    monkeypatch.setattr(ClientHost, "is_in", counting)
    assert made.decide_any(ALICE, HOST, WRITE, TOPIC).allowed == (permission == ALLOW)
    assert asked == (1 if permission == ALLOW else 5)


def test_removing_an_acl_leaves_what_others_decide():
    """CVE-2024-27309: two ACLs of one resource, of which one is removed."""
    acls = numbered([acl(), acl(principal="User:b"), acl(principal="User:c", permission=DENY)])
    made = authorizer(*acls.values(), policy=Policy(allows_if_no_acl=True))
    for gone in sorted(acls):
        made.learn(acls.remove(gone))
        for name, allowed in (("a", True), ("b", True), ("c", False)):
            removed = str(Principal("User", name)) == acls[gone].principal
            said = made.decide(Principal("User", name), HOST, READ, TOPIC, "t").allowed
            assert said == (allowed and not removed)


def test_nothing_is_decided_before_the_acls_are_loaded_but_for_super_users():
    made = AclAuthorizer(Policy(frozenset({"User:root"}), allows_if_no_acl=True))
    root = Principal("User", "root")
    made.learn(numbered([acl("*", principal="User:root", permission=DENY)]))
    assert made.decide(root, HOST, READ, TOPIC, "t").why is Why.SUPER_USER
    assert made.decide_any(root, HOST, READ, TOPIC).allowed
    for ask in (made.decide, made.decide_any):
        with pytest.raises(AuthorizerNotReadyError):
            ask(ALICE, HOST, READ, TOPIC, *(["t"] if ask == made.decide else []))
    made.loaded()
    assert not made.decide(ALICE, HOST, READ, TOPIC, "t").allowed
    assert made.decide(root, HOST, READ, TOPIC, "t").rule == "SuperUser"


def test_a_decision_names_its_rule():
    of_prefix = acl("t", pattern=PREFIXED, principal="User:*")
    literal, denied = acl("topic"), acl("topic", WRITE, permission=DENY)
    made = authorizer(of_prefix, literal, denied)
    assert made.decide(ALICE, HOST, READ, TOPIC, "topic").acl == of_prefix, "the last that allows"
    assert made.decide(ALICE, HOST, WRITE, TOPIC, "topic").rule == (
        "MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=topic, patternType=LITERAL,"
        " principal=User:a, host=*, operation=WRITE, permissionType=DENY))"
    )
    assert made.decide(ALICE, HOST, WRITE, TOPIC, "other").rule == "DefaultDeny"
    open_one = authorizer(literal, policy=Policy(allows_if_no_acl=True))
    assert open_one.decide(ALICE, HOST, READ, TOPIC, "other").rule == "DefaultAllow"
    other = Principal("User", "b")
    assert not open_one.decide(other, HOST, READ, TOPIC, "topic").allowed, "there is an ACL"


def test_a_decision_is_remembered_until_the_acls_change():
    made = authorizer(acl())
    first = made.decide(ALICE, HOST, READ, TOPIC, "t")
    assert made.decide(ALICE, HOST, READ, TOPIC, "t") is first
    version = made.version
    made.learn(numbered([acl()]).set(acl_id(9), acl(permission=DENY)))
    assert made.version is not version
    assert not made.decide(ALICE, HOST, READ, TOPIC, "t").allowed
    same = made.version
    made.learn(made._acls)
    assert made.version is same


def test_what_is_remembered_is_of_that_question_alone():
    """Of questions that differ in one thing only one is answered with yes, whichever is first."""
    asked = [
        (ALICE, HOST, READ, TOPIC, "t"),
        (Principal("User", "b"), HOST, READ, TOPIC, "t"),
        (Principal("Group", "a"), HOST, READ, TOPIC, "t"),
        (ALICE, "10.0.0.2", READ, TOPIC, "t"),
        (ALICE, HOST, WRITE, TOPIC, "t"),
        (ALICE, HOST, READ, GROUP, "t"),
        (ALICE, HOST, READ, TOPIC, "T"),
    ]
    for questions in (asked, asked[::-1]):
        made = authorizer(acl(host=HOST))
        for _ in range(2):
            told = [made.decide(*one).allowed for one in questions]
            assert told == [one is asked[0] for one in questions]
        made = authorizer(acl(host=HOST))
        for _ in range(2):  # whatever the name
            told = [made.decide_any(*one[:-1]).allowed for one in questions]
            assert told == [one[:-1] == asked[0][:-1] for one in questions]


def test_strangers_names_take_bounded_memory():
    made = authorizer()
    for number in range(DECISIONS_MAX + 10):
        made.decide(ALICE, HOST, READ, TOPIC, f"t{number}")
    assert len(made._decisions) <= DECISIONS_MAX
    made._decisions.clear()
    made.decide(ALICE, HOST, READ, TOPIC, "t" * 30_000)
    assert not made._decisions


def test_no_acl_names_a_principal_whose_type_has_a_colon():
    made = authorizer(acl(principal="a:b:c"))
    assert made.decide(Principal("a", "b:c"), HOST, READ, TOPIC, "t").allowed
    assert not made.decide(Principal("a:b", "c"), HOST, READ, TOPIC, "t").allowed


# -- hosts -----------------------------------------------------------------------------------------


def test_addresses_are_written_as_java_writes_them():
    assert client_host("::1").text == "0:0:0:0:0:0:0:1"
    assert client_host("2001:0db8::00ff").text == "2001:db8:0:0:0:0:0:ff"
    assert client_host("::ffff:10.1.2.3").text == "10.1.2.3"
    assert client_host("fe80::1%eth0").text == "fe80:0:0:0:0:0:0:1"
    assert client_host("127.0.0.1").text == "127.0.0.1"
    assert client_host("?") == ("?", 0, 0)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("10.1.2.3/8", ["10.0.0.0", "10.255.255.255"], ["11.0.0.0", "::a00:1", "?"]),
        ("10.0.0.1/32", ["10.0.0.1"], ["10.0.0.0", "10.0.0.2", "::a00:1"]),
        ("0.0.0.0/0", ["255.255.255.255", "0.0.0.1"], ["0.0.0.0", "::1"]),
        ("fe80::/10", ["fe80::1", "febf::1"], ["fec0::1", "10.0.0.1"]),
        ("10.0.0.6/31", ["10.0.0.6", "10.0.0.7"], ["10.0.0.5", "10.0.0.8"]),
        ("::1/128", ["::1"], ["::", "::2"]),
        ("fd00::/65", ["fd00::7fff:ffff:ffff:ffff"], ["fd00::8000:0:0:0", "fd01::"]),
        ("::a00:0/104", ["::a00:1"], ["10.0.0.1", "::ffff:10.0.0.1"]),
    ],
)
def test_a_range_has_the_addresses_that_begin_as_it_does(
    text: str, inside: list[str], outside: list[str]
):
    found = parsed_range(text)
    assert all(client_host(one).is_in(found) for one in inside)
    assert not any(client_host(one).is_in(found) for one in outside)


@pytest.mark.parametrize(
    "text",
    [
        "/", "a/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0/8", "256.0.0.0/8", "10.0.0.0/-1", "/8",
        "10.0.0.0/8/8", "::/129", "::/", "::1%eth0/64", "fe80::g/10", "10.0.0.0/255.0.0.0", ":/1",
    ],
)  # fmt: skip
def test_what_is_no_range_is_refused_and_has_no_address_in_it(text: str):
    with pytest.raises(ValueError, match=r"\["):
        parsed_range(text)
    made = authorizer(acl(host=text))
    assert not made.decide(ALICE, "10.0.0.1", READ, TOPIC, "t").allowed


def test_an_address_is_compared_as_a_whole():
    made = authorizer(acl(host="10.0.0.1"))
    for host, allowed in (("10.0.0.1", True), ("10.0.0.11", False), ("110.0.0.1", False)):
        assert made.decide(ALICE, host, READ, TOPIC, "t").allowed == allowed
