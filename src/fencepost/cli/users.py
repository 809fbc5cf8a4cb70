"""`fencepost users`: who can log in by SCRAM."""

from __future__ import annotations

import argparse
from typing import Any

from fencepost.cli.cluster_options import command, finish_cluster_command, open_admin
from fencepost.cli.commands import add_actions
from fencepost.cli.failures import InputError, UsageError
from fencepost.cli.output import print_result, print_views
from fencepost.cli.secret_files import add_password_option, read_password

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")

EXAMPLES = """\
The password does not leave this machine: the cluster is sent what a login can be checked by. A user
who is logged in stays so; the next login needs the new password.

examples:
  fencepost users list
  fencepost users set ada                                  (asks for the password)
  fencepost users set app --password-file app.password --mechanism SCRAM-SHA-256
  fencepost users delete ada
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost users`."""
    parser = subparsers.add_parser(
        "users", description="Users who log in by SCRAM.", epilog=EXAMPLES
    )
    actions = add_actions(parser)
    listing = actions.add_parser("list", help="users and their mechanisms")
    listing.add_argument("users", nargs="*", metavar="USER", help="only these")
    finish_cluster_command(listing, list_users)

    setting = actions.add_parser("set", help="give a user a password, new or not")
    setting.add_argument("user", metavar="USER")
    setting.add_argument(
        "--mechanism",
        choices=MECHANISMS,
        type=str.upper,
        default=MECHANISMS[1],
        help=f"default: {MECHANISMS[1]}",
    )
    setting.add_argument(
        "--iterations",
        type=int,
        metavar="N",
        help="rounds of hashing, 4096 to 16384 (default: 8192)",
    )
    add_password_option(setting)
    finish_cluster_command(setting, set_user)

    deleting = actions.add_parser("delete", help="let a user log in no more")
    deleting.add_argument("user", metavar="USER")
    deleting.add_argument(
        "--mechanism", choices=MECHANISMS, type=str.upper, help="only by this one (default: all)"
    )
    finish_cluster_command(deleting, delete_user)


@command
def list_users(arguments: argparse.Namespace) -> int:
    """A row per user and mechanism."""
    from fencepost.views.security import UserView

    with open_admin(arguments) as admin:
        found = admin.describe_user_scram_credentials(arguments.users or None)
    views = [UserView.of(user, info) for user, infos in found.items() for info in infos]
    print_views(arguments, UserView, views)
    return 0


@command
def set_user(arguments: argparse.Namespace) -> int:
    """Set a credential."""
    from fencepost.client.scram_users import (
        DEFAULT_ITERATIONS,
        UserScramCredentialUpsertion,
    )
    from fencepost.machines.image.scram import ScramMechanism
    from fencepost.machines.scram_keys import ITERATIONS_MAX, ITERATIONS_MIN
    from fencepost.views.security import ChangedUser

    iterations = DEFAULT_ITERATIONS if arguments.iterations is None else arguments.iterations
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise UsageError(
            f"--iterations {iterations}: allowed is {ITERATIONS_MIN} to {ITERATIONS_MAX}"
        )
    if not arguments.user or not arguments.user.isascii() or not arguments.user.isprintable():
        raise UsageError(f"user {arguments.user!r}: SCRAM needs a name of printable ASCII letters")
    mechanism = ScramMechanism.named(arguments.mechanism)
    assert mechanism is not None, "or argparse would have refused it"
    password = read_password(arguments, arguments.user)
    credential = UserScramCredentialUpsertion(arguments.user, mechanism, password, iterations)
    with open_admin(arguments) as admin:
        admin.alter_user_scram_credentials([credential])
    done = ChangedUser(arguments.user, [arguments.mechanism], "set")
    print_result(arguments, done, f"user {arguments.user} can log in by {arguments.mechanism}")
    return 0


@command
def delete_user(arguments: argparse.Namespace) -> int:
    """Delete a user's credentials, or one of them."""
    from fencepost.client.scram_users import UserScramCredentialDeletion
    from fencepost.machines.image.scram import ScramMechanism
    from fencepost.views.security import ChangedUser

    user = arguments.user
    chosen = None if arguments.mechanism is None else ScramMechanism.named(arguments.mechanism)
    with open_admin(arguments) as admin:
        if chosen is not None:
            mechanisms = [chosen]
        else:
            found = admin.describe_user_scram_credentials([user])
            mechanisms = [info.mechanism for info in found.get(user, ())]
        if not mechanisms:
            raise InputError(f"there is no user {user!r}: see `fencepost users list`")
        for mechanism in mechanisms:  # one request has room for one of each user
            admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, mechanism)])
    names = [one.mechanism_name for one in mechanisms]
    sentence = f"user {user} can log in no more by {' and '.join(names)}"
    print_result(arguments, ChangedUser(user, names, "deleted"), sentence)
    return 0
