"""`fencepost spark checkpoint`: what a query's checkpoint says, and the query's start elsewhere.

Without `--execute` the commands that change something say what they would do.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fencepost.cli.cluster_options import (
    INT64_MAX,
    bootstrap_servers,
    check_number,
    client_config,
    command,
    finish_cluster_command,
    open_cluster,
)
from fencepost.cli.commands import add_actions
from fencepost.cli.failures import InputError, UsageError
from fencepost.cli.key_values import pair
from fencepost.cli.output import print_json, print_table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fencepost.arrow.offsets import StreamOffset
    from fencepost.client.cluster import Cluster
    from fencepost.client.metadata import TopicPartition
    from fencepost.spark.checkpoint_edit import Edit, Opened
    from fencepost.spark.offset_translation import Translation
    from fencepost.views.checkpoints import CheckpointChange

JSON_BYTES_MAX: Final = 16 * 1024 * 1024
EXAMPLES = """\
CHECKPOINT is the checkpointLocation of a query that reads topics, with .format("fencepost") or
with Spark's own connector: a path or a URI (file:, s3://, gs://, abfs://, hdfs://). Stop the query
first.

examples:
  fencepost spark checkpoint show /data/checkpoints/orders
  fencepost spark checkpoint move /data/checkpoints/orders --to 2026-01-31T12:00:00 --execute
  fencepost spark checkpoint move /data/checkpoints/orders --shift-by -1000 --topic orders:0
  fencepost spark checkpoint convert /data/checkpoints/orders --to kafka --execute
  fencepost spark checkpoint translate /data/checkpoints/orders --archive /data/orders \\
      --replay orders-again --execute
"""


def register(actions: Any) -> None:
    """Add the parser of `fencepost spark checkpoint` and its own actions."""
    parser = actions.add_parser(
        "checkpoint", help="show a query's checkpoint, or have it start elsewhere", epilog=EXAMPLES
    )
    inner = add_actions(parser)
    showing = _action(inner, "show", "sources, offsets, batches and state")
    _finish(showing, show)
    _add_move(inner)
    converting = _action(inner, "convert", "for the other connector, without a batch")
    converting.add_argument(
        "--to", required=True, choices=("kafka", "fencepost"), help="the format that reads it next"
    )
    _add_changing(converting)
    _finish(converting, convert)
    _add_translate(inner)


def _action(inner: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = inner.add_parser(name, help=text, epilog=EXAMPLES)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a path or a URI")
    parser.add_argument(
        "--storage",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of its store, such as endpoint_override=HOST:PORT (repeatable)",
    )
    return parser


def _finish(parser: argparse.ArgumentParser, run: Any) -> None:
    finish_cluster_command(parser, run)


def _add_changing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--execute", action="store_true", help="do it; else it is only told")
    parser.add_argument(
        "--force", action="store_true", help="though a batch was written a moment ago"
    )


def _add_move(inner: Any) -> None:
    parser = _action(inner, "move", "other offsets to go on from")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument(
        "--to",
        metavar="WHERE",
        help="earliest, latest, an offset, @MILLISECONDS, or a time like 2026-01-31T12:00:00 (UTC)",
    )
    way.add_argument("--shift-by", type=int, metavar="N", help="so many offsets on, or (-N) back")
    way.add_argument(
        "--offsets", metavar="JSON", help='{"topic":{"0":23}}, or @FILE; needs no brokers'
    )
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="NAME[:N,N]",
        help="only this topic, or these partitions of it (repeatable)",
    )
    parser.add_argument("--source", metavar="NAME", help="only this source of the query")
    parser.add_argument(
        "--forget-missing",
        action="store_true",
        help="leave partitions out that do not exist any more",
    )
    _add_abandon(parser)
    _add_changing(parser)
    _finish(parser, move)


def _add_abandon(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--abandon-batch", action="store_true", help="give up a batch that cannot be finished"
    )


def _add_translate(inner: Any) -> None:
    parser = _action(inner, "translate", "offsets in a replayed, copied or migrated topic")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--replay", metavar="NAME", help="of the archive that --archive names")
    way.add_argument("--syncs", metavar="TOPIC", help="MirrorMaker 2's topic of offset syncs")
    way.add_argument("--same-offsets", action="store_true", help="the copy keeps offsets")
    way.add_argument("--by-time", action="store_true", help="by the first unread record's time")
    way.add_argument("--offsets", metavar="JSON", help='the new ones, {"topic":{"0":23}} or @FILE')
    parser.add_argument("--archive", metavar="DIR", help="the archive that was replayed")
    parser.add_argument(
        "--rename",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="topics and what they are called now (repeatable)",
    )
    parser.add_argument(
        "--old-servers",
        metavar="HOST:PORT",
        help="brokers that have the old topic and the syncs (default: those of -b)",
    )
    _add_abandon(parser)
    _add_changing(parser)
    _finish(parser, translate)


# -- show ------------------------------------------------------------------------------------------


@command
def show(arguments: argparse.Namespace) -> int:
    """Everything that the checkpoint says of topics."""
    from fencepost.views.checkpoints import CheckpointPartition

    with _told_plainly():
        view = _view(_open(arguments, whole=True), _sinks(arguments))
    if arguments.json:
        print_json(view)
        return 0
    print(*view.lines, sep="\n")
    if view.partitions:
        print_table_of(CheckpointPartition, view.partitions)
    return 0


def _view(opened: Opened, sinks: dict[str, str] | None) -> Any:
    from fencepost.spark.checkpoint_edit import backups_of
    from fencepost.views.checkpoints import CheckpointOperator, CheckpointSource, CheckpointView

    checkpoint = opened.checkpoint
    query = checkpoint.query_id
    return CheckpointView(
        query,
        checkpoint.state,
        checkpoint.planned_batch,
        checkpoint.committed_batch,
        len(opened.files),
        opened.newest.watermark_ms if opened.newest else None,
        [CheckpointSource(s.name, opened.connector(s.name)) for s in checkpoint.sources],
        [CheckpointOperator(one.number, one.name) for one in opened.operators],
        backups_of(opened.storage),
        None if sinks is None else [name for name, of in sinks.items() if of == query],
        [row for source in checkpoint.sources for row in _rows(source)],
    )


def _rows(source: Any) -> list[Any]:
    from fencepost.arrow.offsets import StreamOffset
    from fencepost.views.checkpoints import CheckpointPartition

    planned = source.planned or StreamOffset({})
    committed = source.committed or StreamOffset({})
    rows = []
    for where in sorted({*planned.positions, *committed.positions}):
        end, begin = planned.positions.get(where), committed.positions.get(where)
        newest = end or begin
        epoch = newest.leader_epoch if newest else -1
        rows.append(
            CheckpointPartition(
                source.name,
                where.topic,
                where.partition,
                begin.offset if begin else None,
                end.offset if end else None,
                planned.begins.get(where),
                epoch if epoch >= 0 else None,
                {**committed.topic_ids, **planned.topic_ids}.get(where.topic),
            )
        )
    return rows


def _sinks(arguments: argparse.Namespace) -> dict[str, str] | None:
    """Exactly-once sinks and the queries that decided last there; None without brokers to ask."""
    if arguments.bootstrap_server is None:  # most of what is done here needs no brokers
        return None
    from fencepost.cli.spark_sinks import with_pyspark

    with_pyspark()
    from fencepost.spark.sinks import known_sinks

    with open_cluster(arguments) as cluster:
        return {sink.name: sink.decision.query for sink in known_sinks(cluster) if sink.decision}


# -- move ------------------------------------------------------------------------------------------


@command
def move(arguments: argparse.Namespace) -> int:
    """Write the last committed batch's end again, elsewhere."""
    from fencepost.spark.checkpoint_edit import plan_offsets

    with _told_plainly():
        opened = _open(arguments)
        chosen = _chosen(opened, arguments)
        _require_named(chosen, arguments.topic)
        if arguments.offsets is not None and arguments.bootstrap_server is None:
            wanted = _by_json(chosen, arguments, {})
        else:
            with open_cluster(arguments) as cluster:
                wanted = _by_cluster(cluster, chosen, arguments)
        edit = plan_offsets(opened, wanted, abandon=arguments.abandon_batch)
        return _carry_out(arguments, opened, edit)


def _chosen(opened: Opened, arguments: argparse.Namespace) -> dict[str, StreamOffset]:
    """The committed offsets of the sources that are to be moved."""
    found = {
        source.name: source.committed
        for source in opened.checkpoint.sources
        if source.committed is not None and arguments.source in (None, source.name)
    }
    if not found:
        which = f"source {arguments.source!r}" if arguments.source else "source of topics"
        raise InputError(f"{opened.storage.uri}: has no {which} with committed offsets")
    return found


def _selected(offset: StreamOffset, words: list[str]) -> list[TopicPartition]:
    """The partitions that `--topic` words name; all without any. UsageError."""
    if not words:
        return sorted(offset.positions)
    return sorted({where for word in words for where in _named(offset, word)})


def _named(offset: StreamOffset, word: str) -> list[TopicPartition]:
    topic, numbers = _topic_word(word)
    return [
        where
        for where in offset.positions
        if where.topic == topic and (numbers is None or where.partition in numbers)
    ]


def _topic_word(word: str) -> tuple[str, set[int] | None]:
    """What a word of `--topic` names: a topic, and partitions of it or None for all."""
    topic, colon, text = word.partition(":")
    if colon and not all(one.isascii() and one.isdecimal() for one in text.split(",")):
        raise UsageError(f"{word!r}: must be TOPIC or TOPIC:0,1")
    return topic, {int(one) for one in text.split(",")} if colon else None


def _require_named(chosen: Mapping[str, StreamOffset], words: list[str]) -> None:
    """InputError where a word of `--topic` names what no source reads: a typing mistake would
    otherwise leave that partition where it was."""
    for word in words:
        topic, numbers = _topic_word(word)
        found = {one.partition for offset in chosen.values() for one in _named(offset, word)}
        if not found:
            raise InputError(f"--topic {word}: the checkpoint has no offset of it")
        if missing := sorted((numbers or set()) - found):
            raise InputError(
                f"--topic {word}: the checkpoint has no offset of {topic}-{missing[0]}"
            )


def _by_json(
    chosen: Mapping[str, StreamOffset], arguments: argparse.Namespace, ids: dict[str, str]
) -> dict[str, StreamOffset]:
    from fencepost.spark.checkpoint_edit import with_offsets

    given = _offsets(arguments.offsets)
    wanted = {}
    for name, offset in chosen.items():
        selected = set(_selected(offset, arguments.topic))
        new = {where: at for where, at in given.items() if where in selected}
        if new:
            wanted[name] = with_offsets(offset, new, ids)
    known = {where for offset in wanted.values() for where in offset.positions}
    if unknown := sorted(set(given) - known):
        raise InputError(f"--offsets: {unknown[0]} is not among the partitions to be moved")
    return wanted


def _by_cluster(
    cluster: Cluster, chosen: Mapping[str, StreamOffset], arguments: argparse.Namespace
) -> dict[str, StreamOffset]:
    """By what the logs have: offsets within them, with ids and epochs of now."""
    from fencepost.arrow.offsets import StreamOffset
    from fencepost.cli.groups_offsets import named_offsets
    from fencepost.spark.checkpoint_edit import with_offsets
    from fencepost.spark.offset_translation import identified, topics_there

    topics = {where.topic for offset in chosen.values() for where in offset.positions}
    there, ids = topics_there(cluster, topics)
    if arguments.offsets is not None:
        wanted = _by_json(chosen, arguments, ids)
        return {name: identified(cluster, offset) for name, offset in wanted.items()}
    wanted = {}
    for name, offset in chosen.items():
        selected = _selected(offset, arguments.topic)
        missing = [where for where in selected if where not in there]
        if missing and not arguments.forget_missing:
            raise InputError(
                f"{missing[0]} does not exist any more: --forget-missing leaves it out"
            )
        selected = [where for where in selected if where in there]
        kept = {one: at for one, at in offset.positions.items() if one not in missing}
        at = {one: kept[one].offset for one in selected}
        new = _shifted(cluster, at, arguments.shift_by) if arguments.to is None else at
        if arguments.to is not None and selected:
            new = named_offsets(cluster, selected, arguments.to, at)
        left = StreamOffset(kept, offset.topic_ids, offset.begins)
        if new or missing:
            wanted[name] = identified(cluster, with_offsets(left, new, ids))
    if not wanted:
        raise InputError("no partition of the query is named")
    return wanted


def _shifted(
    cluster: Cluster, at: dict[TopicPartition, int], step: int
) -> dict[TopicPartition, int]:
    from fencepost.cli.groups_offsets import within_logs

    check_number("--shift-by", step, -INT64_MAX, INT64_MAX)
    return within_logs(cluster, {where: offset + step for where, offset in at.items()})


# -- convert and translate -------------------------------------------------------------------------


@command
def convert(arguments: argparse.Namespace) -> int:
    """Offsets as the other connector spells them."""
    from fencepost.spark.checkpoint_edit import OURS, plan_conversion
    from fencepost.spark.offset_translation import identified

    with _told_plainly():
        opened = _open(arguments, whole=True)
        known = {}
        if arguments.to == OURS and arguments.bootstrap_server is not None:
            with open_cluster(arguments) as cluster:
                known = {
                    source.name: identified(cluster, source.planned)
                    for source in opened.checkpoint.sources
                    if source.planned is not None
                }
        return _carry_out(arguments, opened, plan_conversion(opened, arguments.to, known))


@command
def translate(arguments: argparse.Namespace) -> int:
    """Offsets in other topics, which have the same records."""
    from fencepost.spark.checkpoint_edit import plan_offsets
    from fencepost.spark.offset_translation import identified, translated

    names = dict(pair(text, "--rename") for text in arguments.rename)
    _check_translate(arguments, names)
    with _told_plainly(), contextlib.ExitStack() as clusters:
        opened = _open(arguments)
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
        return _carry_out(arguments, opened, edit)


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
        return ways.given_offsets(names, _offsets(arguments.offsets))
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
    try:
        table = read_offsets(layout, arguments.replay)
        return by_replay(table, last_topic_id(layout, arguments.replay))
    except ArchiveError as error:
        raise InputError(str(error)) from error


# -- what they share -------------------------------------------------------------------------------


def _open(arguments: argparse.Namespace, *, whole: bool = False) -> Opened:
    from fencepost.arrow.storage import storage_at
    from fencepost.spark.checkpoint_edit import open_checkpoint

    given = dict(pair(text, "--storage") for text in arguments.storage)
    return open_checkpoint(storage_at(arguments.checkpoint, given), whole=whole)


def _offsets(text: str) -> dict[TopicPartition, int]:
    """Offsets by partition, from JSON or a file of it. InputError."""
    from fencepost.arrow.offsets import StreamOffset

    if text.startswith("@"):
        path = Path(text[1:])
        if path.stat().st_size > JSON_BYTES_MAX:
            raise InputError(f"{path}: larger than {JSON_BYTES_MAX} bytes")
        text = path.read_text(encoding="utf-8")
    try:
        offset = StreamOffset.from_json(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise InputError(f'--offsets must be JSON like {{"topic":{{"0":23}}}}: {error}') from error
    if not offset.positions:
        raise InputError("--offsets names no partition")
    return {where: position.offset for where, position in offset.positions.items()}


def _carry_out(arguments: argparse.Namespace, opened: Opened, edit: Edit) -> int:
    """Make the changes if that is asked for, and say what they are."""
    from fencepost.spark.checkpoint_edit import require_quiet
    from fencepost.views.checkpoints import CheckpointChange, MovedOffset

    backup = ""
    if arguments.execute:
        if not arguments.force:
            require_quiet(opened.storage, int(time.time() * 1000))
        backup = edit.apply(opened.storage)
    view = CheckpointChange(
        bool(backup),
        [change.path for change in edit.changes],
        opened.storage.uri_of(backup) if backup else None,
        list(edit.warnings),
        [MovedOffset(*_fields(one)) for one in edit.moved],
    )
    if arguments.json:
        print_json(view)
    else:
        _print(view)
    return 0


def _fields(moved: Any) -> tuple[Any, ...]:
    return (moved.source, moved.topic, moved.partition, moved.before, moved.after)


def _print(view: CheckpointChange) -> None:
    from fencepost.views.checkpoints import MovedOffset

    if view.moved:
        print_table_of(MovedOffset, view.moved)
    for warning in view.warnings:
        print(f"note: {warning}")
    print(view.sentence)


@contextlib.contextmanager
def _told_plainly() -> Iterator[None]:
    """What goes wrong with a checkpoint or a store, as InputError."""
    from fencepost.arrow.checkpoint import CheckpointError
    from fencepost.spark.offset_translation import TranslationError

    try:
        yield
    except (CheckpointError, TranslationError, OSError) as error:
        raise InputError(str(error)) from error
