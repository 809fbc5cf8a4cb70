"""Our rules of Avro's schema resolution against Apache Avro's own, which Spark has on board."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

pytest.importorskip("fastavro")

from py4j.protocol import Py4JError

from fencepost.testing.registry.avro_rules import unreadable
from fencepost.testing.registry.avro_schemas import parse

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
DEFAULTS = {"null": None, "boolean": True, "int": 1, "long": 1, "float": 1.5, "double": 1.5,
            "bytes": "x", "string": "x"}  # fmt: skip
PAIRS = 600


class Drawn:
    """One schema from a dice; names are few, so that two schemas often share them."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._names: list[str] = []

    def schema(self, deep: int = 0) -> Any:
        dice = self._dice
        kinds = ["primitive"] * 3 + ["named"] * 2 + ["union", "array", "map"]
        kind = "primitive" if deep > 2 else dice.choice(kinds)
        if kind == "primitive":
            return dice.choice(self._names) if self._names and dice.random() < 0.2 else self._word()
        if kind == "array":
            return {"type": "array", "items": self.schema(deep + 1)}
        if kind == "map":
            return {"type": "map", "values": self.schema(deep + 1)}
        if kind == "union":
            return dice.sample(PRIMITIVES, dice.randint(1, 3))
        return self._named(deep)

    def _word(self) -> str:
        return self._dice.choice(PRIMITIVES)

    def _named(self, deep: int) -> Any:
        dice = self._dice
        name = dice.choice(["A", "B", "C"])
        space = dice.choice(["", "x."])
        if any(one.rpartition(".")[2] == name for one in self._names):
            return self._word()
        full = space + name
        more: dict[str, Any] = {"name": full}
        if dice.random() < 0.3:
            more["aliases"] = [dice.choice(["A", "B", "x.A", "x.C"])]
        kind = dice.choice(["record", "record", "enum", "fixed"])
        if kind == "fixed":
            self._names.append(full)
            return {"type": "fixed", "size": dice.randint(1, 2), **more}
        if kind == "enum":
            self._names.append(full)
            symbols = dice.sample(["P", "Q", "R"], dice.randint(1, 3))
            if dice.random() < 0.3:
                more["default"] = symbols[0]
            return {"type": "enum", "symbols": symbols, **more}
        self._names.append(full)
        fields = [self._field(one, deep) for one in dice.sample("abc", dice.randint(0, 3))]
        return {"type": "record", "fields": fields, **more}

    def _field(self, name: str, deep: int) -> Any:
        made: dict[str, Any] = {"name": name, "type": self.schema(deep + 1)}
        if isinstance(made["type"], str) and made["type"] in DEFAULTS and self._dice.random() < 0.4:
            made["default"] = DEFAULTS[made["type"]]
        if self._dice.random() < 0.2:
            # Apache Avro finds a field that is its own alias twice, and so ambiguous.
            made["aliases"] = [self._dice.choice("abcd".replace(name, ""))]
        return made


def changed(dice: random.Random, schema: Any) -> Any:
    """Something in it may be another primitive."""
    if isinstance(schema, str) and schema in PRIMITIVES and dice.random() < 0.2:
        return dice.choice(PRIMITIVES)
    if isinstance(schema, dict):
        kept = {key: changed(dice, one) if key in ("type", "items", "values", "fields") else one
                for key, one in schema.items()}  # fmt: skip
        if kept.get("type") != schema.get("type"):
            kept.pop("default", None)
        return kept
    if isinstance(schema, list) and schema and isinstance(schema[0], dict):
        return [changed(dice, one) for one in schema if dice.random() < 0.9]
    return schema


def test_drawn_schemas(spark: Any):
    avro = spark._jvm.org.apache.avro

    def java(text: str) -> Any:
        return avro.SchemaParser().parse(text).mainSchema()

    dice, answers = random.Random(20261129), {True: 0, False: 0}
    while sum(answers.values()) < PAIRS:
        first = Drawn(dice).schema()
        second = changed(dice, first) if dice.random() < 0.7 else Drawn(dice).schema()
        texts = json.dumps(first), json.dumps(second)
        try:
            reader, writer = map(java, texts)
        except Py4JError:  # such as a default that does not fit after the change
            continue
        try:
            found = avro.SchemaCompatibility.checkReaderWriterCompatibility(reader, writer)
            expected, told = found.getType().toString() == "COMPATIBLE", found.getDescription()
        except Py4JError as error:  # two fields of the writer's are the reader's
            expected, told = False, str(error)
        ours = unreadable(*(parse(text, ())[0] for text in texts))
        assert (not ours) == expected, (*texts, ours, told)
        answers[expected] += 1
    assert min(answers.values()) > PAIRS / 10
