"""Types and names in statements for Spark, whatever characters are in the names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from fencepost.spark.ddl import quoted, type_ddl

from .conftest import spark as spark_session

spark = spark_session
ODD = st.text(st.sampled_from("`'\"., <>:;(){}[]\\/*-$=\n\t\0aZ9ü"), min_size=1, max_size=6)
NAMES = ODD | st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("name", "wanted"), [("a", "`a`"), ("a.b", "`a.b`"), ("`", "````"), ("a``b c", "`a````b c`")]
)
def test_backquotes_in_a_name_are_doubled(name: str, wanted: str):
    assert quoted(name) == wanted


def test_names_in_types_are_quoted_and_nothing_else_is():
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StringType, StructType

    inner = StructType().add("a b", DecimalType(9, 2)).add("c`d", StringType())
    kind = StructType().add("l", ArrayType(inner)).add("m", MapType(StringType(), inner))
    told = "struct<`a b`: decimal(9,2), `c``d`: string>"
    assert type_ddl(inner) == told
    assert type_ddl(kind) == f"struct<`l`: array<{told}>, `m`: map<string, {told}>>"


def types() -> st.SearchStrategy[Any]:
    """Types of columns, of which structs have fields of drawn names."""
    from pyspark.sql import types as T  # noqa: N812

    def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        fields = st.lists(st.builds(T.StructField, NAMES, inner), min_size=1, max_size=4)
        structs = st.builds(T.StructType, fields)
        maps = st.builds(T.MapType, st.just(T.StringType()), inner)
        return structs | st.builds(T.ArrayType, inner) | maps

    plain = [T.IntegerType(), T.DecimalType(9, 2), T.TimestampNTZType(), T.BinaryType()]
    return st.recursive(st.sampled_from(plain), around, max_leaves=6)


@pytest.mark.spark
@pytest.mark.slow
def test_spark_reads_the_same_type_back(spark: Any):
    from pyspark.sql.types import StructField, StructType

    @given(NAMES, types())
    def is_the_same(name: str, kind: Any) -> None:
        column = f"{quoted(name)} {type_ddl(kind)}"
        assert StructType.fromDDL(column) == StructType([StructField(name, kind)])

    is_the_same()
