"""What brokers do about guests, the clients of a world that have names.

Everything else in the world is a super user. A guest logs in with each request, as far as a broker
looks it up; what becomes of a request does not depend on that, so that permissions show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from fencepost.machines.authorizer import AclAuthorizer, Policy
from fencepost.machines.image import ScramMechanism
from fencepost.machines.image.acls import AclOperation
from fencepost.machines.probes import probe
from fencepost.machines.session import ANONYMOUS, USER, Principal
from fencepost.runtime.authorizer import NodeAuthorizer
from fencepost.runtime.credentials import ImageScramCredentials
from fencepost.sim.brokers.arrived_request import ArrivedRequest
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.sim.options import Options
from fencepost.sim.permission_oracle import CredentialTold, PermissionTold, Question
from fencepost.wire.api.fetch import FetchRequest
from fencepost.wire.api.list_offsets import ListOffsetsRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

MECHANISM: Final = ScramMechanism.SHA_256
POLICY: Final = Policy(super_users=frozenset({str(ANONYMOUS)}))


def user_of(client_id: int) -> str:
    """The user that a guest logs in as."""
    return f"guest-{client_id}"


def principal_of(options: Options, source_id: int) -> Principal:
    """Who sends requests under that id."""
    is_guest = source_id in options.guest_ids
    return Principal(USER, user_of(source_id)) if is_guest else ANONYMOUS


def authorizer_of(broker: BrokerProcess) -> NodeAuthorizer | None:
    """What decides in one incarnation of a broker; None in a world without guests."""
    if not broker.world.options.guests:
        return None
    return NodeAuthorizer(AclAuthorizer(POLICY), broker.clocks)


class Guests:
    """Shows the observer what a broker decides about guests."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._credentials = ImageScramCredentials(lambda: broker.image)

    def note(self, request: Message, principal: Principal) -> Callable[[Any], None]:
        """A request has arrived from a guest; what is to see the answer."""
        self._log_in(principal.name)
        broker, before = self._broker, self._broker.image
        operation = (
            AclOperation.READ if isinstance(request, FetchRequest) else AclOperation.DESCRIBE
        )
        names = {one.topic_id: one.name for one in before.topics_by_id.values()}

        def answered(response: Any) -> None:
            now = broker.image
            for topic, error, has_records in _answers(request, response, names):
                question = Question(
                    str(principal), ArrivedRequest.client_host, int(operation), topic
                )
                allowed = error is not ErrorCode.TOPIC_AUTHORIZATION_FAILED
                if allowed:
                    probe("sim.guest.allowed")
                else:
                    probe("sim.guest.refused")
                acls = tuple(now.acls.values())
                was = acls if before.acls is now.acls else tuple(before.acls.values())
                broker.world.observer.permission_told(
                    broker.id,
                    PermissionTold(question, allowed, was, acls, now.offset, not has_records),
                )

        return answered

    def _log_in(self, user: str) -> None:
        found = self._credentials.find(user, MECHANISM.mechanism_name) is not None
        exists = (user, int(MECHANISM)) in self._broker.image.scram
        if found:
            probe("sim.guest.found")
        else:
            probe("sim.guest.not_found")
        told = CredentialTold(user, found, exists)
        self._broker.world.observer.credential_told(self._broker.id, told)


def _answers(
    request: Message, response: Any, names: Mapping[Uuid, str]
) -> Iterator[tuple[str, ErrorCode, bool]]:
    """Of each partition in an answer that decides about a topic: its name, the error, and whether
    it has records."""
    if isinstance(request, ListOffsetsRequest):
        for topic in response.topics:
            for part in topic.partitions:
                yield topic.name, ErrorCode(part.error_code), False
        return
    for topic in response.responses:
        name = topic.topic or names.get(topic.topic_id)
        for part in topic.partitions:
            error = ErrorCode(part.error_code)
            if name is not None and error is not ErrorCode.UNKNOWN_TOPIC_ID:
                yield name, error, bool(part.records)
