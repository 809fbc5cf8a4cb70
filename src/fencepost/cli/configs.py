"""`fencepost configs`: see and change the configuration of topics, groups and brokers."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import command, config_hint, finish_cluster_command, open_admin
from fencepost.cli.commands import add_actions, add_repeatable
from fencepost.cli.failures import UsageError
from fencepost.cli.key_values import pair
from fencepost.cli.output import print_result, print_views
from fencepost.cli.topic_default_notes import KEYS as TOPIC_DEFAULTS, topic_default_notes

if TYPE_CHECKING:
    from fencepost.client.admin import ConfigEntry

EXAMPLES = """\
examples:
  fencepost configs describe --topic orders
  fencepost configs describe --broker 1 --all
  fencepost configs alter --topic orders --set retention.ms=3600000 --delete cleanup.policy
  fencepost configs alter --group billing --set consumer.session.timeout.ms=60000
  fencepost configs alter --broker 1 --set log.cleaner.threads=2
  fencepost configs alter --broker-defaults --set log.retention.ms=86400000
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost configs`."""
    parser = subparsers.add_parser(
        "configs",
        description="See and change configs of topics, groups and brokers.",
        epilog=EXAMPLES,
    )
    actions = add_actions(parser)

    describing = actions.add_parser("describe", help="what is set (or --all that is in force)")
    describing.add_argument("keys", nargs="*", metavar="KEY", help="only these")
    describing.add_argument("--all", action="store_true", help="defaults too")
    _finish(describing, describe)

    altering = actions.add_parser("alter", help="change some, leave the others")
    for option, text in (
        ("--set", "give a config a value"),
        ("--append", "add to a list"),
        ("--subtract", "take from a list"),
    ):
        add_repeatable(altering, option, metavar="KEY=VALUE", help=text)
    add_repeatable(altering, "--delete", metavar="KEY", help="back to the default")
    altering.add_argument("--validate-only", action="store_true", help="check, do not change")
    _finish(altering, alter)


def _finish(parser: argparse.ArgumentParser, run: Any) -> None:
    whose = parser.add_mutually_exclusive_group(required=True)
    whose.add_argument("--topic", metavar="NAME", help="a topic's configs")
    whose.add_argument("--group", metavar="ID", help="a group's configs; it need not exist")
    whose.add_argument("--broker", metavar="ID", help="a broker's configs")
    whose.add_argument(
        "--broker-defaults",
        dest="broker",
        action="store_const",
        const="",
        help="configs of all brokers, which a broker's own ones override",
    )
    finish_cluster_command(parser, run)


def _resource(arguments: argparse.Namespace) -> tuple[int, str]:
    from fencepost.client.admin import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE

    if arguments.topic is not None:
        return TOPIC_RESOURCE, arguments.topic
    if arguments.group is not None:
        return GROUP_RESOURCE, arguments.group
    return BROKER_RESOURCE, arguments.broker


@command
def describe(arguments: argparse.Namespace) -> int:
    """Configs with where they come from, and where a broker's are not what counts."""
    from fencepost.views.configs import ConfigView

    notes: list[str] = []
    with open_admin(arguments) as admin:
        entries = _chosen(arguments, admin.describe_configs(*_resource(arguments)))
        if arguments.broker and not arguments.json:
            asked = arguments.keys or TOPIC_DEFAULTS
            notes = topic_default_notes(admin.cluster, int(arguments.broker), asked)
    print_views(arguments, ConfigView, [ConfigView.of(entry) for entry in entries])
    for note in notes:
        print(note)
    return 0


def _chosen(arguments: argparse.Namespace, entries: list[ConfigEntry]) -> list[ConfigEntry]:
    """The entries that are to be shown. UsageError for a key that is none."""
    from fencepost.client.admin import CONFIG_SOURCES, STATIC_SOURCE

    known = {entry.name for entry in entries}
    unknown = sorted(set(arguments.keys) - known)
    if unknown:
        hint = config_hint(unknown, known)
        raise UsageError(f"there is no config {', '.join(unknown)}{hint}")
    if arguments.keys:
        return [entry for entry in entries if entry.name in arguments.keys]
    if arguments.all:
        return entries
    # What a topic or group inherits from a broker's file is not set on it.
    passed_over = CONFIG_SOURCES[STATIC_SOURCE] if arguments.broker is None else None
    return [e for e in entries if not e.is_default and e.source != passed_over]


@command
def alter(arguments: argparse.Namespace) -> int:
    """Change configs in one step, all or none."""
    from fencepost.client.admin import APPEND, DELETE, SET, SUBTRACT, ConfigChange, described
    from fencepost.views.configs import ChangedConfigs

    changes = [ConfigChange(*pair(text, "--set"), SET) for text in arguments.set]
    changes += [ConfigChange(*pair(text, "--append"), APPEND) for text in arguments.append]
    changes += [ConfigChange(*pair(text, "--subtract"), SUBTRACT) for text in arguments.subtract]
    changes += [ConfigChange(key, None, DELETE) for key in arguments.delete]
    if not changes:
        raise UsageError("nothing to change: give --set, --delete, --append or --subtract")
    kind, name = _resource(arguments)
    with open_admin(arguments) as admin:
        admin.alter_configs(kind, name, changes, validate_only=arguments.validate_only)
    done = "could be changed" if arguments.validate_only else "changed"
    sentence = f"{len(changes)} config(s) of {described(kind, name)} {done}"
    print_result(arguments, ChangedConfigs(name, len(changes), done), sentence)
    return 0
