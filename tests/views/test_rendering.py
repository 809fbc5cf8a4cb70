"""JSON, schemas and tables of views."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from typing import Any, ClassVar

import msgspec
import pytest

import fencepost.views
from fencepost.views.json_documents import json_text
from fencepost.views.log_dirs import LogDirView, StoredReplica
from fencepost.views.rendering import document_of, schema_of, table_of
from fencepost.views.tables import draw_table
from fencepost.views.view import View

from ..in_turn import in_turn

KINDS = sorted(
    {
        kind
        for module in pkgutil.iter_modules(fencepost.views.__path__, "fencepost.views.")
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        if issubclass(kind, View) and kind is not View
    },
    key=lambda kind: (kind.__module__, kind.__name__),
)
LOG_DIR = LogDirView(
    1, "/a", None, 30 << 20, 20 << 20, False, [StoredReplica("t", 0, 100, 3, True)]
)


class Row(View, frozen=True):
    """A made-up view."""

    columns: ClassVar = {"group": "name", "lag": "lag", "of": "members", "twice": "twice"}

    name: str
    lag: int | None
    members: list[str]

    @property
    def twice(self) -> int | None:
        return None if self.lag is None else 2 * self.lag


def test_unknown_numbers_stay_below_the_others():
    rows = [("x", 5, None, -1), ("y", None, None, 10)]
    assert draw_table(("a", "lag", "none", "-1"), rows) == [
        "a  lag  none  -1",
        "x    5  -     -1",
        "y    -  -     10",
    ]


def test_a_table_has_the_columns_of_its_views_and_nothing_that_a_terminal_acts_on():
    assert table_of(Row, []) == []
    assert table_of(Row, [Row("a\x1b[2J", 12, ["m", "\x1b"]), Row("b", None, [])]) == [
        "group     lag  of      twice",
        "a\\x1b[2J   12  m,\\x1b     24",
        "b           -  -           -",
    ]


def test_json_has_the_fields_in_their_order_also_those_of_views_within():
    assert json_text([Row("a", None, ["m"])]) == json.dumps(
        [{"name": "a", "lag": None, "members": ["m"]}], indent=2
    )
    document = document_of(LOG_DIR)
    assert list(document) == [
        *("broker", "path", "error", "total_bytes", "usable_bytes", "cordoned", "replicas")
    ]
    assert document["replicas"][0]["size_bytes"] == 100


@pytest.mark.parametrize(
    ("said", "condition"),
    [
        ({}, "1 replica, 20 of 30 MiB free"),
        ({"usable_bytes": None}, "1 replica"),
        ({"cordoned": True, "replicas": []}, "0 replicas, 20 of 30 MiB free, cordoned"),
        ({"cordoned": True, "error": "KAFKA_STORAGE_ERROR"}, "offline: KAFKA_STORAGE_ERROR"),
    ],
)
def test_the_condition_of_a_log_directory(said: dict[str, Any], condition: str):
    assert msgspec.structs.replace(LOG_DIR, **said).condition == condition


@in_turn("kind", KINDS)
def test_every_view_is_frozen_described_and_has_a_schema_and_columns_that_exist(kind: type[View]):
    assert kind.__struct_config__.frozen
    assert kind.__doc__
    schema = schema_of(kind)
    described = schema["$defs"][kind.__name__]
    # One of several kinds in a stream of lines says which it is, before all else.
    tag = [kind.__struct_config__.tag_field] if kind.__struct_config__.tag_field else []
    assert list(described["properties"]) == [*tag, *kind.__struct_fields__]
    assert described["required"] == [*tag, *kind.__struct_fields__]
    for name in kind.columns.values():
        assert name in kind.__struct_fields__ or isinstance(getattr(kind, name), property), name


def test_a_document_is_decoded_by_its_schema_and_a_wrong_one_is_not():
    decoded = msgspec.json.decode(json_text(LOG_DIR), type=LogDirView)
    assert decoded == LOG_DIR
    with pytest.raises(msgspec.ValidationError, match="total_bytes"):
        msgspec.json.decode(json_text(LOG_DIR).replace("31457280", '"many"'), type=LogDirView)
