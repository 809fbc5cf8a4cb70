"""Credentials of logins: what the current image has, and nothing that it no longer has."""

from __future__ import annotations

from fencepost.machines.image import ClusterImage, ScramMechanism, apply_records
from fencepost.machines.image.token_secret import TokenSecret
from fencepost.machines.session import USER, Principal
from fencepost.runtime import token_credentials
from fencepost.runtime.credentials import ImageScramCredentials
from fencepost.runtime.token_credentials import ImageTokenCredentials
from fencepost.wire.records.metadata import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

SECRET = TokenSecret("hush")
SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"


class Images:
    """The images of a node, one after the other."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.wall_ms = 0

    def apply(self, *records) -> None:
        self.image = apply_records(self.image, records)


def tokens_of(node: Images) -> ImageTokenCredentials:
    return ImageTokenCredentials(lambda: node.image, SECRET, lambda: node.wall_ms)


def token(token_id: str, **more) -> DelegationTokenRecord:
    times = {"max_timestamp": 100, "expiration_timestamp": 50}
    return DelegationTokenRecord(token_id=token_id, **{"owner": "User:a:b", **times, **more})


def test_a_user_that_is_removed_or_changed_is_so_from_the_next_image_on() -> None:
    node = Images()
    users = ImageScramCredentials(lambda: node.image)
    node.apply(UserScramCredentialRecord(name="ada", mechanism=1, iterations=4096))
    assert users.find("ada", SHA_256) is not None
    assert users.find("ada", SHA_512) is users.find("bob", SHA_256) is None
    assert users.find("ada", "PLAIN") is None
    node.apply(UserScramCredentialRecord(name="ada", mechanism=1, iterations=8192))
    found = users.find("ada", SHA_256)
    assert found is not None and found.iterations == 8192
    node.apply(RemoveUserScramCredentialRecord(name="ada", mechanism=1))
    assert users.find("ada", SHA_256) is None


def test_a_token_is_its_owner() -> None:
    node = Images()
    node.apply(token("t"))
    login = tokens_of(node).find("t", SHA_512)
    assert login is not None
    assert login.credential == SECRET.credential_of("t", ScramMechanism.SHA_512)
    assert (login.owner, login.expires_ms) == (Principal(USER, "a:b"), 50)


def test_tokens_that_are_none() -> None:
    node = Images()
    node.apply(token("t"))
    assert tokens_of(node).find("u", SHA_256) is None
    assert tokens_of(node).find("t", "PLAIN") is None
    node.apply(token("group", owner="Group:ada"))
    assert tokens_of(node).find("group", SHA_256) is None, "it would log in as User:ada"


def test_an_expired_or_removed_token_is_none_although_its_credential_was_made() -> None:
    node = Images()
    node.apply(token("t"), token("u"))
    tokens = tokens_of(node)
    assert tokens.find("t", SHA_256) and tokens.find("u", SHA_256)
    node.wall_ms = 50
    assert tokens.find("t", SHA_256)
    node.wall_ms = 51
    assert tokens.find("t", SHA_256) is None
    node.apply(token("t", expiration_timestamp=60))
    assert tokens.find("t", SHA_256)
    node.apply(RemoveDelegationTokenRecord(token_id="t"))
    assert tokens.find("t", SHA_256) is None


def test_a_credential_is_made_once_and_so_many_are_kept(monkeypatch) -> None:
    monkeypatch.setattr(token_credentials, "CREDENTIALS_KEPT", 2)
    node = Images()
    node.apply(*(token(name) for name in "tuv"))
    tokens = tokens_of(node)

    def made(token_id: str):
        login = tokens.find(token_id, SHA_256)
        assert login is not None
        return login.credential

    first, second = made("t"), made("u")
    assert made("t") is first and made("u") is second
    made("v")
    assert made("u") is second and made("t") is not first
    assert made("t") == first


def test_the_iterations_that_users_have():
    node = Images()
    users = ImageScramCredentials(lambda: node.image)
    assert users.iterations(SHA_256) == ()
    for name, mechanism, count in (("a", 1, 8192), ("b", 1, 4096), ("c", 1, 8192), ("d", 2, 5000)):
        keys = {"salt": b"s", "stored_key": b"k", "server_key": b"k"}
        node.apply(
            UserScramCredentialRecord(name=name, mechanism=mechanism, iterations=count, **keys)
        )
    assert (users.iterations(SHA_256), users.iterations(SHA_512)) == ((4096, 8192), (5000,))
    assert users.iterations("PLAIN") == ()
    node.apply(RemoveUserScramCredentialRecord(name="b", mechanism=1))
    assert users.iterations(SHA_256) == (8192,)


def test_strangers_are_shown_nothing_that_is_made_of_the_secret_itself():
    """A weak `delegation.token.secret.key` could be guessed from that without a login."""
    assert SECRET.key_of_salts == TokenSecret("hush").key_of_salts
    assert SECRET.key_of_salts not in (b"hush", TokenSecret("hash").key_of_salts)
