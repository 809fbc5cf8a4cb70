"""Delegation tokens as the controller decides them: every check of Kafka's, in order."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest

from fencepost.machines.controller.config import TOKENS_PER_SWEEP, TokenSettings
from fencepost.machines.image import ScramMechanism, TokenImage
from fencepost.machines.image.token_secret import TokenSecret
from fencepost.machines.session import Principal
from fencepost.wire.api.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from fencepost.wire.api.expire_delegation_token import ExpireDelegationTokenRequest
from fencepost.wire.api.renew_delegation_token import RenewDelegationTokenRequest
from fencepost.wire.records.metadata import DelegationTokenRecord

from .controller_fixtures import Bench

NOW = 1_700_000_000_000
ADA, BOB, EVE = (Principal("User", name) for name in ("ada", "bob", "eve"))
SETTINGS = TokenSettings(TokenSecret("hush"), 1000, 400)


def bench(settings: TokenSettings = SETTINGS, level: int = 33) -> Bench:
    return Bench(tokens=settings, first_levels={"metadata.version": level})


def create(bench: Bench, token_id: str = "t", *renewers: str, by: Principal = ADA, **more: Any):
    users = [CreatableRenewers(principal_type="User", principal_name=name) for name in renewers]
    request = CreateDelegationTokenRequest(**{"renewers": users, "max_lifetime_ms": -1, **more})
    return bench.do(bench.controller.security.decide_create_token(request, by, token_id, NOW))


def renew(bench: Bench, secret: bytes, period_ms: int, by: Principal = ADA, now: int = NOW):
    request = RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms)
    answer = bench.do(bench.controller.security.decide_renew_token(request, by, now))
    return answer.error_code, answer.expiry_timestamp_ms


def expire(bench: Bench, secret: bytes, period_ms: int, by: Principal = ADA, now: int = NOW):
    request = ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms)
    answer = bench.do(bench.controller.security.decide_expire_token(request, by, now))
    return answer.error_code, answer.expiry_timestamp_ms


def test_a_token_is_recorded_without_its_secret() -> None:
    world = bench()
    answer = create(world, "t", "bob", owner_principal_type="User", owner_principal_name="eve")
    assert answer.hmac == hmac.digest(b"hush", b"t", hashlib.sha512)
    assert world.image.tokens["t"] == TokenImage(
        "t", "User:eve", "User:ada", ("User:bob",), NOW, NOW + 1000, NOW + 400
    )
    (record,) = [one for one in world.log if isinstance(one, DelegationTokenRecord)]
    assert answer.hmac not in record.encode(0)


@pytest.mark.parametrize(
    ("asked_ms", "lifetime_ms"), [(-1, 1000), (0, 1000), (1, 1), (999, 999), (1 << 62, 1000)]
)
def test_the_lifetime_is_bounded_by_the_configuration(asked_ms: int, lifetime_ms: int) -> None:
    answer = create(bench(), max_lifetime_ms=asked_ms)
    assert answer.max_timestamp_ms == NOW + lifetime_ms
    assert answer.expiry_timestamp_ms == NOW + min(400, lifetime_ms)
    forever = TokenSettings(TokenSecret("hush"), (1 << 63) - 1, (1 << 63) - 1)
    assert create(bench(forever)).max_timestamp_ms == (1 << 63) - 1


def test_refused_creations_leave_nothing() -> None:
    group = [CreatableRenewers(principal_type="Group", principal_name="staff")]
    for settings, level, error in (
        (TokenSettings(), 13, 61),
        (SETTINGS, 13, 35),
        (SETTINGS, 14, 67),
    ):
        world = bench(settings, level)
        before = len(world.log)
        answer = create(world, renewers=group)
        assert (answer.error_code, answer.token_id, answer.hmac) == (error, "", b"")
        assert (answer.principal_name, answer.token_requester_principal_name) == ("ada", "ada")
        assert len(world.log) == before


def test_disabled_and_too_old_come_before_all_else() -> None:
    for settings, level, error in ((TokenSettings(), 13, 61), (SETTINGS, 13, 35)):
        world = bench(settings, level)
        assert renew(world, b"x", 1)[0] == expire(world, b"x", -1)[0] == error


def test_renewals() -> None:
    world = bench()
    secret = create(world, "t", "bob").hmac
    assert renew(world, b"", 1) == renew(world, secret[:-1], 1) == (62, 0)
    assert renew(world, secret, 1, EVE) == (63, 0)
    assert renew(world, secret, 100, BOB, NOW + 50) == (0, NOW + 150)
    assert renew(world, secret, 1 << 62, ADA, NOW + 150) == (0, NOW + 550), "400 are the most"
    assert renew(world, secret, -1, ADA, NOW + 550) == (0, NOW + 950)
    assert renew(world, secret, 0, ADA, NOW + 900) == (0, NOW + 1000), "not beyond its end"
    assert renew(world, secret, 1, EVE, NOW + 1001) == (66, 0), "told before the owner is checked"


def test_expirations() -> None:
    world = bench()
    secret = create(world, "t", "bob").hmac
    assert expire(world, b"x", -1) == (62, 0)
    assert expire(world, secret, -1, EVE) == (63, 0)
    assert expire(world, secret, 1 << 62) == (0, NOW + 1000)
    assert expire(world, secret, 0, BOB) == (0, NOW)
    assert expire(world, secret, 5, EVE, NOW + 1) == (63, 0)
    assert expire(world, secret, 5, ADA, NOW + 1) == (66, 0)
    assert expire(world, secret, -1, ADA, NOW + 1) == (0, NOW + 1)
    assert not world.image.tokens
    assert expire(world, secret, -1) == (62, 0)
    assert create(world, "t").hmac == secret
    assert expire(world, secret, -1) == (0, NOW), "a new token under the id is found again"


def test_expired_tokens_are_removed_in_rounds() -> None:
    world = bench()
    for number in range(TOKENS_PER_SWEEP + 3):
        create(world, f"t{number}", max_lifetime_ms=10)
    create(world, "stays")
    assert world.do(world.controller.security.decide_token_sweep(NOW + 10)) == 0
    assert world.do(world.controller.security.decide_token_sweep(NOW + 11)) == TOKENS_PER_SWEEP
    assert world.do(world.controller.security.decide_token_sweep(NOW + 11)) == 3
    assert set(world.image.tokens) == {"stays"}
    assert world.do(bench(TokenSettings()).controller.security.decide_token_sweep(NOW)) == 0


def test_a_tokens_credential_is_the_same_on_all_nodes_and_its_secret_is_not_shown() -> None:
    first, second = TokenSecret("hush"), TokenSecret("hush")
    for mechanism in ScramMechanism:
        made = first.credential_of("t", mechanism)
        assert made == second.credential_of("t", mechanism)
        assert made != first.credential_of("u", mechanism)
        assert made.salt != first.credential_of("u", mechanism).salt
        assert made != TokenSecret("other").credential_of("t", mechanism)
    assert "hush" not in f"{first!r} {first} {SETTINGS!r}"
