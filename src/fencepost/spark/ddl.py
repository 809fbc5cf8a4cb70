"""Names and types as Spark's SQL reads them, whatever characters are in the names.

PySpark's `simpleString` has the names of a struct's fields as they are, so that Spark reads a name
with a space, a dot or a quote in it as something else, or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def quoted(name: str) -> str:
    """A column's or field's name as a part of an expression or statement."""
    return "`" + name.replace("`", "``") + "`"


def type_ddl(kind: DataType) -> str:
    """A type as statements such as ALTER TABLE take it; all that is in it may be null."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        fields = (f"{quoted(one.name)}: {type_ddl(one.dataType)}" for one in kind)
        return f"struct<{', '.join(fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{type_ddl(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{type_ddl(kind.keyType)}, {type_ddl(kind.valueType)}>"
    return kind.simpleString()
