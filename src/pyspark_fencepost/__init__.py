"""Found by Spark: `.format("fencepost")` works without registering anything."""

from fencepost.spark.datasource import FencepostDataSource as DefaultSource  # noqa: F401
