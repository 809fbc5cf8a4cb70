"""`fencepost spark sinks` and `finish`: exactly-once sinks of Spark, and what died drivers left."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from fencepost.cli.cluster_options import command, finish_cluster_command, open_cluster
from fencepost.cli.failures import InputError, UsageError, as_input_errors
from fencepost.cli.output import print_result, print_views
from fencepost.cli.times import now_ms
from fencepost.client.errors import BrokerError
from fencepost.client.open_transactions import Outcome
from fencepost.wire.errors import ErrorCode

if TYPE_CHECKING:
    from fencepost.client.cluster import Cluster
    from fencepost.spark.sinks import Sink
    from fencepost.views.queries import SinkView

FINISHING = """\
A driver that dies after it has decided a batch and before it has committed all of its transactions
leaves a part of the batch visible. The next write of the same transactionalIdPrefix commits the
rest, and so does this, without disturbing a driver that runs. It must be done before the
transactions time out (transaction.timeout.ms).
"""


SINK: Final = "its name as `sinks` lists it: the transactionalIdPrefix, where the query has one"
_UNKNOWN: Final = "no exactly-once sink {} is known: it has decided nothing"
KEEPING = """\
Brokers forget what a sink has decided when it has decided nothing for offsets.retention.minutes (7
days), and a write with a txnAppId that is repeated then is written again. This commits the last
decision of each resting sink that remembers keys again; run it more often than that, by a
scheduler. A driver that begins at the same moment is fenced, and its write is to be started again.
"""
RESTED_DAYS: Final = 1.0
FORGETTING = """\
A sink whose memory is gone (DECISION_LOST), or whose last batch was committed in part and lost in
part (INCOMPLETE_BATCH), refuses to go on, because rows could be there twice. Look at what is in its
topics; then this fences its driver and lets the next one write. A sink that remembers too many
queries and txnAppIds (TOO_MANY_KEYS) forgets old ones with --keys-older-than: a write with one of
them is then written again.
"""


def register(actions: Any) -> None:
    """Add the parsers."""
    listing = actions.add_parser(
        "sinks", help="exactly-once sinks, and which have transactions that are still open"
    )
    listing.add_argument(
        "--unfinished", action="store_true", help="without those that have nothing open"
    )
    finish_cluster_command(listing, sinks)
    finishing = actions.add_parser(
        "finish", help="commit what is left of a sink's decided batch", description=FINISHING
    )
    finishing.add_argument("sink", metavar="SINK", help=SINK)
    finishing.add_argument(
        "--take-over",
        action="store_true",
        help="fence the sink's driver, and abort what was written and not decided",
    )
    finish_cluster_command(finishing, finish)
    keeping = actions.add_parser(
        "keep",
        help="have brokers remember what resting sinks have decided",
        description=KEEPING,
    )
    keeping.add_argument(
        "--rested-days",
        metavar="DAYS",
        type=float,
        default=RESTED_DAYS,
        help=f"only sinks that decided nothing for so long (default: {RESTED_DAYS:g})",
    )
    finish_cluster_command(keeping, keep)
    forgetting = actions.add_parser(
        "forget",
        help="let a sink begin again that refuses to, for what it lost or has too much of",
        description=FORGETTING,
    )
    forgetting.add_argument("sink", metavar="SINK", help=SINK)
    forgetting.add_argument(
        "--keys-older-than",
        metavar="DAYS",
        type=int,
        help="forget only queries and txnAppIds that were last decided longer ago",
    )
    finish_cluster_command(forgetting, forget)


@command
def sinks(arguments: argparse.Namespace) -> int:
    """A row for every sink."""
    with_pyspark()
    from fencepost.spark.sinks import known_sinks
    from fencepost.views.queries import SinkView

    with open_cluster(arguments) as cluster:
        found = known_sinks(cluster)
    if arguments.unfinished:
        found = [sink for sink in found if sink.condition != "finished"]
    print_views(arguments, SinkView, [_view(sink) for sink in found])
    return 0


@command
def finish(arguments: argparse.Namespace) -> int:
    """What became of it, in a line."""
    with_pyspark()
    from fencepost.spark.sink_errors import ExactlyOnceError

    with open_cluster(arguments) as cluster, as_input_errors(ExactlyOnceError):
        sink = (_take_over if arguments.take_over else _finish)(cluster, arguments.sink)
    print_result(arguments, _view(sink), _in_words(sink))
    return int(sink.condition not in ("finished", "undecided"))


@command
def keep(arguments: argparse.Namespace) -> int:
    """A row for every sink that rests; 1 where one could not be kept."""
    with_pyspark()
    from fencepost.spark.keeping import keep_sinks
    from fencepost.spark.memory import DAY_MS
    from fencepost.views.queries import KeptSink

    days = arguments.rested_days
    if not 0 <= days < float("inf"):
        raise UsageError(f"--rested-days {days:g}: must not be negative")
    with open_cluster(arguments) as cluster:
        found = keep_sinks(cluster, int(days * DAY_MS), now_ms())
    rows = [KeptSink(one.name, one.keys, not one.problem, one.problem or None) for one in found]
    print_views(arguments, KeptSink, rows)
    return int(not all(one.is_kept for one in rows))


@command
def forget(arguments: argparse.Namespace) -> int:
    """What was forgotten, in a line."""
    with_pyspark()
    from fencepost.spark.forgetting import forget_batch, forget_keys
    from fencepost.spark.memory import DAY_MS
    from fencepost.spark.sink_errors import ExactlyOnceError

    days = arguments.keys_older_than
    if days is not None and days < 0:
        raise UsageError(f"--keys-older-than {days}: must not be negative")
    with open_cluster(arguments) as cluster:
        try:
            if days is None:
                forget_batch(cluster, arguments.sink)
                sentence = f"{arguments.sink} has forgotten what it decided last"
            else:
                today = now_ms() // DAY_MS
                count = forget_keys(cluster, arguments.sink, today - days)
                sentence = f"{arguments.sink} has forgotten {count} keys"
        except ExactlyOnceError as error:
            raise InputError(str(error)) from error
        except BrokerError as error:
            if error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            raise InputError(_UNKNOWN.format(arguments.sink)) from error
        view = _view(_known(cluster, arguments.sink))
    print_result(arguments, view, sentence)
    return 0


def _known(cluster: Cluster, name: str) -> Sink:
    from fencepost.spark.sinks import Sink, find_sink

    return find_sink(cluster, name) or Sink(name, None, {}, ())


def _finish(cluster: Cluster, name: str) -> Sink:
    from fencepost.spark import sinks

    sink = _existing(cluster, name)
    if sink.decision is not None:
        sinks.finish(cluster, name, sink.decision)
    return _existing(cluster, name)


def _take_over(cluster: Cluster, name: str) -> Sink:
    from fencepost.spark.exactly_once import SinkDriver

    _existing(cluster, name)
    SinkDriver(cluster, name).open()
    return _known(cluster, name)


def _existing(cluster: Cluster, name: str) -> Sink:
    from fencepost.spark.sinks import find_sink

    sink = find_sink(cluster, name)
    if sink is None:
        raise InputError(_UNKNOWN.format(name))
    return sink


def with_pyspark() -> None:
    """InputError where there is none: the sink's errors are PySpark's."""
    try:
        import pyspark  # noqa: F401
    except ModuleNotFoundError as error:
        raise InputError("needs PySpark: pip install 'fencepost[spark]'") from error


def _in_words(sink: Sink) -> str:
    decision = sink.decision
    if decision is None:
        text = f"{sink.name} has decided nothing"
    else:
        text = (
            f"decision {decision.number} of {sink.name}: {sink.condition}, "
            f"{sink.count(Outcome.COMMITTED)} of {len(sink.found)} transactions committed"
        )
    if sink.undecided:
        text += (
            f"; {len(sink.undecided)} undecided transactions are open: their driver decides, or "
            "--take-over aborts them"
        )
    return text


def _view(sink: Sink) -> SinkView:
    from fencepost.views.queries import SinkView

    decision, number_of = sink.decision, sink.count
    return SinkView(
        sink.name,
        decision.label.application or None if decision else None,
        decision.label.query or None if decision else None,
        list(decision.topics) if decision else [],
        decision.query or None if decision else None,
        decision.batch if decision and decision.query else None,
        decision.number if decision else None,
        len(sink.found),
        number_of(Outcome.COMMITTED) + number_of(Outcome.FORGOTTEN),
        number_of(Outcome.OPEN),
        number_of(Outcome.ABORTED),
        len(sink.undecided),
        sink.condition,
        len(decision.known().entries) if decision else 0,
        decision.time_ms or None if decision else None,
    )
