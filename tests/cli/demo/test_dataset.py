"""Flights as records, and fingerprints that notice every difference."""

from __future__ import annotations

import json
import zipfile

import pytest

from fencepost.cli.demo import dataset

HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,"
    "flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour\n"
)


ROWS = (
    "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z\n"
    "2013,1,1,NA,1630,NA,NA,1815,NA,EV,4308,,EWR,RDU,NA,416,16,30,2013-01-01T21:00:00Z\n"
)


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("flights.csv", HEADER + ROWS)
    return path


def test_flights_are_read_with_types_nulls_keys_and_times(archive):
    flown, cancelled = dataset.read_flights(archive)
    assert flown.key == b"N14228"
    assert flown.timestamp_ms == 1357034400000
    assert json.loads(flown.value)["carrier"] == "UA"
    assert json.loads(flown.value)["dep_delay"] == 2
    assert cancelled.key is None
    assert json.loads(cancelled.value)["dep_time"] is None


def test_a_fingerprint_ignores_order_and_notices_everything_else():
    records = [(b"a", b"1"), (None, b"2"), (b"c", b"3")]
    whole = dataset.fingerprint(records)
    assert dataset.fingerprint(reversed(records)) == whole
    assert dataset.fingerprint(records[:-1]) != whole
    assert dataset.fingerprint([*records, records[0]]) != whole
    assert dataset.fingerprint([(b"a", b"1"), (None, b"2"), (b"c", b"4")]) != whole
    assert dataset.fingerprint([(b"b", b"1"), (None, b"2"), (b"c", b"3")]) != whole
