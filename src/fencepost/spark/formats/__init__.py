"""Values with a schema registry behind them, as columns: Avro, Protobuf and JSON.

Needs the extra `formats`. `decode` makes a column of each value, its schema's id, and why it could
not be decoded; `dead_letters` makes records for another topic of those that could not. `encode`
makes values of columns.
"""

from fencepost.spark.formats.columns import dead_letters, decode, encode

__all__ = ["dead_letters", "decode", "encode"]
