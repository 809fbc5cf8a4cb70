"""`fencepost log verify`: whether directories of a broker are sound."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import suppress

from fencepost.cli.failures import UsageError, offline_command
from fencepost.cli.log.holder import holder_of
from fencepost.cli.progress import Progress
from fencepost.log.names import LOG_SUFFIX
from fencepost.log.verify.directory import NotALogDirectoryError, Verifier
from fencepost.log.verify.files import PlainFiles
from fencepost.log.verify.problems import Problem, Severity
from fencepost.views.log_checks import CheckSummary, ProblemView
from fencepost.views.rendering import document_of
from fencepost.views.view import View

EPILOG = """\
DIR is a log directory (with meta.properties) or the directory of one partition, of Fencepost or of
Apache Kafka. Checked are batches (CRC, order and density of offsets, epochs), indexes, producer
snapshots and leader epochs against the batches, checkpoints against the logs, and what should not
be there. A line says file, byte, how bad it is, and what it is:

  note     harmless: gaps that compaction left, files that wait to be deleted
  warning  the next start puts it right, or it is an index that cannot be used
  error    damage or loss

The exit code is 0 if there are but notes, else 1.
"""


def register_verify(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of `fencepost log verify`."""
    parser = actions.add_parser(
        "verify",
        help="check log directories for damage",
        description="Check log directories; nothing is changed or locked.",
        epilog=EPILOG,
    )
    parser.add_argument("directories", nargs="+", metavar="DIR", help="what to check")
    parser.add_argument("--deep", action="store_true", help="decompress and parse all records, too")
    parser.add_argument("--quiet", action="store_true", help="leave out notes")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.set_defaults(run=run_verify)


@offline_command
def run_verify(arguments: argparse.Namespace) -> int:
    """Print the problems and a summary."""
    directories = [path.rstrip("/") or "/" for path in arguments.directories]
    progress = Progress(sum(map(_segment_bytes, directories)))
    verifier = Verifier(
        PlainFiles(), is_live=_warn_if_live, is_deep=arguments.deep, progress=progress.show
    )
    found = dict.fromkeys(Severity, 0)
    try:
        for problem in verifier.run(directories):
            found[problem.severity] += 1
            if problem.is_problem or not arguments.quiet:
                progress.close()
                print(
                    _json_line(ProblemView.of(problem)) if arguments.json else _text_line(problem)
                )
    except NotALogDirectoryError as error:
        raise UsageError(str(error)) from None
    finally:
        progress.close()
    summary = CheckSummary.of(verifier.counts, found)
    print(_json_line(summary) if arguments.json else _text_of(summary))
    return 0 if summary.is_sound else 1


def _warn_if_live(directory: str) -> bool:
    pid = holder_of(directory)
    if pid is None:
        return False
    print(
        f"fencepost log verify: process {pid} is using {directory}; what it may yet be writing is"
        " not checked",
        file=sys.stderr,
    )
    return True


def _segment_bytes(directory: str) -> int:
    total = 0
    for place, _, names in os.walk(directory):
        for name in names:
            if name.endswith(LOG_SUFFIX):
                with suppress(OSError):  # which is for the check to report
                    total += os.path.getsize(os.path.join(place, name))
    return total


def _json_line(view: View) -> str:
    return json.dumps(document_of(view), separators=(",", ":"))


def _text_line(problem: Problem) -> str:
    where = problem.path if problem.position is None else f"{problem.path} at {problem.position}"
    return f"{problem.severity.name.lower()}: {where}: {problem.text} [{problem.check}]"


def _text_of(summary: CheckSummary) -> str:
    verdict = "sound" if summary.is_sound else "not sound"
    looked = (
        f"{summary.partitions} partitions, {summary.segments} segments,"
        f" {summary.batches} batches, {summary.size_bytes} bytes"
    )
    found = f"{summary.errors} errors, {summary.warnings} warnings, {summary.notes} notes"
    return f"{verdict}: {found} in {looked}"
