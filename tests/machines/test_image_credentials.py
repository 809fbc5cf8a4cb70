"""SCRAM credentials and delegation tokens in the cluster image and its snapshots."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from fencepost.machines.image import (
    ClusterImage,
    ReplayError,
    ScramCredential,
    ScramMechanism,
    TokenImage,
    apply_records,
)
from fencepost.machines.image.records import image_records, image_values
from fencepost.machines.image.token_secret import TokenSecret
from fencepost.machines.scram_keys import credential_of_salted_password
from fencepost.runtime.credentials import ImageScramCredentials
from fencepost.wire.message import Message
from fencepost.wire.records import metadata as records
from fencepost.wire.records.metadata import decode_record

ALICE = records.UserScramCredentialRecord(
    name="alice", mechanism=1, salt=b"s", stored_key=b"st", server_key=b"se", iterations=4096
)
TOKEN = records.DelegationTokenRecord(
    owner="User:alice",
    requester="User:admin",
    renewers=["User:bob", "User:c"],
    issue_timestamp=1,
    max_timestamp=10,
    expiration_timestamp=5,
    token_id="t",
)


def image_of(*messages: Message, base: ClusterImage | None = None) -> ClusterImage:
    return apply_records(ClusterImage() if base is None else base, messages)


def test_a_credential_belongs_to_a_user_and_a_mechanism() -> None:
    other = records.UserScramCredentialRecord(name="alice", mechanism=2, iterations=8192)
    image = image_of(ALICE, other)
    assert image.scram["alice", 1] == ScramCredential(b"s", b"st", b"se", 4096)
    assert image.scram["alice", 2].iterations == 8192
    left = image_of(records.RemoveUserScramCredentialRecord(name="alice", mechanism=1), base=image)
    assert dict(left.scram) == {("alice", 2): image.scram["alice", 2]}
    assert len(image.scram) == 2, "the old image is untouched"


@pytest.mark.parametrize(
    "before",
    [
        (),
        (records.UserScramCredentialRecord(name="alice", mechanism=2),),
        (ALICE, records.RemoveUserScramCredentialRecord(name="alice", mechanism=1)),
    ],
)
def test_removing_an_unknown_credential_is_a_replay_error(before: tuple[Message, ...]) -> None:
    removal = records.RemoveUserScramCredentialRecord(name="alice", mechanism=1)
    with pytest.raises(ReplayError, match="user alice"):
        image_of(*before, removal)
    with pytest.raises(ReplayError, match="user alice"):
        image_of(removal, base=image_of(*before))


def test_a_token_is_issued_renewed_and_removed() -> None:
    image = image_of(TOKEN)
    token = image.tokens["t"]
    assert token == TokenImage("t", "User:alice", "User:admin", ("User:bob", "User:c"), 1, 10, 5)
    assert [token.is_expired(ms) for ms in (4, 5, 6)] == [False, False, True]
    too_long = TokenImage("t", "User:alice", "User:admin", (), 1, 10, 20)
    assert [too_long.is_expired(ms) for ms in (10, 11)] == [False, True], "whatever a record says"
    names = ("alice", "bob", "c", "admin", "eve")
    may_renew = [name for name in names if token.may_be_renewed_by(f"User:{name}")]
    assert may_renew == ["alice", "bob", "c"], "the requester may not"
    assert not token.may_be_renewed_by("Group:alice")
    renewed = records.DelegationTokenRecord(token_id="t", expiration_timestamp=9)
    assert image_of(renewed, base=image).tokens["t"].expiration_timestamp == 9
    removal = records.RemoveDelegationTokenRecord(token_id="t")
    gone = image_of(removal, base=image)
    assert not gone.tokens
    assert image_of(removal, base=gone) == gone, "Kafka's controller may remove one twice"


def test_a_snapshot_is_read_and_written_byte_for_byte() -> None:
    image = image_of(
        *(
            records.UserScramCredentialRecord(name=name, mechanism=mechanism, iterations=4096)
            for name in ("bob", "alice", "ü")
            for mechanism in (2, 1)
        ),
        TOKEN,
        records.DelegationTokenRecord(token_id="s"),
    )
    written = list(image_values(image))
    again = apply_records(ClusterImage(), map(decode_record, written))
    assert again == image
    assert list(image_values(again)) == written
    assert len(written) == 8


@pytest.mark.parametrize(("level", "kinds"), [(10, 0), (11, 1), (13, 1), (14, 2)])
def test_a_snapshot_holds_only_what_the_metadata_version_knows(level: int, kinds: int) -> None:
    version = records.FeatureLevelRecord(name="metadata.version", feature_level=level)
    image = image_of(version, ALICE, TOKEN)
    written = [type(record) for record, _ in image_records(image)]
    wanted = [records.UserScramCredentialRecord, records.DelegationTokenRecord][:kinds]
    assert written == [records.FeatureLevelRecord, *wanted]


def test_a_stored_credential_checks_the_exchange_of_rfc_7677() -> None:
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    found = credential_of_salted_password(ScramMechanism.SHA_256, salted, salt, 4096)
    message = (
        "n=user,r=rOprNGfwEbeRWgbNEkqO,"
        f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}"
    ).encode()
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac.digest(found.stored_key, message, "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == found.stored_key
    expected = base64.b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert hmac.digest(found.server_key, message, "sha256") == expected


def test_mechanisms_have_kafkas_names_and_numbers() -> None:
    names = {each: (each.mechanism_name, each.hash_name) for each in ScramMechanism}
    assert names == {1: ("SCRAM-SHA-256", "sha256"), 2: ("SCRAM-SHA-512", "sha512")}
    assert [ScramMechanism.named(name) for name in ("SCRAM-SHA-512", "PLAIN")] == [2, None]


def test_no_key_is_shown() -> None:
    assert "hush" not in repr(TokenSecret("hush")) + str(TokenSecret("hush"))
    credential = ScramCredential(b"salt-bytes", b"stored-bytes", b"server-bytes", 4096)
    image = ClusterImage(scram=ClusterImage().scram.set(("alice", 1), credential))
    for text in (repr(credential), str(credential), f"{credential}", repr(image)):
        assert "bytes" not in text and "4096" in text


def test_a_removed_user_is_not_found_from_the_next_image_on() -> None:
    images = [image_of(ALICE)]
    lookup = ImageScramCredentials(lambda: images[-1])
    assert lookup.find("alice", "SCRAM-SHA-256") == images[0].scram["alice", 1]
    assert lookup.find("alice", "SCRAM-SHA-512") is None
    assert lookup.find("alice", "PLAIN") is None
    removal = records.RemoveUserScramCredentialRecord(name="alice", mechanism=1)
    images.append(image_of(removal, base=images[-1]))
    assert lookup.find("alice", "SCRAM-SHA-256") is None
