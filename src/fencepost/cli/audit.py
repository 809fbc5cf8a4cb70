"""`fencepost audit`: the log directories of all replicas, read by Spark's executors."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fencepost.cli.commands import add_repeatable
from fencepost.cli.epochs import write_svg
from fencepost.cli.failures import InputError, UsageError, as_input_errors
from fencepost.cli.key_values import pair
from fencepost.cli.output import add_json_option, print_json
from fencepost.cli.spark_session import add_spark_options, open_session, runs_here
from fencepost.cli.stores import add_storage_option, storage_settings
from fencepost.views.tables import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fencepost.arrow.storage import Storage
    from fencepost.spark.audit import AuditResult, Outcome, Progress
    from fencepost.views.audit import AuditView

COULD_NOT: Final = 2
NUMBER_MAX: Final = (1 << 31) - 1
_EVERY_S: Final = 10.0

EPILOG = """\
DIR is a log directory, ours or Apache Kafka's, whose meta.properties says of which broker it is; or
the directory of a `fencepost cluster`. --replica says it where no file does. All executors must see
the directories under these paths. Nothing is changed or locked, and brokers may be at work.

Checked are CRCs, gaps, leader epochs (never falling, and as leader-epoch-checkpoint has them),
indexes, producer snapshots, and that replicas are equal below the high watermark. The exit code is
0 if there are but notes, 1 with warnings or errors, 2 if the audit could not be done.

examples:
  fencepost audit fencepost-cluster
  fencepost audit --replica 1=/mnt/a --replica 2=/mnt/b --topic 'orders-.*'
  fencepost audit /mnt/kafka-1 /mnt/kafka-2 --master spark://head:7077 --output /mnt/audit
  fencepost audit /mnt/kafka-1 --output s3a://audits/monday --storage region=eu-west-1
  fencepost audit fencepost-cluster --svg audit.svg
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost audit`."""
    parser = subparsers.add_parser(
        "audit",
        description="Check all replicas' log directories, and that they agree, with Spark.",
        epilog=EPILOG,
    )
    parser.add_argument("directories", nargs="*", metavar="DIR", help="what to audit")
    add_repeatable(parser, "--replica", metavar="ID=DIR", help="a log directory of broker ID")
    add_repeatable(
        parser, "--topic", metavar="REGEX", help="only topics whose whole name matches (repeatable)"
    )
    parser.add_argument("--deep", action="store_true", help="decompress and parse all records, too")
    parser.add_argument(
        "--output",
        metavar="PATH",
        help="write findings and compared ranges there: a path, s3a://, gs://, ...",
    )
    add_storage_option(parser, "--output")
    parser.add_argument("--format", choices=("parquet", "json"), default="parquet")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write a picture")
    parser.add_argument("--quiet", action="store_true", help="leave out notes and progress")
    add_json_option(parser)
    add_spark_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Audit, print what was found, write what was asked for."""
    try:
        return _run(arguments)
    except (UsageError, InputError) as error:
        sys.stdout.flush()
        print(f"fencepost audit: {escaped(' '.join(str(error).split()))}", file=sys.stderr)
        return COULD_NOT


def _run(arguments: argparse.Namespace) -> int:
    replicas = _replicas(arguments.replica)
    if not arguments.directories and not replicas:
        raise UsageError("name a directory to audit")
    for pattern in arguments.topic:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"--topic {pattern!r}: {error}") from None
    if runs_here(arguments):  # else only executors can tell
        for path in (*arguments.directories, *(one for ones in replicas.values() for one in ones)):
            if not os.path.isdir(path):
                raise InputError(f"{path} is no directory, or is not there")
    output = None if arguments.output is None else _output(arguments)
    with open_session(arguments, "fencepost audit") as spark:
        result = _audit(spark, arguments, replicas)
    if output is not None:
        try:
            result.write(output, arguments.format)
        except OSError as error:
            raise InputError(f"--output {arguments.output}: {error}") from error
    if arguments.svg is not None:
        from fencepost.cli.audit_drawing import pictures

        write_svg(arguments.svg, pictures(result.outcome))
    _print(result.outcome, arguments)
    return 0 if result.is_clean else 1


def _audit(
    spark: Any, arguments: argparse.Namespace, replicas: dict[int, list[str]]
) -> AuditResult:
    from fencepost.spark.audit import AuditError, audit

    progress = None if arguments.quiet else _ProgressLine()
    try:
        with as_input_errors(AuditError):
            return audit(
                spark,
                [os.path.abspath(one) for one in arguments.directories],
                replicas=replicas,
                topics=arguments.topic,
                is_deep=arguments.deep,
                progress=progress,
            )
    finally:
        if progress is not None:
            progress.close()


def _output(arguments: argparse.Namespace) -> Storage:
    """Where results go; asked for something now, since an audit takes long. InputError."""
    from fencepost.arrow.storage import storage_at

    try:
        storage = storage_at(arguments.output, storage_settings(arguments))
        storage.names()
    except OSError as error:
        raise InputError(f"--output {arguments.output}: {error}") from error
    return storage


def _replicas(words: Sequence[str]) -> dict[int, list[str]]:
    """ "1=/mnt/a" and so on, by number. UsageError."""
    found: dict[int, list[str]] = {}
    for word in words:
        number, path = pair(word, "--replica")
        if not number.isdecimal() or int(number) > NUMBER_MAX or not path:
            raise UsageError(f"--replica {word!r}: must be like 1=/mnt/kafka")
        found.setdefault(int(number), []).append(os.path.abspath(path))
    return found


class _ProgressLine:
    """How far it is, on stderr: over and over on a terminal, else now and then."""

    def __init__(self) -> None:
        self._is_screen = sys.stderr.isatty()
        self._width = 0
        self._next = time.monotonic() + _EVERY_S

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if not (self._is_screen or progress.is_over or now >= self._next):
            return
        self._next = now + _EVERY_S
        text = (
            f"{progress.title}: {progress.groups_done} of {progress.groups} tasks,"
            f" {progress.bytes_done / 1e6:,.0f} of {progress.bytes_total / 1e6:,.0f} MB,"
            f" {progress.seconds:.0f} s"
        )
        if self._is_screen:
            print(f"\r{text.ljust(self._width)}", end="", file=sys.stderr, flush=True)
            self._width = len(text)
        else:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the line clean."""
        if self._width:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr)


# -- what was found


def _print(outcome: Outcome, arguments: argparse.Namespace) -> None:
    view = _view(outcome, is_quiet=arguments.quiet)
    if arguments.json:
        print_json(view)
        return
    for finding in view.findings:
        print(escaped(finding.sentence))
    print(view.summary.sentence)


def _view(outcome: Outcome, *, is_quiet: bool) -> AuditView:
    from fencepost.views.audit import AuditSummary, AuditView, FindingView

    totals, findings = outcome.totals, outcome.findings
    errors, warnings, notes = (
        sum(one.severity == severity for one in findings)
        for severity in ("error", "warning", "note")
    )
    return AuditView(
        [FindingView(*one) for one in findings if one.is_problem or not is_quiet],
        AuditSummary(
            totals.replicas,
            totals.metadata_only,
            totals.partitions,
            totals.segments,
            totals.batches,
            totals.size_bytes,
            totals.ranges,
            totals.differing_ranges,
            errors,
            warnings,
            notes,
            round(totals.seconds, 3),
        ),
    )
