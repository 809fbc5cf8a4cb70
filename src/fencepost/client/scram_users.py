"""Users who log in by SCRAM, as the cluster keeps them: see, set and delete their credentials
(KIP-554).

A password never leaves the client: what is sent is what PBKDF2 makes of it with a salt, and the
cluster keeps what can check a login by it and no more.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fencepost.client import asking
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.errors import BrokerError
from fencepost.client.refusals import Refusals, passing, raise_refusal
from fencepost.machines.image.scram import ScramMechanism
from fencepost.machines.scram_keys import salted_password
from fencepost.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from fencepost.wire.api.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from fencepost.wire.errors import ErrorCode

DEFAULT_ITERATIONS: Final = 8192
SALT_BYTES: Final = 24


class ScramCredentialInfo(NamedTuple):
    """What can be told of a credential."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class UserScramCredentialUpsertion:
    """A credential to set. Its salt is random unless given."""

    user: str
    mechanism: ScramMechanism
    password: str = field(repr=False)
    iterations: int = DEFAULT_ITERATIONS
    salt: bytes | None = field(default=None, repr=False)

    def wire(self) -> ScramCredentialUpsertion:
        """The request's part, with the salted password in the place of the password. It takes
        some milliseconds."""
        salt = secrets.token_bytes(SALT_BYTES) if self.salt is None else self.salt
        return ScramCredentialUpsertion(
            name=self.user,
            mechanism=self.mechanism,
            iterations=self.iterations,
            salt=salt,
            salted_password=salted_password(
                self.mechanism, self.password.encode(), salt, self.iterations
            ),
        )


class UserScramCredentialDeletion(NamedTuple):
    """A credential to delete."""

    user: str
    mechanism: ScramMechanism


ScramAlteration = UserScramCredentialUpsertion | UserScramCredentialDeletion


def describing_scram_users(
    view: ClusterView[Any], users: Iterable[str] | None = None
) -> Conversation[dict[str, list[ScramCredentialInfo]]]:
    """The credentials of users (None: all), by name; without those who have none. BrokerError."""
    names = None if users is None else [UserName(name=one) for one in users]
    request = DescribeUserScramCredentialsRequest(users=names)
    response = yield from asking.request_any(view, request, passing)
    raise_refusal(response, "users cannot be described")
    found = {}
    for result in response.results:
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        raise_refusal(result, f"user {result.user} cannot be described")
        found[result.user] = sorted(
            ScramCredentialInfo(ScramMechanism(one.mechanism), one.iterations)
            for one in result.credential_infos
            if any(one.mechanism == known for known in ScramMechanism)
        )
    return dict(sorted(found.items()))


def altering_scram_users(
    view: ClusterView[Any], alterations: Sequence[ScramAlteration]
) -> Conversation[None]:
    """Set and delete credentials, of each user at most one. BrokerError when one is refused; its
    text names the user, and the others are carried out all the same. A user who is logged in
    stays so."""
    request = AlterUserScramCredentialsRequest(
        deletions=[
            ScramCredentialDeletion(name=one.user, mechanism=one.mechanism)
            for one in alterations
            if isinstance(one, UserScramCredentialDeletion)
        ],
        upsertions=[
            one.wire() for one in alterations if isinstance(one, UserScramCredentialUpsertion)
        ],
    )

    def passing_row(response: Any) -> int:
        return next(filter(None, map(passing, response.results)), 0)

    response = yield from asking.request_controller(view, request, passing_row)
    answered = {one.user: one for one in response.results}
    refusals = Refusals("credentials were not changed")
    for user in dict.fromkeys(one.user for one in alterations):
        if user not in answered:
            raise BrokerError.of(ErrorCode.UNKNOWN_SERVER_ERROR, f"no answer for user {user}")
        refusals.note(f"user {user}", answered[user])
    refusals.check(len(answered), len(response.results))
