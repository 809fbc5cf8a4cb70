"""The server's side of SASL: PLAIN (RFC 4616), SCRAM (RFC 5802, RFC 7677), OAUTHBEARER (RFC 7628).

A `SaslServer` carries one login: `step` takes what the client has sent and says what follows. It
knows no frames, no clock and no randomness: times and nonces are given to it, and credentials are
looked up behind ports (`credentials`). What takes milliseconds is not done in a step but handed out
as `Work`, for a thread.

What a client is told about a refusal is Kafka's: some texts word for word, and one that says
nothing where another would tell whether a user exists (`Failed.told`).
"""

from fencepost.machines.sasl.claims import AcceptedToken, ClaimRules, RejectedToken, check_claims
from fencepost.machines.sasl.credentials import (
    PlainPasswords,
    ScramCredentials,
    TokenCredential,
    TokenCredentials,
)
from fencepost.machines.sasl.oauthbearer import OAUTHBEARER, OAuthBearerServer
from fencepost.machines.sasl.plain import PLAIN, PlainServer
from fencepost.machines.sasl.scram import ScramLookups, ScramServer
from fencepost.machines.sasl.steps import Challenge, Done, Failed, SaslServer, SaslStep, Work

__all__ = [
    "OAUTHBEARER",
    "PLAIN",
    "AcceptedToken",
    "Challenge",
    "ClaimRules",
    "Done",
    "Failed",
    "OAuthBearerServer",
    "PlainPasswords",
    "PlainServer",
    "RejectedToken",
    "SaslServer",
    "SaslStep",
    "ScramCredentials",
    "ScramLookups",
    "ScramServer",
    "TokenCredential",
    "TokenCredentials",
    "Work",
    "check_claims",
]
