"""Pages of stored results of `fencepost audit`, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("htpy")
pytest.importorskip("pyarrow")

from fencepost.cli.main import main
from fencepost.spark.audit.auditing import Outcome
from fencepost.spark.audit.frames import AuditResult
from fencepost.spark.audit.model import ComparedRange, Finding
from fencepost.views.audit import AuditSummary, AuditView, FindingView

NOWHERE = "127.0.0.1:1"
MARKUP = "<script>alert(1)</script>"


def finding(partition: int, replica: int, severity: str, check: str = "crc") -> Finding:
    return Finding(
        *("orders", partition, replica, severity, check, 100 + partition, 120, None, None, None),
        *("/data/orders/0.log", 77, f"CRC does not hold {MARKUP}"),
    )


FOUND = Outcome(
    [
        finding(0, 1, "error"),
        finding(0, 2, "note", "offsets"),
        finding(1, 2, "warning", "tail"),
        Finding(
            *("", -1, 3, "error", "document", None, None, None, None, None),
            *("/data", None, "no meta.properties"),
        ),
    ],
    [
        ComparedRange("orders", 0, 0, 99, (1, 2), 9, True),
        ComparedRange("o", 1, 0, 9, (1,), 1, False),
    ],
)


@pytest.fixture(params=["parquet", "json"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    place = tmp_path / "monday"
    AuditResult(None, FOUND).write(place, request.param)
    return str(place)


def section(document: dict[str, Any], heading: str) -> dict[str, Any]:
    (found,) = (one for one in document["sections"] if one["heading"] == heading)
    return dict(found)


def test_an_audit_is_listed_and_shown(browse, stored: str):
    console = browse(NOWHERE, audits=(stored,))
    (row,) = console.get("/api/audits").json()["sections"][0]["document"]
    counts = (row["errors"], row["warnings"], row["notes"], row["differing"])
    assert (row["name"], counts, row["error"]) == ("monday", (2, 1, 1, 1), None)
    document = console.get("/api/audits/monday").json()
    told = [one["text"] for one in document["sections"][0]["sentences"]]
    assert told == [
        "2 errors, 1 warning, 1 note.",
        "1 of 2 compared ranges equal in all replicas.",
    ]
    matrix = section(document, "Replicas")["document"]["findings by partition and replica"]
    assert [(row["name"], [cell and cell["text"] for cell in row["cells"]]) for row in matrix] == [
        ("orders-0", ["E 1", "n 1"]),
        ("orders-1", [None, "W 1"]),
    ]
    assert [one["severity"] for one in section(document, "Findings")["document"]] == [
        *("error", "note", "warning", "error"),
    ]
    text = console.get("/audits/monday").text
    assert MARKUP not in text and "&lt;script&gt;" in text
    assert "/topics/orders/batches/0?offset=100" in text


def test_findings_are_chosen_and_shown_in_parts(browse, stored: str):
    console = browse(NOWHERE, audits=(stored,))

    def shown(**asked: object) -> list[tuple[int, str]]:
        document = console.get("/api/audits/monday", params=asked).json()
        return [(one["replica"], one["check"]) for one in section(document, "Findings")["document"]]

    assert shown(severity="error") == [(1, "crc"), (3, "document")]
    assert shown(check="tail") == [(2, "tail")]
    assert shown(check="no such") == []
    assert shown(filter="orders-0", severity="note") == [(2, "offsets")]
    to, found = "/audits/monday?rows=3", []
    while to is not None:
        document = console.get("/api" + to).json()
        found += section(document, "Findings")["document"]
        to = document["more"]
    assert len(found) == 4


def test_what_the_command_prints_as_json_is_shown(browse, tmp_path: Path):
    view = AuditView(
        [FindingView(*one) for one in FOUND.findings],
        AuditSummary(3, 0, 2, 5, 100, 4_096, 10, 1, 2, 1, 1, 0.5),
    )
    path = tmp_path / "audit.json"
    path.write_bytes(msgspec.json.encode(view))
    console = browse(NOWHERE, audits=(str(path),))
    document = console.get("/api/audits/audit.json").json()
    (sentence,) = document["sections"][0]["sentences"]
    assert sentence["text"].startswith("not sound: 2 errors, 1 warnings")
    assert sentence["level"] == "bad"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"topic": 1}', "\x00" * 50, "[" * 5_000, '{"severity": "dire"}'],
)
def test_what_is_no_result_says_so(browse, tmp_path: Path, text: str):
    """As a document, and as a file of findings in a directory."""
    printed, written = tmp_path / "bad.json", tmp_path / "bad"
    printed.write_text(text)
    for name in ("findings", "ranges"):
        (written / name).mkdir(parents=True)
        (written / name / "part-00000.json").write_text(text or "{")
    parquet = tmp_path / "parquet" / "findings"
    parquet.mkdir(parents=True)
    (parquet / "part-00000.parquet").write_text(text)
    places = [printed, written, parquet.parent, tmp_path / "absent"]
    console = browse(NOWHERE, audits=tuple(map(str, places)))
    for row in console.get("/api/audits").json()["sections"][0]["document"]:
        assert row["error"], row
        assert row["errors"] is None
        answer = console.get(f"/api/audits/{row['name']}")
        assert answer.status_code == 404
        assert answer.json()["error"] == row["error"]


def test_a_severity_that_there_is_not_is_refused(browse, tmp_path: Path):
    line = json.dumps(finding(0, 1, "dire")._asdict())
    for name, text in (("findings", line), ("ranges", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part-00000.json").write_text(text)
    console = browse(NOWHERE, audits=(str(tmp_path),))
    answer = console.get(f"/api/audits/{tmp_path.name}")
    assert (answer.status_code, "the severity 'dire'" in answer.text) == (404, True)


@pytest.mark.parametrize("name", ["absent", "..%2F..%2Fetc%2Fpasswd", "%00"])
def test_only_given_results_are_read(browse, stored: str, name: str):
    assert browse(NOWHERE, audits=(stored,)).get(f"/api/audits/{name}").status_code == 404


def test_parameters_that_make_no_sense_are_refused(browse, stored: str):
    console = browse(NOWHERE, audits=(stored,))
    for asked in ({"severity": "dire"}, {"rows": "0"}, {"first": "-1"}):
        assert console.get("/api/audits/monday", params=asked).status_code == 400
    assert "with --audits" in browse(NOWHERE).get("/audits").text


def test_what_is_not_there_is_refused_at_the_start(tmp_path: Path, capsys):
    command = ["console", "-b", NOWHERE, "--audits", str(tmp_path / "none"), "--once", "audits"]
    assert main(command) == 2
    assert "none: there is no such file or directory" in capsys.readouterr().err


def test_without_pyarrow_audits_are_refused_at_the_start(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setattr("fencepost.cli.console.find_spec", lambda name: None)
    assert main(["console", "-b", NOWHERE, "--audits", str(tmp_path), "--once", "audits"]) == 2
    assert "--audits needs the extra `arrow`" in capsys.readouterr().err
