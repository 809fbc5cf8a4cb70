"""Positions of changes in the logs of databases, and which of two events is the later one."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.spark.tables.errors import UnorderedError
from fencepost.spark.tables.order import SOURCE, TIMESTAMP, TOPIC, Place, is_later, position_of

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
GROWING: dict[str, list[dict[str, Any]]] = {
    "postgresql": [
        {"lsn": 9},
        {"lsn": 10},
        {"sequence": '["24023119","24023128"]'},
        {"lsn": "24023129"},
        {"lsn": 2**63 + 1},
    ],
    "mysql file": [
        {"file": "mysql-bin.000009", "pos": 4, "row": 0},
        {"file": "mysql-bin.000009", "pos": 10, "row": 0},
        {"file": "mysql-bin.000009", "pos": 10, "row": 1},
        {"file": "mysql-bin.000010", "pos": 4, "row": 0},
        {"file": "mysql-bin.1000000", "pos": 4, "row": 0},
    ],
    "mysql gtid": [
        {"gtid": f"{UUID}:9", "file": "b.000002", "pos": 900, "row": 0},
        {"gtid": f"{UUID}:10", "file": "b.000001", "pos": 4, "row": 0},
        {"gtid": f"{UUID}:10", "file": "b.000001", "pos": 5, "row": 0},
        {"gtid": f"{UUID}:10", "file": "b.000001", "pos": 5, "row": 1},
    ],
    "mariadb": [
        {"gtid": "0-1-99", "file": "b.000001", "pos": 9, "row": 0},
        {"gtid": "0-2-100", "file": "b.000001", "pos": 4, "row": 0},
    ],
    "sqlserver": [
        {"commit_lsn": "00000027:00000ac0:0002", "change_lsn": None, "event_serial_no": None},
        {"commit_lsn": "00000027:00000AC0:0002", "change_lsn": "00000027:00000758:0003"},
        {
            "commit_lsn": "00000027:00000ac0:0002",
            "change_lsn": "00000027:00000758:0003",
            "event_serial_no": 2,
        },
        {"commit_lsn": "00000027:00000ac0:0002", "change_lsn": "00000027:00000758:0004"},
        {"commit_lsn": "00000028:00000000:0001", "change_lsn": "00000027:00000001:0001"},
    ],
    "oracle": [
        {"scn": "999", "rs_id": " 0x0001.0002.0003 ", "ssn": 0},
        {"scn": "1000", "rs_id": "0x0001.0002.0003", "ssn": 0},
        {"scn": "1000", "rs_id": "0x0001.0002.0003", "ssn": 1},
        {"scn": "1000", "rs_id": "0x0001.0002.0004", "ssn": 0},
    ],
    "mongodb": [{"ts_ms": 1000, "ord": 9}, {"ts_ms": 1000, "ord": 10}, {"ts_ms": 2000, "ord": 1}],
    "vitess": [{"ts_ms": 9}, {"ts_us": 9_500}, {"ts_ns": 10_000_000}, {"ts_ms": 11}],
}


@pytest.mark.parametrize("name", GROWING)
def test_positions_rise_with_the_databases_log(name: str):
    connector = name.split()[0]
    found = [
        position_of({"connector": connector, "name": "s", **source}) for source in GROWING[name]
    ]
    assert len({one and one[0] for one in found}) == 1, found
    places = [Place(0, 0, -at, 0, one) for at, one in enumerate(found)]
    for at, place in enumerate(places):
        assert [is_later(place, other, SOURCE) for other in places] == [
            (at > other) - (at < other) for other in range(len(places))
        ]


@pytest.mark.parametrize("connector", ["postgresql", "mysql", "sqlserver", "oracle"])
def test_flattened_events_need_not_name_the_connector(connector: str):
    source = GROWING[connector if connector != "mysql" else "mysql file"][-1]
    named = position_of({"connector": connector, "name": "", **source})
    assert position_of(source) == named


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"connector": "postgresql", "name": "a", "lsn": 1}, {"name": "b", "lsn": 1}),
        ({"file": "a.000001", "pos": 1}, {"file": "b.000001", "pos": 1}),
        (
            {"gtid": f"{UUID}:9", "file": "a.000001", "pos": 1},
            {"gtid": f"{UUID[::-1]}:9", "file": "a.000001", "pos": 1},
        ),
        (
            {"gtid": f"{UUID}:9", "file": "a.000001", "pos": 1},
            {"gtid": None, "file": "a.000001", "pos": 1},
        ),
        ({"gtid": "0-1-9", "pos": 1}, {"gtid": "1-1-9", "pos": 1}),
        ({"connector": "db2", "commit_lsn": "1"}, {"connector": "sqlserver", "commit_lsn": "1"}),
    ],
)
def test_positions_of_two_logs_are_not_compared(one: dict[str, Any], other: dict[str, Any]):
    first, second = position_of(one), position_of(other)
    assert first is not None
    assert second is not None
    assert first[0] != second[0]
    assert is_later(Place(0, 0, 5, 0, first), Place(0, 0, 4, 0, second), SOURCE) == 1
    assert is_later(Place(0, 0, 3, 0, first), Place(0, 0, 4, 0, second), SOURCE) == -1


def test_one_exact_position_is_one_event_and_one_millisecond_is_not():
    exact = position_of({"connector": "postgresql", "lsn": 5})
    assert is_later(Place(0, 0, 9, 0, exact), Place(0, 0, 4, 0, exact), SOURCE) == 0
    for source in (
        {"connector": "mongodb", "ts_ms": 5, "ord": 1},
        {"connector": "spanner", "ts_ms": 5},
        {"connector": "oracle", "scn": "5"},
    ):
        position = position_of(source)
        one, other = Place(0, 0, 9, 0, position), Place(0, 0, 4, 0, position)
        assert is_later(one, other, SOURCE) == 1
        assert is_later(other, one, SOURCE) == -1


def test_without_a_position_there_is_none():
    assert position_of({}) is None
    assert position_of({"connector": "postgresql", "lsn": None, "sequence": None}) is None


@pytest.mark.parametrize(
    "source",
    [
        {"lsn": -1},
        {"lsn": True},
        {"lsn": 1.5},
        {"lsn": 2**128},
        {"lsn": "9" * 39},
        {"lsn": "٣"},
        {"lsn": {"a": 1}},
        {"connector": "postgresql", "sequence": "[1]"},
        {"connector": "postgresql", "sequence": "[" * 100_000},
        {"connector": "postgresql", "sequence": "nonsense"},
        {"file": "a.000001", "pos": "x"},
        {"file": "x" * 1001, "pos": 1},
        {"ts_ms": "yesterday"},
    ],
)
def test_a_position_that_makes_no_sense_is_an_error(source: dict[str, Any]):
    with pytest.raises(ValueError, match=r"source|field of source|Expecting|JSON"):
        position_of(source)


def test_by_timestamp_every_pair_has_an_order():
    places = [
        Place(0, 1, 0, None),
        Place(0, 0, 9, 5),
        Place(0, 1, 1, 5),
        Place(0, 1, 2, 5),
        Place(1, 0, 0, 5),
        Place(0, 0, 1, 6),
    ]
    for at, place in enumerate(places):
        assert [is_later(place, other, TIMESTAMP) for other in places] == [
            (at > other) - (at < other) for other in range(len(places))
        ]


def test_offsets_order_one_partition_and_generations_order_all():
    assert is_later(Place(0, 0, 9), Place(0, 0, 8), TOPIC) == 1
    assert is_later(Place(0, 0, 8), Place(0, 0, 8), TOPIC) == 0
    assert is_later(Place(1, 1, 0), Place(0, 0, 8), TOPIC) == 1
    assert is_later(Place(0, 1, 9), Place(1, 0, 8), TOPIC) == -1
    with pytest.raises(UnorderedError, match="order='timestamp'"):
        is_later(Place(0, 1, 9), Place(0, 0, 8), TOPIC)
