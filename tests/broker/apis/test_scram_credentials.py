"""Users of SCRAM are altered and described by clients of a live node."""

from __future__ import annotations

from collections.abc import Callable

from fencepost.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from fencepost.wire.api.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

from ..conftest import RunningNode
from ..listener_fixtures import Client
from ..not_offered import credential


def described(client: Client, *users: str) -> dict[str, tuple[int, str | None, list[int]]]:
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in users])
    answer = client.ask(request, 0)
    assert answer.error_code == 0
    return {
        one.user: (
            one.error_code,
            one.error_message,
            [info.mechanism for info in one.credential_infos],
        )
        for one in answer.results
    }


def altered(client: Client, request: AlterUserScramCredentialsRequest) -> dict[str, int]:
    return {one.user: one.error_code for one in client.ask(request, 0).results}


def test_users_are_described_as_they_were_altered_and_after_a_restart(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory()
    client = running.connect()
    new = AlterUserScramCredentialsRequest(upsertions=[credential("ada"), credential("bob", 2)])
    assert altered(client, new) == {"ada": 0, "bob": 0}
    second = AlterUserScramCredentialsRequest(upsertions=[credential("ada", 2)])
    assert altered(client, second) == {"ada": 0}
    everybody = {"ada": (0, "", [1, 2]), "bob": (0, "", [2])}
    assert described(client) == everybody
    absent = "Attempt to describe a user credential that does not exist: x"
    twice = "Cannot describe SCRAM credentials for the same user twice in a single request: "
    assert described(client, "bob", "x", "ada", "ada") == {
        "bob": everybody["bob"],
        "x": (91, absent, []),
        "ada": (92, twice + "ada", []),
    }
    running.restart()
    client = running.connect()
    assert described(client) == everybody
    gone = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="ada", mechanism=1)]
    )
    assert altered(client, gone) == {"ada": 0}
    assert described(client, "ada") == {"ada": (0, "", [2])}
