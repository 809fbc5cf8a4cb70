"""A small issuer of access tokens: a key, its key set, and tokens of any claims."""

from __future__ import annotations

import json
import time
from typing import Any, Final

AUDIENCE: Final = "kafka"
ISSUER: Final = "https://issuer.example"
GOOD_FOR_S: Final = 600


class AccessTokenIssuer:
    """Signs tokens with `key`, whose public half is in `key_set`. ImportError without joserfc,
    which the extra `security` has."""

    def __init__(self, key_id: str = "first", kind: str = "EC") -> None:
        """`kind` is EC, OKP or RSA."""
        from joserfc import jwk

        parameters: Any = {"kid": key_id}
        self.key: Any
        if kind == "EC":
            self.key, self.algorithm = jwk.ECKey.generate_key("P-256", parameters), "ES256"
        elif kind == "OKP":
            self.key, self.algorithm = jwk.OKPKey.generate_key("Ed25519", parameters), "Ed25519"
        else:
            self.key, self.algorithm = jwk.RSAKey.generate_key(2048, parameters), "RS256"

    def key_set(self, *others: AccessTokenIssuer) -> bytes:
        """The public halves of its key and those of others, as JWKS."""
        keys = [one.key.as_dict(private=False) for one in (self, *others)]
        return json.dumps({"keys": keys}).encode()

    def token(self, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token: of `sub="ada"`, good for ten minutes, unless the claims say something else. A
        value of None in `header` takes that part away."""
        from joserfc import jws, jwt

        now = int(time.time())
        content = {
            "sub": "ada",
            "iat": now,
            "exp": now + GOOD_FOR_S,
            "aud": AUDIENCE,
            "iss": ISSUER,
            **claims,
        }
        protected = {"alg": self.algorithm, "kid": self.key.kid, **(header or {})}
        protected = {name: value for name, value in protected.items() if value is not None}
        registry = jws.JWSRegistry(algorithms=[self.algorithm], strict_check_header=False)
        return jwt.encode(protected, content, self.key, registry=registry)
