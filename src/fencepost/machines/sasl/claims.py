"""What an access token has to claim (RFC 7519), as Kafka's brokers check it (KIP-768).

The signature is verified elsewhere; claims that were not signed must not come here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

CLOCK_SKEW_S: Final = 30
"""The default of `sasl.oauthbearer.clock.skew.seconds`."""
_SECONDS_MAX: Final = 1 << 40
"""A time beyond it is no time."""


class ClaimRules(Struct, frozen=True):
    """What a listener's tokens are held against."""

    audiences: tuple[str, ...] = ()
    """`sasl.oauthbearer.expected.audience`: one of them has to be claimed; any if empty."""
    issuer: str | None = None
    """`sasl.oauthbearer.expected.issuer`; any if None."""
    clock_skew_s: int = CLOCK_SKEW_S
    subject_claim: str = "sub"
    """`sasl.oauthbearer.sub.claim.name`: what names the principal."""
    scope_claim: str = "scope"
    """`sasl.oauthbearer.scope.claim.name`."""


class AcceptedToken(Struct, frozen=True):
    """Who has shown a token that is good."""

    principal: str
    expires_ms: int
    """In milliseconds since 1970."""


class RejectedToken(Struct, frozen=True):
    """A token that is not good."""

    reason: str
    """For the log: it has nothing of the token but names and times of claims."""


class _ClaimError(ValueError):
    """A claim that is missing or not as it has to be."""


def check_claims(
    claims: Mapping[str, Any], rules: ClaimRules, now_ms: int
) -> AcceptedToken | RejectedToken:
    """Judge the claims of a token, at this time since 1970."""
    try:
        expires_s = _time(claims, "exp")
        _time(claims, "iat")
        now_s = now_ms / 1000
        if expires_s + rules.clock_skew_s <= now_s:
            raise _ClaimError("it has expired")
        if "nbf" in claims and _time(claims, "nbf") - rules.clock_skew_s > now_s:
            raise _ClaimError("it is not valid yet")
        if rules.issuer is not None and claims.get("iss") != rules.issuer:
            raise _ClaimError("its issuer is not sasl.oauthbearer.expected.issuer")
        if rules.audiences:
            _check_audience(claims.get("aud"), rules.audiences)
        _check_scopes(claims.get(rules.scope_claim), rules.scope_claim)
        return AcceptedToken(_text(claims, rules.subject_claim), int(expires_s * 1000))
    except _ClaimError as error:
        return RejectedToken(str(error))


def _time(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if value is None:
        raise _ClaimError(f"it has no {name}")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < _SECONDS_MAX:  # which NaN is not either
        raise _ClaimError(f"its {name} is no time")
    return float(value)


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip():
        raise _ClaimError(f"its {name} is no text, or empty")
    if not value.isprintable():
        raise _ClaimError(f"its {name} has characters that are not printable")
    return value.strip(" ")


def _check_audience(claimed: Any, expected: tuple[str, ...]) -> None:
    named = claimed if isinstance(claimed, list) else [claimed]
    if not any(isinstance(one, str) and one in expected for one in named):
        raise _ClaimError("its audience is not in sasl.oauthbearer.expected.audience")


def _check_scopes(claimed: Any, name: str) -> None:
    """A text or a list of texts, none empty, none twice. What else may be there is no scope."""
    scopes = [claimed] if isinstance(claimed, str) else claimed
    if not isinstance(scopes, list):
        return
    if not all(isinstance(one, str) and one.strip() for one in scopes):
        raise _ClaimError(f"its {name} has an element that is no text, or empty")
    if len({one.strip() for one in scopes}) != len(scopes):
        raise _ClaimError(f"its {name} has an element twice")
