"""`fencepost acls`: who may do what, as the cluster's rules say."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import command, finish_cluster_command, open_admin
from fencepost.cli.commands import add_actions
from fencepost.cli.failures import UsageError
from fencepost.cli.output import print_json, print_views
from fencepost.cli.security_words import (
    RESOURCE,
    RESOURCE_HELP,
    operation_of,
    operations_of,
    principal_of,
    resource_of,
)

if TYPE_CHECKING:
    from fencepost.client.acls import AclBinding, AclBindingFilter

EXAMPLES = """\
A rule that denies wins over every rule that allows. READ, WRITE, DELETE and ALTER come with
DESCRIBE, and ALTER_CONFIGS with DESCRIBE_CONFIGS.

examples:
  fencepost acls list
  fencepost acls list --principal ada --resource topic:orders --matching
  fencepost acls add ada read topic:orders
  fencepost acls add ada read group:billing
  fencepost acls add app write,create topic:events- --prefixed
  fencepost acls add '*' describe topic:*  --host 10.0.0.0/8
  fencepost acls add eve all topic:orders --deny
  fencepost acls remove --principal ada --resource topic:orders --dry-run
  fencepost security explain ada READ topic:orders       (which rule decides)
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost acls`."""
    parser = subparsers.add_parser(
        "acls", description="Access control lists: who may do what.", epilog=EXAMPLES
    )
    actions = add_actions(parser)
    listing = actions.add_parser("list", help="all rules, or some of them")
    _add_filter(listing)
    finish_cluster_command(listing, list_acls)

    adding = actions.add_parser("add", help="allow something, or deny it")
    adding.add_argument("principal", metavar="PRINCIPAL", help="ada is User:ada; '*' is every user")
    adding.add_argument("operations", metavar="OPERATION[,OPERATION]", help="such as read or all")
    adding.add_argument("resources", nargs="+", metavar=RESOURCE, help=RESOURCE_HELP)
    adding.add_argument(
        "--prefixed", action="store_true", help="NAME is what names of resources begin with"
    )
    adding.add_argument("--host", default="*", help="from this address or network (default: any)")
    adding.add_argument("--deny", action="store_true", help="instead of allowing it")
    finish_cluster_command(adding, add_acls)

    removing = actions.add_parser("remove", help="remove rules")
    _add_filter(removing)
    removing.add_argument("--all", action="store_true", help="all rules there are")
    removing.add_argument("--dry-run", action="store_true", help="say which would be removed")
    finish_cluster_command(removing, remove_acls)


def _add_filter(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--principal", help="only of this one; ada is User:ada")
    parser.add_argument("--operation", help="only about this one")
    parser.add_argument("--resource", metavar=RESOURCE, help=f"only about {RESOURCE_HELP}")
    pattern = parser.add_mutually_exclusive_group()
    pattern.add_argument("--prefixed", action="store_true", help="NAME is a prefix in the rule")
    pattern.add_argument(
        "--matching",
        action="store_true",
        help="whatever counts for the resource: prefixes and * as well",
    )
    parser.add_argument("--host", help="only from exactly this host")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--allow", action="store_true", help="only what allows")
    kind.add_argument("--deny", action="store_true", help="only what denies")


@command
def list_acls(arguments: argparse.Namespace) -> int:
    """A row per rule."""
    from fencepost.views.security import AclView

    wanted = _filter(arguments)
    with open_admin(arguments) as admin:
        found = admin.describe_acls(wanted)
    print_views(arguments, AclView, [AclView.of(one) for one in found])
    return 0


@command
def add_acls(arguments: argparse.Namespace) -> int:
    """Add a rule per operation and resource."""
    from fencepost.client.acls import AclBinding
    from fencepost.machines.image.acls import Pattern, PermissionType

    principal = principal_of(arguments.principal)
    bindings = [
        AclBinding(
            *resource_of(resource),
            principal,
            operation,
            Pattern.PREFIXED if arguments.prefixed else Pattern.LITERAL,
            arguments.host,
            PermissionType.DENY if arguments.deny else PermissionType.ALLOW,
        )
        for resource in arguments.resources
        for operation in operations_of(arguments.operations)
    ]
    with open_admin(arguments) as admin:
        admin.create_acls(bindings)
    return _told(arguments, bindings, "added")


@command
def remove_acls(arguments: argparse.Namespace) -> int:
    """Remove what passes the filter; not everything by accident."""
    from fencepost.client.acls import AclBindingFilter

    wanted = _filter(arguments)
    if (wanted == AclBindingFilter()) is not arguments.all:
        raise UsageError("say which rules are to be removed, or --all")
    with open_admin(arguments) as admin:
        if arguments.dry_run:
            return _told(arguments, admin.describe_acls(wanted), "would be removed")
        return _told(arguments, admin.delete_acls([wanted]), "removed")


def _told(arguments: argparse.Namespace, bindings: list[AclBinding], done: str) -> int:
    from fencepost.views.security import AclView, ChangedAcls
    from fencepost.views.tables import escaped

    if arguments.json:
        print_json(ChangedAcls([AclView.of(one) for one in bindings], done))
    elif not bindings:
        print(f"no rule {done}")
    for one in bindings if not arguments.json else ():
        print(escaped(f"{done}: {one}"))
    return 0


def _filter(arguments: argparse.Namespace) -> AclBindingFilter:
    from fencepost.client.acls import AclBindingFilter
    from fencepost.machines.image.acls import Pattern, PermissionType

    wanted = AclBindingFilter(host=arguments.host)
    if arguments.principal is not None:
        wanted = wanted._replace(principal=principal_of(arguments.principal))
    if arguments.operation is not None:
        wanted = wanted._replace(operation=operation_of(arguments.operation))
    if arguments.resource is not None:
        kind, name = resource_of(arguments.resource)
        wanted = wanted._replace(resource_type=kind, name=name, pattern_type=Pattern.LITERAL)
    elif arguments.matching:
        raise UsageError("--matching goes with --resource")
    if arguments.prefixed or arguments.matching:
        pattern = Pattern.PREFIXED if arguments.prefixed else Pattern.MATCH
        wanted = wanted._replace(pattern_type=pattern)
    if arguments.allow or arguments.deny:
        permission = PermissionType.ALLOW if arguments.allow else PermissionType.DENY
        wanted = wanted._replace(permission=permission)
    return wanted
