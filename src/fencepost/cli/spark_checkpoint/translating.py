"""`fencepost spark checkpoint convert` and `translate`: for another connector, or another topic."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.cli.cluster_options import bootstrap_servers, client_config, command, open_cluster
from fencepost.cli.failures import InputError, UsageError, as_input_errors
from fencepost.cli.key_values import pairs
from fencepost.cli.spark_checkpoint.opened import (
    carry_out,
    checkpoint_errors,
    given_offsets,
    open_checkpoint,
)

if TYPE_CHECKING:
    from fencepost.spark.offset_translation import Translation


@command
def convert(arguments: argparse.Namespace) -> int:
    """Offsets as the other connector spells them."""
    from fencepost.spark.checkpoint_edit import OURS, plan_conversion
    from fencepost.spark.offset_translation import identified

    with checkpoint_errors():
        opened = open_checkpoint(arguments, whole=True)
        known = {}
        if arguments.to == OURS and arguments.bootstrap_server is not None:
            with open_cluster(arguments) as cluster:
                known = {
                    source.name: identified(cluster, source.planned)
                    for source in opened.checkpoint.sources
                    if source.planned is not None
                }
        return carry_out(arguments, opened, plan_conversion(opened, arguments.to, known))


@command
def translate(arguments: argparse.Namespace) -> int:
    """Offsets in other topics, which have the same records."""
    from fencepost.spark.checkpoint_edit import plan_offsets
    from fencepost.spark.offset_translation import identified, translated

    names = pairs(arguments.rename, "--rename")
    _check_translate(arguments, names)
    with checkpoint_errors(), contextlib.ExitStack() as clusters:
        opened = open_checkpoint(arguments)
        needs_brokers = arguments.by_time or arguments.syncs is not None
        translation = _translation(arguments, names, clusters)
        wanted = {}
        for source in opened.checkpoint.sources:
            if source.committed is not None:
                new = translated(source.committed, translation)
                if new is not None:
                    wanted[source.name] = new
        if not wanted:
            topics = ", ".join(sorted(translation.topics))
            raise InputError(f"{opened.storage.uri}: no source has committed offsets of {topics}")
        if needs_brokers or arguments.bootstrap_server is not None:
            with open_cluster(arguments) as cluster:
                wanted = {name: identified(cluster, one) for name, one in wanted.items()}
        edit = plan_offsets(opened, wanted, abandon=arguments.abandon_batch)
        return carry_out(arguments, opened, edit)


def _check_translate(arguments: argparse.Namespace, names: Mapping[str, str]) -> None:
    if (arguments.replay is None) != (arguments.archive is None):
        raise UsageError("--replay and --archive belong together")
    if arguments.replay is None and not names:
        raise UsageError("--rename OLD=NEW says which topics are meant")
    if arguments.replay is not None and names:
        raise UsageError("--rename: a replay knows its topics")
    if len(set(names.values())) != len(names):
        raise UsageError("--rename: two topics cannot become one")


def _translation(
    arguments: argparse.Namespace, names: Mapping[str, str], clusters: contextlib.ExitStack
) -> Translation:
    """By what the options say; `clusters` gets those that the translation asks. ClientError,
    TranslationError, InputError."""
    from fencepost.client.cluster import Cluster
    from fencepost.spark import offset_translation as ways

    if arguments.replay is not None:
        return _of_replay(arguments)
    if arguments.same_offsets:
        return ways.same_offsets(names)
    if arguments.offsets is not None:
        return ways.given_offsets(names, given_offsets(arguments.offsets))
    here = bootstrap_servers(arguments)
    old, new = (
        clusters.enter_context(Cluster(config=client_config(arguments, servers)))
        for servers in (arguments.old_servers or here, here)
    )
    if arguments.syncs is not None:
        return ways.by_syncs(ways.read_syncs(old, arguments.syncs), names)
    return ways.by_time(old, new, names)


def _of_replay(arguments: argparse.Namespace) -> Translation:
    from fencepost.arrow.archive.layout import ArchiveError, Layout
    from fencepost.spark.archive.replaying import last_topic_id, read_offsets
    from fencepost.spark.offset_translation import by_replay

    layout = Layout(Path(arguments.archive))
    with as_input_errors(ArchiveError):
        table = read_offsets(layout, arguments.replay)
        return by_replay(table, last_topic_id(layout, arguments.replay))
