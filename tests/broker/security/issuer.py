"""A small issuer of access tokens: keys, a key set, and tokens of any claims."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

jwk, jws, jwt = (pytest.importorskip(f"joserfc.{name}") for name in ("jwk", "jws", "jwt"))

AUDIENCE, ISSUER = "kafka", "https://issuer.example"


class Issuer:
    """Signs with `key`, whose public half is in `key_set`."""

    def __init__(self, key_id: str = "first", kind: str = "EC") -> None:
        parameters: Any = {"kid": key_id}
        self.key: Any
        if kind == "EC":
            self.key, self.algorithm = jwk.ECKey.generate_key("P-256", parameters), "ES256"
        elif kind == "OKP":
            self.key, self.algorithm = jwk.OKPKey.generate_key("Ed25519", parameters), "Ed25519"
        else:
            self.key, self.algorithm = jwk.RSAKey.generate_key(2048, parameters), "RS256"

    def key_set(self, *others: Issuer) -> bytes:
        keys = [one.key.as_dict(private=False) for one in (self, *others)]
        return json.dumps({"keys": keys}).encode()

    def token(self, header: dict[str, Any] | None = None, **claims: Any) -> str:
        now = int(time.time())
        content = {
            "sub": "ada",
            "iat": now,
            "exp": now + 600,
            "aud": AUDIENCE,
            "iss": ISSUER,
            **claims,
        }
        protected = {"alg": self.algorithm, "kid": self.key.kid, **(header or {})}
        protected = {name: value for name, value in protected.items() if value is not None}
        registry = jws.JWSRegistry(algorithms=[self.algorithm], strict_check_header=False)
        return jwt.encode(protected, content, self.key, registry=registry)
