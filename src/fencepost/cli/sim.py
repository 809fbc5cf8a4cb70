"""`fencepost sim`: run seeds of the simulator, replay one, shrink one, see what there is.

Exit codes: 0 everything held (with --ablation: the bug was found); 1 something did not hold (or the
bug was not found, or a recorded violation did not come out, or a process died); 2 the command line
or a file is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.cli.commands import add_actions
from fencepost.cli.output import add_json_option, print_json, print_result
from fencepost.cli.sim_explore import add_explore
from fencepost.cli.sim_explore_partition import add_explore_partition
from fencepost.cli.sim_options import (
    ablation_of,
    check_numbers,
    check_output,
    read_file,
    read_ledger,
    rules_of,
    wrong,
)
from fencepost.views.json_documents import json_text

if TYPE_CHECKING:
    from fencepost.views.simulation import SearchedAblation

EPILOG = """\
examples:
  fencepost sim run --seeds 1000 --jobs 2
  fencepost sim run --seeds 100 --faults power-loss,partition
  fencepost sim run --seeds 500 --ablation grants-two-votes
  fencepost sim ablations --seeds 300
  fencepost sim replay 4711 --words | less
  fencepost sim shrink 4711 --out found.json && fencepost sim replay found.json --words
  fencepost sim explore --epochs 2 --timeouts 2 --crashes 1 --reconfigurations 1 --first 1
  fencepost sim explore-partition --epochs 2 --crashes 1 --changes 1 --appends 1
  fencepost sim play tests/transcripts/quorum/s36_leader_restarts.txt
"""


def register(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "sim",
        description="Run the product's own controllers, brokers and logs under simulated faults.",
        epilog=EPILOG,
    )
    actions = add_actions(parser)
    _add_run(actions)
    _add_replay(actions)
    _add_shrink(actions)
    add_explore(actions)
    add_explore_partition(actions)
    _add_ablations(actions)
    play = actions.add_parser("play", help="play scenarios and print what comes out")
    play.add_argument("files", nargs="+", metavar="FILE", help="scenarios; see docs/SIMULATOR.md")
    play.add_argument("--ablation", metavar="NAME", help="with this old bug put back")
    play.set_defaults(run=_play)
    listed = actions.add_parser("list", help="faults, checks, ablations and scenario commands")
    add_json_option(listed)
    listed.set_defaults(run=_list)


def _add_run(actions: Any) -> None:
    run = actions.add_parser("run", help="run seeds, stop at nothing, say what did not hold")
    run.add_argument("--seeds", type=int, default=100, metavar="N", help="how many (100)")
    run.add_argument("--from", type=int, default=1, dest="first", metavar="S", help="first seed")
    run.add_argument("--jobs", type=int, default=1, metavar="J", help="processes (1)")
    run.add_argument("--minutes", type=float, metavar="M", help="go on from --from for this long")
    run.add_argument("--stop", action="store_true", help="stop at the first violation")
    run.add_argument("--ledger", metavar="FILE", help="write what was covered as JSON")
    _add_world(run)
    add_json_option(run)
    run.set_defaults(run=_run)


def _add_replay(actions: Any) -> None:
    replay = actions.add_parser("replay", help="run one seed, or a shrunk recording, again")
    replay.add_argument("what", metavar="SEED|FILE", help="a seed, or what `shrink --out` wrote")
    replay.add_argument("--words", action="store_true", help="tell everything that happens")
    replay.add_argument(
        "--html",
        metavar="FILE",
        help="draw it in this file, a lane per node (needs the extra `console`)",
    )
    _add_world(replay)
    add_json_option(replay)
    replay.set_defaults(run=_replay)


def _add_shrink(actions: Any) -> None:
    shrink = actions.add_parser("shrink", help="reduce a failing seed to the few events it takes")
    shrink.add_argument("seed", type=int, help="a seed that fails")
    shrink.add_argument("--out", metavar="FILE", help="write the recording for `sim replay`")
    shrink.add_argument("--replays", type=int, default=2_000, metavar="N", help="at most (2000)")
    shrink.add_argument("--all-words", action="store_true", help="print more than what matters")
    _add_world(shrink)
    add_json_option(shrink)
    shrink.set_defaults(run=_shrink)


def _add_ablations(actions: Any) -> None:
    ablations = actions.add_parser(
        "ablations", help="put old bugs back, one after the other, and search for each"
    )
    ablations.add_argument("names", nargs="*", metavar="NAME", help="just these")
    ablations.add_argument("--seeds", type=int, default=200, metavar="N", help="at most (200)")
    ablations.add_argument("--jobs", type=int, default=1, metavar="J", help="processes (1)")
    ablations.add_argument("--ledger", metavar="FILE", help="add what was found to this ledger")
    add_json_option(ablations)
    ablations.set_defaults(run=_ablations)


def _add_world(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--faults", metavar="NAMES", help="just these, comma-separated; or none")
    parser.add_argument("--without", metavar="NAMES", help="these faults never")
    parser.add_argument("--ablation", metavar="NAME", help="with this old bug put back")
    parser.add_argument(
        "--brokers", type=int, metavar="N", help="so many simulated brokers in every world"
    )
    parser.add_argument(
        "--over-budget", action="store_true", help="damage more disks than a quorum can spare"
    )


def _plan(arguments: argparse.Namespace) -> Any:
    """The plan that the options ask for. ValueError for names that do not exist."""
    from fencepost.sim.faults import fault_classes
    from fencepost.sim.naming import unknown
    from fencepost.sim.options import Options, with_brokers
    from fencepost.sim.rules import Rules
    from fencepost.sim.run import Plan

    known = fault_classes()
    faults = _names(arguments.faults)
    without = _names(arguments.without) or ()
    for name in (*(faults or ()), *without):
        if name not in known:
            raise ValueError(unknown("fault", name, known))
    rules = Rules()
    if arguments.ablation:
        ablation = ablation_of(arguments.ablation)
        rules = ablation.rules
        faults = ablation.faults if faults is None else faults
    base = Options(faults=faults, faults_off=without, over_budget=arguments.over_budget)
    if arguments.brokers is not None:
        base = with_brokers(base, arguments.brokers)
    if arguments.ablation:
        base = ablation.base(base)
    return Plan(base=base, rules=rules, ablation=arguments.ablation)


def _names(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(name for name in text.split(",") if name and name != "none")


# -- run -------------------------------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> int:
    from fencepost.sim.ledger import Ledger
    from fencepost.sim.pool import WorkerDiedError, run_seeds

    try:
        plan = _plan(arguments)
        check_numbers(arguments, "seeds", "jobs", "first", "minutes")
        check_output(arguments.ledger)
    except (ValueError, OSError) as error:
        return wrong(error)
    ledger = Ledger(jobs=arguments.jobs)
    count = 1 << 40 if arguments.minutes else arguments.seeds
    seeds = iter(range(arguments.first, arguments.first + count))
    say = _Progress(ledger, arguments)
    wants_one = arguments.stop or bool(arguments.ablation)
    died: WorkerDiedError | None = None
    try:
        for outcome in run_seeds(seeds, plan, arguments.jobs):
            ledger.add(outcome)
            say.outcome(outcome)
            if (wants_one and ledger.violations) or (
                arguments.minutes and ledger.seconds > arguments.minutes * 60
            ):
                break
    except WorkerDiedError as error:
        died = error
        ledger.add_unfinished(error.seed, str(error))
    view = ledger.view(arguments.first, arguments.ablation)
    if arguments.ledger:
        Path(arguments.ledger).write_text(json_text(view) + "\n")
    verdict = [view.verdict] if arguments.ablation and died is None else []
    print_result(arguments, view, "\n".join((view.sentence, *verdict)))
    if died is not None:
        print(f"fencepost sim: {died}; the run ends with it", file=sys.stderr)
        return 1
    return int(bool(ledger.violations) != bool(arguments.ablation))


class _Progress:
    """A line on stderr now and then, and each violation as it is found."""

    def __init__(self, ledger: Any, arguments: argparse.Namespace) -> None:
        self._ledger = ledger
        self._json = arguments.json
        self._next_s = 5.0
        self._is_ablation = bool(arguments.ablation)

    def outcome(self, outcome: Any) -> None:
        if outcome.violation is not None and not self._json:
            print(f"seed {outcome.seed}: {outcome.violation}")
            if not self._is_ablation:
                print(f"  fencepost sim shrink {outcome.seed}")
        if self._ledger.seconds >= self._next_s:
            self._next_s = self._ledger.seconds + 5.0
            print(f"... {self._ledger.view().sentence}", file=sys.stderr, flush=True)


def _ablations(arguments: argparse.Namespace) -> int:
    from fencepost.sim.ablations import ablation_names, load_ablation
    from fencepost.sim.search import search

    try:
        named = list(map(ablation_of, arguments.names))
        check_numbers(arguments, "seeds", "jobs")
        ledger = read_ledger(arguments.ledger)
        check_output(arguments.ledger)
    except (ValueError, OSError) as error:
        return wrong(error)
    searched = named or [
        one for one in map(load_ablation, ablation_names()) if one.is_found_by_search
    ]
    found: dict[str, SearchedAblation] = {}
    for ablation in searched:
        found[ablation.name] = search(ablation, arguments.seeds, arguments.jobs)
        if not arguments.json:
            print(f"{ablation.name}: {found[ablation.name].says}", flush=True)
    if arguments.ledger:
        text = json_text({**ledger, "ablations": found})
        Path(arguments.ledger).write_text(text + "\n")
    if arguments.json:
        print_json(found)
    return int(any(one.seeds is None for one in found.values()))


# -- replay and shrink -----------------------------------------------------------------------------


def _replay(arguments: argparse.Namespace) -> int:
    from fencepost.sim.recording import replay_recording
    from fencepost.sim.run import run_seed

    lines: list[str] = []
    tell = print if arguments.words else lines.append if arguments.html else None
    missing = None
    try:
        if arguments.html:
            if arguments.words:
                raise ValueError("--words and --html: one of them")
            check_output(arguments.html)
        if arguments.what.isdecimal() and not os.path.exists(arguments.what):
            outcome = run_seed(int(arguments.what), _plan(arguments), tell)
        else:
            recording, plan = _recording(arguments)
            outcome = replay_recording(recording, plan, tell)
            if arguments.ablation is None and not recording.is_outcome(outcome):
                missing = recording.kind
    except (ValueError, OSError) as error:
        return wrong(error)
    view = outcome.view()
    if arguments.html:
        _draw(arguments, outcome.violation, lines)
    print_result(arguments, view, "\n".join(view.lines))
    if missing is not None:
        print(
            f"fencepost sim: the recorded violation {missing} did not come out: what it needs is"
            " fixed, or this version asks its tape other questions",
            file=sys.stderr,
        )
    return int(outcome.violation is not None or missing is not None)


def _draw(arguments: argparse.Namespace, violation: Any, lines: list[str]) -> None:
    """Write a page of the story, which needs no other file."""
    from fencepost.console.html import standalone
    from fencepost.console.pages.replays import told_of, whole_page
    from fencepost.console.web.application import STATIC

    page = whole_page(arguments.what, told_of(violation, lines))
    sheet = (STATIC / "console.css").read_text()
    Path(arguments.html).write_text(standalone(page, sheet))


def _recording(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """The recording, and how to run it: as it was, but for an ablation that is named."""
    from dataclasses import replace

    from fencepost.sim.recording import read_recording

    if arguments.faults is not None or arguments.without is not None:
        raise ValueError("a recording has faults of its own; --faults and --without are for seeds")
    try:
        recording = read_recording(read_file(arguments.what, errors="replace"))
    except ValueError as error:
        raise ValueError(f"{arguments.what}: {error}") from None
    if arguments.ablation is not None:
        named = None if arguments.ablation == "none" else ablation_of(arguments.ablation).name
        recording = replace(recording, ablation=named)
    return recording, recording.plan


def _shrink(arguments: argparse.Namespace) -> int:
    from fencepost.sim.recording import replay_recording
    from fencepost.sim.shrink import Shrinker

    def progress(line: str) -> None:
        print(f"... {line}", file=sys.stderr, flush=True)

    try:
        plan = _plan(arguments)
        check_numbers(arguments, "replays")
        check_output(arguments.out)
        shrinker = Shrinker(arguments.seed, plan, progress, arguments.replays)
    except (ValueError, OSError) as error:
        return wrong(error)
    shrunk = shrinker.shrink()
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(shrunk.recording.as_json()) + "\n")
    lines: list[str] = []
    replay_recording(shrunk.recording, tell=lines.append)
    view = shrunk.view(lines if arguments.all_words else _what_matters(lines))
    print_result(arguments, view, "\n".join((*view.story, view.sentence)))
    return 0


def _what_matters(lines: list[str]) -> list[str]:
    """The lines without a leader's and its followers' everyday fetches."""
    return [line for line in lines if not (" Fetch e" in line or " FetchAnswer hw" in line)]


# -- scenarios and lists ---------------------------------------------------------------------------


def _play(arguments: argparse.Namespace) -> int:
    from fencepost.sim.script import ScriptError, play, without_remarks

    broken = False
    try:
        rules = rules_of(arguments)
        for name in arguments.files:
            try:
                played = play(read_file(name), rules)
            except (ScriptError, UnicodeDecodeError) as error:
                raise ValueError(f"{name}: {error}") from None
            sys.stdout.write(played)
            broken |= "VIOLATION" in without_remarks(played)
    except (ValueError, OSError) as error:
        return wrong(error)
    return int(broken)


def _list(arguments: argparse.Namespace) -> int:
    from fencepost.sim.listing import everything

    found = everything()
    print_result(arguments, found, "\n".join(found.lines))
    return 0
