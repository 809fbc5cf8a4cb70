"""`fencepost quotas`: how much clients may do."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from fencepost.cli.cluster_options import command, finish_cluster_command, open_admin
from fencepost.cli.command_line import unknown_name
from fencepost.cli.commands import add_actions
from fencepost.cli.failures import UsageError
from fencepost.cli.key_values import pairs
from fencepost.cli.output import print_result, print_views

EXAMPLES = """\
A quota is for a user, a client id, both, or an address. Of those that fit a client the most
specific one counts; a default is for all that have none of their own.

quotas:
  producer_byte_rate        bytes written per second, by each broker
  consumer_byte_rate        bytes read per second, by each broker
  request_percentage        time of handling requests, in % of one thread
  controller_mutation_rate  partitions created and deleted per second
  connection_creation_rate  connections made per second, from one address

examples:
  fencepost quotas list
  fencepost quotas set --user ada producer_byte_rate=1048576 consumer_byte_rate=2097152
  fencepost quotas set --default-user request_percentage=50
  fencepost quotas set --user app --client-id loader producer_byte_rate=10485760
  fencepost quotas set --ip 10.0.0.7 connection_creation_rate=10
  fencepost quotas remove --user ada producer_byte_rate
  fencepost quotas remove --user ada                      (all that are set)
"""
TYPES = ("user", "client-id", "ip")


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost quotas`."""
    parser = subparsers.add_parser("quotas", description="Quotas of clients.", epilog=EXAMPLES)
    actions = add_actions(parser)
    listing = actions.add_parser("list", help="all quotas, or some of them")
    _add_entity(listing)
    finish_cluster_command(listing, list_quotas)

    setting = actions.add_parser("set", help="set quotas of an entity")
    setting.add_argument("quotas", nargs="+", metavar="QUOTA=VALUE")
    _finish_change(setting, set_quotas)

    removing = actions.add_parser("remove", help="remove quotas of an entity")
    removing.add_argument("quotas", nargs="*", metavar="QUOTA", help="default: all that are set")
    _finish_change(removing, remove_quotas)


def _add_entity(parser: argparse.ArgumentParser) -> None:
    for kind in TYPES:
        which = parser.add_mutually_exclusive_group()
        which.add_argument(f"--{kind}", metavar="NAME", help=f"of this {kind.replace('-', ' ')}")
        which.add_argument(
            f"--default-{kind}",
            action="store_true",
            help=f"of every other {kind.replace('-', ' ')}",
        )


def _finish_change(parser: argparse.ArgumentParser, run: Any) -> None:
    _add_entity(parser)
    parser.add_argument("--validate-only", action="store_true", help="check, do not change")
    finish_cluster_command(parser, run)


@command
def list_quotas(arguments: argparse.Namespace) -> int:
    """A row per quota."""
    from fencepost.client.client_quotas import ClientQuotaFilter, QuotaMatch
    from fencepost.views.security import QuotaView

    components = [
        ClientQuotaFilter(kind, QuotaMatch.DEFAULT if name is None else QuotaMatch.EXACT, name)
        for kind, name in _named(arguments).items()
    ]
    with open_admin(arguments) as admin:
        found = admin.describe_client_quotas(components)
    views = [
        QuotaView(entity.names, key, value)
        for entity, quotas in found.items()
        for key, value in quotas.items()
    ]
    print_views(arguments, QuotaView, views)
    return 0


@command
def set_quotas(arguments: argparse.Namespace) -> int:
    """Set some, leave the others."""
    given = pairs(arguments.quotas, "QUOTA=VALUE")
    if len(given) != len(arguments.quotas):
        raise UsageError("a quota is given twice")
    values = {_known(key): _value(key, text) for key, text in given.items()}
    return _change(arguments, values, "set")


@command
def remove_quotas(arguments: argparse.Namespace) -> int:
    """Remove some, or all of an entity."""
    return _change(arguments, dict.fromkeys(map(_known, arguments.quotas)), "removed")


def _change(arguments: argparse.Namespace, quotas: Mapping[str, float | None], done: str) -> int:
    from fencepost.client.client_quotas import ClientQuotaEntity
    from fencepost.views.security import ChangedQuotas

    names = _named(arguments)
    if not names:
        options = ", ".join(f"--{kind}" for kind in TYPES)
        raise UsageError(f"say whose quotas: {options}, or --default-user and so on")
    entity = ClientQuotaEntity.of(names)
    chosen = dict(quotas)
    with open_admin(arguments) as admin:
        if not chosen:
            there = admin.describe_client_quotas().get(entity)
            if there is None:
                raise UsageError(f"no quota is set for {entity}")
            chosen = dict.fromkeys(there)
        admin.alter_client_quotas({entity: chosen}, validate_only=arguments.validate_only)
    done = f"could be {done}" if arguments.validate_only else done
    words = [key if value is None else f"{key}={value:.15g}" for key, value in chosen.items()]
    sentence = f"{', '.join(words)} {done} for {entity}"
    print_result(arguments, ChangedQuotas(names, chosen, done), sentence)
    return 0


def _named(arguments: argparse.Namespace) -> dict[str, str | None]:
    """The entity that the options name: names by type, None for a default."""
    names: dict[str, str | None] = {}
    for kind in TYPES:
        attribute = kind.replace("-", "_")
        if getattr(arguments, f"default_{attribute}"):
            names[kind] = None
        elif getattr(arguments, attribute) is not None:
            names[kind] = getattr(arguments, attribute)
    return names


def _known(key: str) -> str:
    from fencepost.client.client_quotas import QUOTA_KEYS

    if key not in QUOTA_KEYS:
        otherwise = f"there are {', '.join(QUOTA_KEYS)}"
        raise UsageError(unknown_name("quota", key, QUOTA_KEYS, otherwise))
    return key


def _value(key: str, text: str) -> float:
    import math

    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value <= 0:
        raise UsageError(f"{key}={text}: the value must be a number above 0")
    return value
