"""`fencepost features`: at which levels the cluster runs, and how it gets to newer ones."""

from __future__ import annotations

import argparse
from typing import Any

from fencepost.cli.cluster_options import command, finish_cluster_command, open_cluster
from fencepost.cli.commands import add_actions
from fencepost.cli.failures import UsageError
from fencepost.cli.key_values import pair
from fencepost.cli.output import print_json, print_table

METADATA_VERSION = "metadata.version"
LEVEL_MAX = (1 << 15) - 1

EXAMPLES = """\
A feature is raised when every node can run the new level: all brokers, all controllers. Nothing
that an older release cannot read is written before.

examples:
  fencepost features describe
  fencepost features upgrade --release-version 4.4    (metadata.version and what comes with it)
  fencepost features upgrade metadata.version=4.4     (that one alone)
  fencepost features upgrade kraft.version=1          (from now on voters can change)
  fencepost features upgrade metadata.version=33 --validate-only
  fencepost features downgrade metadata.version=4.3
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost features`."""
    parser = subparsers.add_parser(
        "features",
        description="See and change the levels at which the cluster runs (KIP-584).",
        epilog=EXAMPLES,
    )
    actions = add_actions(parser)
    describing = actions.add_parser("describe", help="levels in force, and what a node can run")
    finish_cluster_command(describing, describe)
    for name, text, is_downgrade in (
        ("upgrade", "to higher levels, all or none", False),
        ("downgrade", "to lower ones, where nothing is lost by that", True),
    ):
        changing = actions.add_parser(name, help=text)
        changing.add_argument(
            "levels",
            nargs="+" if is_downgrade else "*",
            metavar="NAME=LEVEL",
            help="the level is a number; of metadata.version also a release, as 4.2",
        )
        if not is_downgrade:
            changing.add_argument(
                "--release-version",
                metavar="RELEASE",
                help="instead: every feature that is lower than in a new cluster of this release,"
                " as 4.4, but kraft.version",
            )
        changing.add_argument("--validate-only", action="store_true", help="check, do not change")
        finish_cluster_command(changing, change)
        changing.set_defaults(is_downgrade=is_downgrade)


@command
def describe(arguments: argparse.Namespace) -> int:
    """Every feature with its level."""
    from fencepost.client.features import FeatureAdmin
    from fencepost.views.features import FeatureView

    with open_cluster(arguments) as cluster:
        found = FeatureAdmin(cluster).describe()
    if arguments.json:
        print_json([FeatureView.of(one) for one in found])
    else:
        print_table(
            ("feature", "level", "node runs"),
            [
                (
                    one.name,
                    level_text(one.name, one.level),
                    f"{level_text(one.name, one.min_level)} to"
                    f" {level_text(one.name, one.max_level)}",
                )
                for one in found
            ],
        )
    return 0


@command
def change(arguments: argparse.Namespace) -> int:
    """Raise or lower levels."""
    from fencepost.client.features import FeatureAdmin
    from fencepost.views.features import ChangedFeatures

    levels = levels_of(arguments.levels)
    release = None if arguments.is_downgrade else arguments.release_version
    if bool(levels) is (release is not None):
        raise UsageError("say either NAME=LEVEL or --release-version")
    released = {} if release is None else released_levels(release)
    with open_cluster(arguments) as cluster:
        admin = FeatureAdmin(cluster)
        before = {one.name: one.level for one in admin.describe()}
        if release is not None:
            levels = {name: to for name, to in released.items() if before.get(name, 0) < to}
            levels = levels or {METADATA_VERSION: before[METADATA_VERSION]}
        admin.update(
            levels, downgrade=arguments.is_downgrade, validate_only=arguments.validate_only
        )
    changed = [name for name, level in levels.items() if before.get(name, 0) != level]
    done = "could be set" if arguments.validate_only else "set"
    if arguments.json:
        print_json(ChangedFeatures(levels, changed, done))
    else:
        for name, level in levels.items():
            text = f"{done} to" if name in changed else "is already at"
            print(f"{name} {text} {level_text(name, level)}")
    return 0


def levels_of(texts: list[str]) -> dict[str, int]:
    """The levels by feature of NAME=LEVEL. UsageError."""
    from fencepost.broker.config.release_versions import level_of

    levels: dict[str, int] = {}
    for text in texts:
        name, level = pair(text, "NAME=LEVEL")
        if name in levels:
            raise UsageError(f"{name} is given twice")
        if level.isascii() and level.isdigit() and len(level) < 6 and int(level) <= LEVEL_MAX:
            levels[name] = int(level)
            continue
        if name != METADATA_VERSION:
            raise UsageError(f"{text}: a level is a number from 0 to {LEVEL_MAX}")
        try:
            levels[name] = level_of(level)
        except ValueError as error:
            raise UsageError(f"{text}: {error}") from error
    return levels


def released_levels(release: str) -> dict[str, int]:
    """The levels of a new cluster of a release, but of `kraft.version`, which changes how voters
    are known. UsageError."""
    from fencepost.broker.config.features import KRAFT_VERSION, default_levels
    from fencepost.broker.config.release_versions import level_of

    try:
        levels = default_levels(level_of(release))
    except ValueError as error:
        raise UsageError(f"--release-version {release}: {error}") from error
    return {name: level for name, level in levels.items() if name != KRAFT_VERSION.name}


def level_text(name: str, level: int) -> str:
    """A level as people know it: levels of metadata.version have names."""
    from fencepost.broker.config.release_versions import name_of

    named = name_of(level)
    return f"{level} ({named})" if name == METADATA_VERSION and named != str(level) else str(level)
