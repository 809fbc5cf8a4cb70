"""`fencepost sim explore`: all histories of a small quorum, within bounds.

Exit codes: 0 the space was covered and everything held (with --ablation: the bug was found);
1 something did not hold (or the bug was not found); 2 the command line is wrong; 3 the budget of
time or states ended first, and what was seen held.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any

from fencepost.cli.output import add_json_option, print_result
from fencepost.cli.sim_options import check_numbers, rules_of, wrong

NUMBERS = {
    "voters": "voters that found the quorum",
    "others": "further controllers, which fetch and may be added",
    "epochs": "the highest epoch",
    "timeouts": "timers that fire, 0 for any number",
    "crashes": "power cuts",
    "reconfigurations": "voters that are removed or added",
    "appends": "records that clients append",
    "losses": "requests or answers that are lost, and their sender told",
    "late": "messages that arrive after their sender has given up on them",
    "refusals": "requests whose connection is refused",
    "first": "the node whose timer is the first to fire, 0 for any",
}


def add_explore(actions: Any) -> None:
    """Add the action to `fencepost sim`."""
    from fencepost.sim.explore.quorum.bounds import Bounds

    explore = actions.add_parser(
        "explore", help="all orders of events within bounds, on the real machine"
    )
    add_numbers(explore, Bounds, NUMBERS)
    explore.add_argument("--one-batch", action="store_true", help="a fetch returns one batch")
    explore.add_argument("--reminds", action="store_true", help="leaders repeat BeginQuorumEpoch")
    explore.add_argument(
        "--stays-down", action="store_true", help="who lost power refuses connections for a while"
    )
    explore.add_argument(
        "--logs",
        default="",
        metavar="LOGS",
        help="epochs of the batches that disks hold at first: '1/2/' for three voters",
    )
    add_search_options(explore)
    explore.set_defaults(run=_run)


def add_numbers(explore: Any, bounds: Any, numbers: Mapping[str, str]) -> None:
    """An option for each of these numbers of `bounds`, with its default."""
    defaults = {each.name: each.default for each in fields(bounds)}
    for name, says in numbers.items():
        field = field_of(name)
        default = defaults[field]
        explore.add_argument(
            f"--{name}",
            dest=field,
            type=int,
            default=default,
            metavar="N",
            help=f"{says} ({default})",
        )


def field_of(name: str) -> str:
    """The field of bounds that an option is about."""
    return "changes" if name == "reconfigurations" else name.replace("-", "_")


def _logs(text: str) -> tuple[tuple[int, ...], ...]:
    """The logs of '1,3/2/': (1, 3), (2,) and an empty one. ValueError for what is no number."""
    if not text:
        return ()
    try:
        return tuple(tuple(int(one) for one in log.split(",") if one) for log in text.split("/"))
    except ValueError:
        raise ValueError(f"--logs {text!r}: must be epochs like 1,3/2/") from None


def _run(arguments: argparse.Namespace) -> int:
    from fencepost.sim.explore.quorum import Bounds, Space, tell

    switches = ("one_batch", "reminds", "stays_down")
    return search_and_tell(
        arguments,
        lambda: Bounds(
            **{name: getattr(arguments, name) for name in (*map(field_of, NUMBERS), *switches)},
            logs=_logs(arguments.logs),
        ),
        lambda bounds, rules: Space(bounds, rules.make_machine, doubts=arguments.doubts),
        tell,
    )


def search_and_tell(
    arguments: argparse.Namespace,
    make_bounds: Callable[[], Any],
    make_space: Callable[[Any, Any], Any],
    tell: Any,
) -> int:
    """Search the space of these bounds and the rules that the arguments name, and print what has
    come of it; the exit code, 2 where `make_bounds` raises ValueError."""
    from fencepost.sim.explore import Search

    try:
        check_numbers(arguments, "minutes", "states", "doubts")
        bounds, rules = make_bounds(), rules_of(arguments)
    except ValueError as error:
        return wrong(error)
    space = make_space(bounds, rules)
    seconds = arguments.minutes * 60 if arguments.minutes else None
    with rules.in_force():
        report = Search(space).run(arguments.states, seconds, _progress)
        story = list(tell(space, report)) if report.violation else []
    view = report.view(asdict(bounds), story)
    print_result(arguments, view, "\n".join(view.lines))
    if report.violation or arguments.ablation:
        return int(bool(report.violation) != bool(arguments.ablation))
    return 0 if report.covered else 3


def add_search_options(explore: Any) -> None:
    """The options of every search: how long, and with which bug."""
    explore.add_argument(
        "--minutes", type=float, default=10, metavar="M", help="stop after this long (10); 0: never"
    )
    explore.add_argument("--states", type=int, metavar="N", help="stop after so many states")
    explore.add_argument(
        "--doubts", type=int, default=0, metavar="N", help="work out every Nth outcome again"
    )
    explore.add_argument("--ablation", metavar="NAME", help="with this old bug put back")
    add_json_option(explore)


def _progress(report: Any) -> None:
    print(f"... {report.view({}, []).progress}", file=sys.stderr, flush=True)
