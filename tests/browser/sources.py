"""What the console under the browser's tests is given beside its cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from fencepost.cli.main import main
from fencepost.views.audit import AuditSummary, AuditView, FindingView
from tests.browser.data import MARKUP
from tests.spark.checkpoints import write_checkpoint

REFUSED = 3
"""Events of the audit log that say so."""


def write_sources(directory: Path) -> list[str]:
    """Files of each kind in a directory, and the console's options that name them."""
    log, audit, recording = (directory / name for name in ("audit.log", "monday.json", "run.json"))
    append_events(log, [event(number, number >= REFUSED) for number in range(30)])
    audit.write_bytes(msgspec.json.encode(_audit()))
    shrink = ["sim", "shrink", "1", "--ablation", "commits-without-disk", "--replays", "5"]
    assert main([*shrink, "--out", str(recording)]) == 0
    checkpoint = write_checkpoint(directory / "query", [{"orders": {"0": 2}}], committed=0)
    options = {
        "--audit-log": log,
        "--audits": audit,
        "--recordings": recording,
        "--checkpoint": checkpoint,
    }
    return [word for option, path in options.items() for word in (option, str(path))]


def event(second: int, allowed: bool, principal: str = "User:bob") -> dict[str, Any]:
    """An event as a broker writes it."""
    return {
        "time": f"2026-11-29T12:00:{second:02}.000Z",
        "event": "authorization",
        "principal": principal,
        "host": "10.0.0.7",
        "listener": "CLIENTS",
        "api": "Produce",
        "operation": "WRITE",
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "allowed": allowed,
        "rule": MARKUP,
    }


def append_events(path: Path, events: list[dict[str, Any]]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(one) + "\n" for one in events)


def _audit() -> AuditView:
    def finding(partition: int, replica: int, severity: str, check: str) -> FindingView:
        where = ("orders", partition, replica, severity, check, 10, 20, None, None, None)
        return FindingView(*where, "/data/orders/0.log", 77, f"CRC does not hold {MARKUP}")

    findings = [finding(0, 1, "error", "crc"), finding(1, 2, "warning", "tail")]
    findings.append(finding(1, 3, "note", "offsets"))
    return AuditView(findings, AuditSummary(3, 0, 2, 5, 100, 4_096, 10, 1, 1, 1, 1, 0.5))
