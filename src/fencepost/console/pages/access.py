"""Who may do what, and how much: ACLs, users, quotas, delegation tokens; and "who may?", decided by
our authorizer's own rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from fencepost.client.acls import describing_acls
from fencepost.client.client_quotas import describing_client_quotas
from fencepost.client.conversation import Conversation
from fencepost.client.delegation_tokens import describing_delegation_tokens
from fencepost.client.errors import BrokerError, UnsupportedApi
from fencepost.client.scram_users import describing_scram_users
from fencepost.console.asked import Asked, BadQuery
from fencepost.console.page import Field, Page, Section, Sentence, Table
from fencepost.console.session import Session, now_ms
from fencepost.machines.image.acls import CLUSTER_NAME, AclOperation, ResourceType
from fencepost.views.acl_explanation import explaining
from fencepost.views.security import AclView, QuotaView, TokenView, UserView
from fencepost.views.security_findings import findings_of_acls
from fencepost.views.view import View, count

T = TypeVar("T")
ROWS_MAX: Final = 500
OPERATIONS: Final = tuple(one.name.lower() for one in AclOperation if one > AclOperation.ALL)
RESOURCES: Final = tuple(one.name.lower() for one in ResourceType if one > ResourceType.ANY)


async def access(session: Session, asked: Asked) -> Page:
    """What the cluster says of each, and why where it does not; one question at a time."""
    question = await _who_may(session, asked)
    return Page(
        "Access",
        [
            *question,
            await _acls(session),
            await _users(session),
            await _quotas(session),
            await _tokens(session),
        ],
        now_ms(),
        refresh_s=None,
        fields=_fields(asked),
    )


def _fields(asked: Asked) -> list[Field]:
    return [
        Field("principal", "may principal", asked.text("principal")),
        Field("operation", "do", asked.choice("operation", OPERATIONS), OPERATIONS),
        Field("type", "to a", asked.choice("type", RESOURCES), RESOURCES),
        Field("name", "named", asked.text("name")),
        Field("host", "from host", asked.text("host")),
    ]


async def _who_may(session: Session, asked: Asked) -> list[Section]:
    """The answer to the question that is asked, if one is."""
    text = asked.text("principal").strip()
    if not text:
        return []
    principal = text if ":" in text else f"User:{text}"
    if not all(principal.partition(":")):
        raise BadQuery("principal", text, "it must be as ada or User:ada")
    operation = AclOperation[asked.choice("operation", OPERATIONS).upper()]
    kind = ResourceType[asked.choice("type", RESOURCES).upper()]
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else asked.text("name").strip()
    if not name:
        raise BadQuery("name", name, f"a {kind.name.lower()} has a name")
    host = asked.text("host").strip() or None
    asking = explaining(session.cluster, principal, operation, (kind, name), host)
    try:
        found, unknown = await session.run(asking)
    except (BrokerError, UnsupportedApi) as error:
        return [Section("Who may?", [Sentence(f"It cannot be told: {error}", "bad")])]
    sentences = [Sentence(f"{found.sentence}.", "good" if found.allowed else "warning")]
    if unknown is not None:
        sentences.append(Sentence(f"Whether it is a super user is not known: {unknown}."))
    others = Table("rules that name other addresses", AclView, found.other_hosts)
    return [Section("Who may?", sentences, [others] if found.other_hosts else [], found)]


async def _acls(session: Session) -> Section:
    found = await _asking(session, describing_acls(session.cluster))
    if isinstance(found, Sentence):
        return Section("ACLs", [found])
    advice = [
        Sentence(f"open to all: {one.sentence}", "warning") for one in findings_of_acls(found)
    ]
    return _listed("ACLs", "rule", AclView, map(AclView.of, found), len(found), advice)


async def _users(session: Session) -> Section:
    found = await _asking(session, describing_scram_users(session.cluster))
    if isinstance(found, Sentence):
        return Section("Users who log in by SCRAM", [found])
    rows = [UserView.of(user, one) for user, infos in sorted(found.items()) for one in infos]
    return _listed("Users who log in by SCRAM", "credential", UserView, rows, len(rows))


async def _quotas(session: Session) -> Section:
    found = await _asking(session, describing_client_quotas(session.cluster))
    if isinstance(found, Sentence):
        return Section("Quotas", [found])
    rows = [
        QuotaView(dict(entity.names), key, value)
        for entity, quotas in found.items()
        for key, value in sorted(quotas.items())
    ]
    return _listed("Quotas", "quota", QuotaView, rows, len(rows))


async def _tokens(session: Session) -> Section:
    found = await _asking(session, describing_delegation_tokens(session.cluster))
    if isinstance(found, Sentence):
        return Section("Delegation tokens", [found])
    rows = map(TokenView.of, found)
    return _listed("Delegation tokens", "token", TokenView, rows, len(found))


async def _asking(session: Session, conversation: Conversation[T]) -> T | Sentence:
    """What the cluster says, or a sentence about why it does not."""
    try:
        return await session.run(conversation)
    except (BrokerError, UnsupportedApi) as error:
        return Sentence(f"Not told: {error}.")


def _listed(
    heading: str,
    noun: str,
    kind: type[View],
    rows: Iterable[View],
    total: int,
    advice: list[Sentence] | None = None,
) -> Section:
    """A section of ROWS_MAX rows at most."""
    shown = list(rows)[:ROWS_MAX]
    table = Table(f"{noun}s", kind, shown, total=total)
    return Section(heading, [Sentence(f"{count(total, noun)}."), *(advice or [])], [table], shown)
