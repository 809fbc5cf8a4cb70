"""SCRAM on the server's side: the RFCs' examples, our own client, and clients that cheat."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, strategies as st

from fencepost.client.protocol.sasl import ScramExchange
from fencepost.machines.image.scram import ScramCredential, ScramMechanism
from fencepost.machines.sasl import (
    Challenge,
    Done,
    Failed,
    ScramLookups,
    ScramServer,
)
from fencepost.machines.session import USER, Principal
from tests.machines.sasl.lookups import TokenCredential, Tokens, Users, credential, salted

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
PENCIL = credential(SHA_256, "pencil", SALT)
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
TOKEN = TokenCredential(credential(SHA_256, "hmac"), Principal(USER, "ada"), 12_345)


def lookups(**users: ScramCredential) -> ScramLookups:
    found = {(name, "SCRAM-SHA-256"): one for name, one in users.items()}
    return ScramLookups(Users(found), Tokens({"token-id": TOKEN}), b"secret")


def server(**users: ScramCredential) -> ScramServer:
    return ScramServer(SHA_256, lookups(**(users or {"user": PENCIL})), NONCE)


def test_the_server_says_what_rfc_7677_says():
    """Section 3."""
    scram = server()
    assert scram.step(FIRST) == Challenge(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert scram.step(FINAL) == Done(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "user")


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("user", ["ada", "a,b=c", "=2C", "x" * 300])
def test_our_client_and_the_server_agree(mechanism: ScramMechanism, user: str):
    name = mechanism.mechanism_name
    users = Users({(user, name): credential(mechanism, "pässwörd")})
    scram = ScramServer(mechanism, ScramLookups(users), "server-nonce")
    client = ScramExchange(name, user, "pässwörd")
    challenge = scram.step(client.first())
    assert isinstance(challenge, Challenge)
    done = scram.step(client.next(challenge.token))
    assert isinstance(done, Done)
    assert (done.name, done.expires_ms, done.token_authenticated) == (user, None, False)
    client.finish(done.token)


def test_a_delegation_token_is_its_owners_login():
    scram = server()
    client = ScramExchange("SCRAM-SHA-256", "token-id", "hmac", "n")
    # Our client has no extensions, so it is put in by hand; it is signed with the rest.
    client._first_bare += ",tokenauth=true"
    challenge = scram.step(client.first())
    assert isinstance(challenge, Challenge)
    done = scram.step(client.next(challenge.token))
    assert isinstance(done, Done)
    assert (done.name, done.expires_ms, done.token_authenticated) == ("ada", 12_345, True)
    client.finish(done.token)


@pytest.mark.parametrize(
    "first",
    [
        b"n,,n=ada,r=abc,tokenauth=true",  # a user is no token
        b"n,,n=token-id,r=abc",  # and a token no user
        b"n,,n=token-id,r=abc,tokenauth=false",
    ],
)
def test_users_and_tokens_are_kept_apart(first: bytes):
    scram = server(ada=PENCIL)
    assert isinstance(scram.step(first), Challenge)
    assert isinstance(scram.step(b"c=biws,r=abc" + NONCE.encode() + b",p=AAAA"), Failed)


def test_unknown_extensions_are_passed_over_and_signed():
    assert isinstance(server().step(FIRST + b",Foo=bar,x=y"), Challenge)


def test_a_user_that_is_not_there_looks_like_one_that_is():
    answers = []
    for _ in range(2):
        scram = server()
        answers.append(scram.step(b"n,,n=mallory,r=abc"))
        refused = scram.step(b"c=biws,r=abc" + NONCE.encode() + b",p=AAAA")
        assert isinstance(refused, Failed)
        assert refused.told is None
    assert answers[0] == answers[1], "the salt is the same every time"
    assert isinstance(answers[0], Challenge)
    salt = answers[0].token.split(b",s=")[1]
    assert salt.endswith(b",i=4096")
    other = server().step(b"n,,n=mallory2,r=abc")
    assert isinstance(other, Challenge)
    assert salt not in other.token
    wrong = server()
    wrong.step(FIRST)
    refused = wrong.step(FINAL.replace(b"p=d", b"p=e"))
    assert isinstance(refused, Failed)
    assert refused.told is None


@pytest.mark.parametrize("user", [b"user", b"mallory"])
def test_an_identity_must_be_the_users_own(user: bytes):
    assert isinstance(server().step(b"n,a=" + user + b",n=" + user + b",r=abc"), Challenge)
    refused = server().step(b"n,a=eve,n=" + user + b",r=abc")
    assert isinstance(refused, Failed)
    assert refused.told == (
        "Authentication failed: Client requested an authorization id that is different from"
        " username"
    )


def test_the_identity_is_part_of_what_the_client_repeats():
    scram = server()
    scram.step(FIRST.replace(b"n,,", b"n,a=user,"))
    assert isinstance(scram.step(FINAL), Failed)
    scram = server()
    scram.step(FIRST.replace(b"n,,", b"n,a=user,"))
    header = base64.b64encode(b"n,a=user,")
    # The proof signs `c=` too, so that of the RFC's example does not do.
    refused = scram.step(FINAL.replace(b"biws", header))
    assert isinstance(refused, Failed)
    assert "proof" in refused.reason


def test_a_credential_below_the_minimum_is_not_used():
    weak = credential(SHA_256, "pencil", SALT, 4095)
    refused = server(user=weak).step(FIRST)
    assert isinstance(refused, Failed)
    assert refused.told is None
    assert "4095 iterations" in refused.reason


@pytest.mark.parametrize(
    "final",
    [
        FINAL.replace(b"rOpr", b"XOpr"),  # CVE-2024-56128: another client's half of the nonce
        FINAL.replace(b"r=rOprNGfwEbeRWgbNEkqO", b"r="),
        FINAL.replace(b"biws", b"eSws"),  # y,,
        FINAL.replace(b"p=dHzb", b"p=eHzb"),
        FINAL.replace(b"dVQ=", b"dVR="),  # the same bytes, and bits left over
        FINAL.replace(b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", b"p=AAAA"),
        FINAL.replace(b",p=", b",x=y,p="),  # it is signed
        FINAL[:-1],
        FINAL + b",x=y",
        b"",
        FIRST,
    ],
)
def test_clients_that_cheat_are_refused(final: bytes):
    scram = server()
    scram.step(FIRST)
    refused = scram.step(final)
    assert isinstance(refused, Failed)
    assert refused.told is None
    assert isinstance(scram.step(FINAL), Failed), "there is no second attempt"


def signed_final(challenge: bytes, binding: bytes, nonce: bytes) -> bytes:
    """A last message of a client that knows the password, and signs what it sends."""
    signed = b"c=%b,r=%b" % (base64.b64encode(binding), nonce)
    client_key = hmac.digest(salted("pencil", SALT), b"Client Key", "sha256")
    stored_key = hashlib.sha256(client_key).digest()
    message = b",".join((FIRST.removeprefix(b"n,,"), challenge, signed))
    signature = hmac.digest(stored_key, message, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return signed + b",p=" + base64.b64encode(proof)


OWN = b"rOprNGfwEbeRWgbNEkqO"
WHOLE = OWN + NONCE.encode()


@pytest.mark.parametrize(
    ("binding", "nonce", "reason"),
    [
        (b"n,,", WHOLE, None),
        (b"n,,", OWN, "nonce"),
        (b"n,,", WHOLE + b"x", "nonce"),
        (b"n,,", WHOLE[:-1], "nonce"),
        (b"n,,", b"x" + WHOLE[1:], "nonce"),
        (b"n,,", NONCE.encode(), "nonce"),
        (b"y,,", WHOLE, "header"),
        (b"n,a=user,", WHOLE, "header"),
    ],
)
def test_a_proof_is_not_enough(binding: bytes, nonce: bytes, reason: str | None):
    scram = server()
    challenge = scram.step(FIRST)
    assert isinstance(challenge, Challenge)
    step = scram.step(signed_final(challenge.token, binding, nonce))
    if reason is None:
        assert isinstance(step, Done)
    else:
        assert isinstance(step, Failed)
        assert reason in step.reason


@pytest.mark.parametrize(
    "first",
    [
        b"",
        FINAL,
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,m=x,n=user,r=abc",  # what must be understood is not
        b"n,,n=,r=abc",
        b"n,,n=user",
        b"n,,n=user,r=",
        b"n,,n=user,r=a b",
        b"n,,n=us=er,r=abc",
        b"n,,n=us=2Der,r=abc",
        b"n,,n=\xc3\xa4da,r=abc",  # only ASCII, as in Kafka
        b"n,,n=us\0er,r=abc",
        b"n,,n=user,r=abc,1=x",
        b"n,,n=user,r=abc,",
        b"n,,n=user,r=abc\n",
        b"n,,n=" + b"x" * 20_000 + b",r=abc",
    ],
)
def test_first_messages_that_are_none(first: bytes):
    refused = server().step(first)
    assert isinstance(refused, Failed)
    assert refused.told is None
    assert len(refused.reason) < 100


@given(st.data())
def test_no_changed_message_logs_in(data: st.DataObject):
    """Any byte of either message replaced: the client is refused."""
    which = data.draw(st.sampled_from(["first", "final"]))
    message = bytearray(FIRST if which == "first" else FINAL)
    place = data.draw(st.integers(0, len(message) - 1))
    message[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != message[place]))
    scram = server()
    step = scram.step(bytes(message) if which == "first" else FIRST)
    if isinstance(step, Challenge):
        step = scram.step(bytes(message) if which == "final" else FINAL)
    assert isinstance(step, Failed)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_hostile_bytes_are_refused(first: bytes, final: bytes):
    scram = server()
    step = scram.step(first)
    assert not isinstance(step, Done)
    step = scram.step(final)
    assert not isinstance(step, Done)


def test_iterations_do_not_tell_who_is_there():
    """Users that do not exist have those of others, each the same every time."""
    counts = (4096, 8192)
    known = ScramLookups(Users({}), secret=b"secret", iterations=lambda mechanism: counts)

    def told(user: int) -> bytes:
        step = ScramServer(SHA_256, known, NONCE).step(b"n,,n=user%d,r=abc" % user)
        assert isinstance(step, Challenge)
        return step.token.rpartition(b",i=")[2]

    first = [told(user) for user in range(40)]
    assert set(first) == {b"4096", b"8192"}
    assert [told(user) for user in range(40)] == first
