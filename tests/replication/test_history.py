"""The checker of histories finds each anomaly that is planted, and nothing else."""

from __future__ import annotations

from .history import Place, Record, anomalies, differences

A0, A1, B0 = Record("a", 0), Record("a", 1), Record("b", 0)
SENT = [A0, A1, B0]
ACKNOWLEDGED = {A0: Place(0, 0), A1: Place(0, 2), B0: Place(0, 1)}
LOGS = {0: [(0, A0), (1, B0), (2, A1)]}
SEEN = [(Place(0, 0), A0), (Place(0, 1), B0)]


def kinds(acknowledged=ACKNOWLEDGED, sent=SENT, seen=SEEN, logs=LOGS):
    return sorted({one.split(":")[0] for one in anomalies(acknowledged, sent, seen, logs)})


def test_a_good_history_is_silent():
    assert kinds() == []
    assert kinds(acknowledged={}, seen=[]) == [], "what was not acknowledged may be there"
    assert kinds(acknowledged={}, seen=[], logs={0: []}) == [], "or not"


def test_an_acknowledged_record_is_lost():
    assert kinds(logs={0: [(0, A0), (1, B0)]}) == ["lost"]


def test_an_acknowledged_record_is_elsewhere():
    assert kinds(logs={0: [(0, A0), (1, B0), (3, A1)]}) == ["moved"]


def test_a_record_is_there_twice():
    assert kinds(logs={0: [*LOGS[0], (3, A1)]}) == ["repeated"]
    assert kinds(logs={**LOGS, 1: [(0, B0)]}) == ["repeated"]


def test_records_of_one_writer_change_places():
    logs = {0: [(0, A1), (1, B0), (2, A0)]}
    assert kinds(acknowledged={}, seen=[], logs=logs) == ["reordered"]


def test_a_record_comes_from_nowhere():
    assert kinds(logs={0: [*LOGS[0], (3, Record("c", 7))]}) == ["invented"]


def test_what_was_read_is_taken_back():
    assert kinds(acknowledged={}, logs={0: [(0, A0)]}) == ["taken back"]
    assert kinds(acknowledged={}, logs={0: [(0, A0), (1, A1)]}) == ["taken back"]


def test_replicas_differ():
    assert differences({}) == differences({1: LOGS[0], 2: LOGS[0], 3: list(LOGS[0])}) == []
    assert len(differences({1: LOGS[0], 2: LOGS[0][:2]})) == 1
    assert len(differences({1: LOGS[0], 2: [*LOGS[0][:2], (2, B0)], 3: LOGS[0]})) == 1


def test_a_record_is_what_its_value_says():
    assert Record.parse(Record("a writer", 12).value) == Record("a writer", 12)
