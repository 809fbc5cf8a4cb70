"""`fencepost tokens`: delegation tokens, by which programs log in without a password."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import (
    command,
    finish_cluster_command,
    given_properties,
    open_admin,
    open_cluster,
)
from fencepost.cli.commands import add_actions, add_repeatable
from fencepost.cli.failures import InputError, UsageError
from fencepost.cli.output import print_result, print_views
from fencepost.cli.secret_files import new_secret_file
from fencepost.cli.security_words import principal_of

if TYPE_CHECKING:
    from fencepost.client.delegation_tokens import DelegationToken

OF_TRUST = ("ssl.truststore.", "ssl.ca.", "ssl.endpoint.identification.algorithm")

EXAMPLES = """\
A token's secret is written to a file of client properties that only its owner can read, and shown
nowhere. Only a user who has logged in by something else than a token may ask about tokens.

examples:
  fencepost tokens create --write job.properties
  fencepost tokens create --write job.properties --renewer scheduler --max-lifetime 86400
  fencepost topics list --client-config job.properties
  fencepost tokens list
  fencepost tokens renew hW3mbsKNSy6QBF1DeZuPSQ --period 3600
  fencepost tokens expire hW3mbsKNSy6QBF1DeZuPSQ
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost tokens`."""
    parser = subparsers.add_parser(
        "tokens", description="Delegation tokens (KIP-48).", epilog=EXAMPLES
    )
    actions = add_actions(parser)
    listing = actions.add_parser("list", help="the tokens that you may see")
    listing.add_argument(
        "owners", nargs="*", metavar="PRINCIPAL", help="only those it owns or may renew"
    )
    finish_cluster_command(listing, list_tokens)

    creating = actions.add_parser("create", help="make a token")
    creating.add_argument(
        "--write",
        type=Path,
        required=True,
        metavar="FILE",
        help="a new file for the client properties of a login by it",
    )
    creating.add_argument("--owner", metavar="PRINCIPAL", help="of this one (default: of yours)")
    add_repeatable(
        creating, "--renewer", metavar="PRINCIPAL", help="may renew it, too (repeatable)"
    )
    creating.add_argument(
        "--max-lifetime", type=float, metavar="SECONDS", help="default: the cluster's"
    )
    finish_cluster_command(creating, create_token)

    renewing = actions.add_parser("renew", help="let a token be good for longer")
    renewing.add_argument("token", metavar="ID")
    renewing.add_argument(
        "--period", type=float, metavar="SECONDS", help="from now (default: the cluster's)"
    )
    finish_cluster_command(renewing, renew_token)

    ending = actions.add_parser("expire", help="let a token end, at once or soon")
    ending.add_argument("token", metavar="ID")
    ending.add_argument(
        "--in", dest="period", type=float, metavar="SECONDS", help="default: at once"
    )
    finish_cluster_command(ending, expire_token)


@command
def list_tokens(arguments: argparse.Namespace) -> int:
    """A row per token."""
    from fencepost.views.security import TokenView

    owners = [principal_of(one) for one in arguments.owners] or None
    with open_admin(arguments) as admin:
        found = admin.describe_delegation_token(owners)
    print_views(arguments, TokenView, [TokenView.of(one) for one in found])
    return 0


@command
def create_token(arguments: argparse.Namespace) -> int:
    """Make a token and write the client properties of a login by it."""
    from fencepost.client.admin import Admin
    from fencepost.views.security import CreatedToken, TokenView
    from fencepost.views.times import iso_time

    renewers = [principal_of(one) for one in arguments.renewer]
    owner = None if arguments.owner is None else principal_of(arguments.owner)
    lifetime_ms = _ms(arguments.max_lifetime)
    # The file first: a token whose secret cannot be kept is of no use.
    with new_secret_file(arguments.write) as file, open_cluster(arguments) as cluster:
        admin = Admin(cluster)
        made = admin.create_delegation_token(
            renewers=renewers, owner=owner, max_lifetime_ms=lifetime_ms
        )
        file.write(login_properties(made, given_properties(arguments)))
    view = CreatedToken(TokenView.of(made), str(arguments.write))
    sentence = (
        f"token {made.token_id} of {made.owner} is good until {iso_time(made.expiry_timestamp_ms)};"
        f" {arguments.write} has the properties of a login by it"
    )
    print_result(arguments, view, sentence)
    return 0


def login_properties(token: DelegationToken, given: Mapping[str, object]) -> str:
    """Client properties, for Java's clients and ours, of a login by the token.

    What is `given` for the login that made it says whether there is TLS, and whom it trusts.
    """
    from fencepost.log.properties import encode_properties

    jaas = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required"
        f' username="{token.token_id}" password="{token.password}" tokenauth="true";'
    )
    is_encrypted = str(given.get("security.protocol", "")).upper().endswith("SSL")
    trust = {key: str(text) for key, text in given.items() if key.startswith(OF_TRUST)}
    entries = {
        "security.protocol": "SASL_SSL" if is_encrypted else "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": jaas,
        **(trust if is_encrypted else {}),
    }
    return encode_properties(entries).decode()


@command
def renew_token(arguments: argparse.Namespace) -> int:
    """Let a token be good for longer."""
    return _change(arguments, "renewed")


@command
def expire_token(arguments: argparse.Namespace) -> int:
    """Let a token end."""
    return _change(arguments, "ends")


def _change(arguments: argparse.Namespace, done: str) -> int:
    from fencepost.views.security import ChangedToken
    from fencepost.views.times import iso_time

    period_ms = _ms(arguments.period)
    with open_admin(arguments) as admin:
        found = {one.token_id: one for one in admin.describe_delegation_token()}
        if arguments.token not in found:
            text = f"you may see no token {arguments.token!r}: see `fencepost tokens list`"
            raise InputError(text)
        is_renewal = done == "renewed"
        change = admin.renew_delegation_token if is_renewal else admin.expire_delegation_token
        until_ms = change(found[arguments.token].hmac, period_ms=period_ms)
    view = ChangedToken(arguments.token, until_ms, done)
    is_gone = done == "ends" and period_ms < 0
    sentence = "is removed" if is_gone else f"is good until {iso_time(until_ms)}"
    print_result(arguments, view, f"token {arguments.token} {sentence}")
    return 0


def _ms(seconds: float | None) -> int:
    """-1 for what the cluster chooses. UsageError."""
    if seconds is None:
        return -1
    if not 0 < seconds < 10**9:
        raise UsageError(f"{seconds:.15g} seconds: must be above 0 and below 10^9")
    return max(1, round(seconds * 1000))
