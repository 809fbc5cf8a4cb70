"""Values with a schema registry behind them, as columns: Avro, Protobuf and JSON.

Needs the extra `formats`. `decode` makes a column of each value, its schema's id, and why it could
not be decoded; `dead_letters` makes records for another topic of those that could not. `schema_of`
is the type that the registry's schema has in Spark. `encode` makes values of columns, and registers
their schema if it is given one.
"""

from fencepost.spark.formats.columns import dead_letters, decode, encode, schema_of

__all__ = ["dead_letters", "decode", "encode", "schema_of"]
