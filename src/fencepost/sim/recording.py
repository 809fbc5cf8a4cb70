"""Recordings of runs that fail: files that carry all that makes the run.

A recording is a JSON object: the seed, the options of the world with the faults that are on, the
ablation if the run had one, the tape, and the violation that came out. A seed means something only
together with the commit it was run at, because the world may ask it other questions tomorrow; a
recording holds the answers.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from fencepost.sim.ablations import ablation_names, load_ablation
from fencepost.sim.faults import fault_classes
from fencepost.sim.naming import unknown
from fencepost.sim.options import MOST_NODES, Options
from fencepost.sim.rules import Rules
from fencepost.sim.run import Outcome, Plan, replay

MOST = (1 << 31) - 1
"""The largest size in bytes."""
MOST_MS = 3_600_000
MAY_BE_ZERO = (
    "observers",
    "write_every_ms",
    "snapshot_interval_ms",
    "retention_bytes",
    "brokers",
    "producers",
    "consumers",
    "committers",
    "members",
    "epoch_members",
    "mixed_members",
    "share_consumers",
    "streams_members",
    "deleters",
    "guests",
    "transactors",
    "transaction_version",
    "topics",
    "metadata_version",
    "max_idle_ms",
)
CLIENTS = (
    "producers",
    "consumers",
    "committers",
    "members",
    "epoch_members",
    "mixed_members",
    "share_consumers",
    "streams_members",
    "deleters",
    "guests",
    "transactors",
    "topics",
)
NODES = ("voters", "observers", "brokers", "replicas", "min_isr", *CLIENTS)
"""Options that count nodes, or what is at most as many."""


class RecordingError(ValueError):
    """A file is no recording, or speaks of what this version does not have; the text says what."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A run that failed, with a violation of `kind`. `tape` is by lane what was drawn."""

    seed: int
    kind: str
    text: str
    options: Options
    tape: dict[str, list[int]]
    ablation: str | None = None

    @property
    def plan(self) -> Plan:
        """How it was run."""
        rules = load_ablation(self.ablation).rules if self.ablation else Rules()
        return Plan(self.options, rules, draws_options=False, ablation=self.ablation)

    def is_outcome(self, outcome: Outcome) -> bool:
        """Whether the recorded violation came out again."""
        return outcome.violation is not None and outcome.violation.kind == self.kind

    def as_json(self) -> dict[str, Any]:
        """What `read_recording` reads."""
        return {
            "seed": self.seed,
            "ablation": self.ablation,
            "violation": self.kind,
            "text": self.text,
            "options": asdict(self.options),
            "tape": self.tape,
        }


def read_recording(text: str) -> Recording:
    """The recording that `as_json` gave. RecordingError.

    A file of an older version may lack options, which then are as they are by default, and the
    ablation, which it then had not.
    """
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"not a recording of the simulator: no JSON: {error}") from None
    read = _typed(read, dict, "the file")
    for name in ("seed", "violation", "options", "tape"):
        if name not in read:
            raise RecordingError(f"not a recording of the simulator: it has no {name!r}")
    ablation = read.get("ablation")
    if ablation is not None and _typed(ablation, str, "ablation") not in ablation_names():
        raise RecordingError(unknown("ablation", ablation, ablation_names()))
    return Recording(
        _number(read["seed"], "seed", 0, 1 << 64),
        _typed(read["violation"], str, "violation"),
        _typed(read.get("text", ""), str, "text"),
        _options(_typed(read["options"], dict, "options")),
        {lane: _lane(lane, values) for lane, values in _typed(read["tape"], dict, "tape").items()},
        ablation,
    )


def replay_recording(recording: Recording, plan: Plan | None = None, tell: Any = None) -> Outcome:
    """Run it again, as it was run, or by another plan. RecordingError for sizes that no log has."""
    try:
        return replay(recording.seed, recording.tape, plan or recording.plan, tell)
    except ValueError as error:
        raise RecordingError(f"options: {error}") from error


def _options(read: dict[str, Any]) -> Options:
    defaults = {field.name: field.default for field in fields(Options)}
    given: dict[str, Any] = {}
    for name, value in read.items():
        where = f"options.{name}"
        if name not in defaults:
            raise RecordingError(f"{where}: this version has no such option")
        if name in ("faults", "faults_off"):
            given[name] = None if value is None and name == "faults" else _faults(value, where)
        elif isinstance(defaults[name], bool):
            given[name] = _typed(value, bool, where)
        else:
            given[name] = _number(value, where, int(name not in MAY_BE_ZERO), _most(name))
    if given.get("faults") is None:
        raise RecordingError("options.faults: a recording names the faults that are on")
    if given.get("by_hand"):
        raise RecordingError("options.by_hand: that is for scenarios")
    return Options(**given)


def _most(option: str) -> int:
    if option in NODES:
        return MOST_NODES
    return MOST_MS if option.endswith("_ms") else MOST


def _faults(value: Any, where: str) -> tuple[str, ...]:
    names = _typed(value, list, where)
    for name in names:
        if _typed(name, str, where) not in fault_classes():
            raise RecordingError(f"{where}: {unknown('fault', name, fault_classes())}")
    return tuple(names)


def _lane(name: str, values: Any) -> list[int]:
    return [
        _number(value, f"tape.{name[:60]}", 0, 1 << 64) for value in _typed(values, list, "a lane")
    ]


def _number(value: Any, where: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise RecordingError(f"{where}: {str(value)[:40]} is no number from {least} to {most}")
    return value


def _typed(value: Any, kind: type, where: str) -> Any:
    if not isinstance(value, kind):
        wanted = {dict: "object", list: "array", str: "string", bool: "boolean"}[kind]
        raise RecordingError(f"not a recording of the simulator: {where} is no JSON {wanted}")
    return value
