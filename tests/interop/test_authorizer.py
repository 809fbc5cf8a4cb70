"""What clients may do is what Apache Kafka's own StandardAuthorizer says they may."""

from __future__ import annotations

import random

import pytest

from fencepost.machines.authorizer import AclAuthorizer, Policy
from fencepost.machines.image.acls import Acl
from fencepost.machines.image.persistent import PersistentMap
from fencepost.machines.session import Principal
from fencepost.wire.types import Uuid

from ..machines.authorizer_oracle import drawn_acl, drawn_question
from .maven import JarSet
from .oracle import PROGRAMS, ask

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ROUNDS = 3_000
QUESTIONS = 10


def drawn(seed: int) -> tuple[list[str], list[bool]]:
    """Lines for the oracle, and what is decided here."""
    rnd = random.Random(seed)
    lines: list[str] = []
    ours: list[bool] = []
    for _ in range(ROUNDS):
        acls = list({drawn_acl(rnd) for _ in range(rnd.randrange(9))})
        policy = Policy(frozenset({"User:c"} if rnd.random() < 0.2 else ()), rnd.random() < 0.3)
        made = AclAuthorizer(policy)
        made.learn(
            PersistentMap((Uuid(place.to_bytes(16, "big")), acl) for place, acl in enumerate(acls))
        )
        made.loaded()
        supers = ";".join(policy.super_users) or "-"
        lines.append(f"new\t{supers}\t{str(policy.allows_if_no_acl).lower()}")
        lines += ["acl\t" + "\t".join(map(str, _fields(acl))) for acl in acls]
        for _ in range(QUESTIONS):
            principal, host, operation, kind, name = drawn_question(rnd)
            type_, _, own_name = principal.partition(":")
            client = Principal(type_, own_name)
            lines.append(f"ask\t{principal}\t{host}\t{operation}\t{kind}\t{name}")
            ours.append(made.decide(client, host, operation, kind, name).allowed)
            lines.append(f"any\t{principal}\t{host}\t{operation}\t{kind}")
            ours.append(made.decide_any(client, host, operation, kind).allowed)
    return lines, ours


def _fields(acl: Acl) -> tuple[object, ...]:
    return (
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.operation,
        acl.principal,
        acl.host,
        acl.permission,
    )


def test_decisions_are_those_of_kafkas_class(kafka_jars: JarSet):
    lines, ours = drawn(seed=4_400)
    answers = ask(PROGRAMS / "AuthorizerOracle.java", jars=kafka_jars, questions=lines)
    theirs = [answer == "true" for answer in answers.split()]
    assert len(theirs) == len(ours)
    questions = [line for line in lines if line.startswith(("ask", "any"))]
    different = [
        (question, said)
        for question, said, mine in zip(questions, theirs, ours, strict=True)
        if said != mine
    ]
    assert different == []
    assert 0.1 < sum(ours) / len(ours) < 0.9, "both answers are there"
