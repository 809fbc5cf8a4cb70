"""Which packages have the formats of tables, for which Spark: one list, which tests prove.

Delta and Iceberg are made for one minor version of Spark each, and fail with another, often late.
The list has what is released on Maven Central (November 2026); for a Spark that it does not have,
there is none. Delta's own Python package, `delta-spark`, pins one version of PySpark, so pip cannot
install it beside another; it is not needed: the package that Spark loads has everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
PACKAGES: Final[Mapping[str, Mapping[str, str]]] = {
    DELTA: {
        "4.1": "io.delta:delta-spark_4.1_2.13:4.4.0",
        "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0",
    },
    ICEBERG: {"4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"},
}
"""Of each format, by the minor version of Spark."""
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    DELTA: {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    ICEBERG: {},
}
"""What a session needs besides. Iceberg's catalogs are set when a table is opened."""


def how_to_load(format: str, version: str) -> str:
    """Which options of `fencepost archive` (or spark-submit) load a format in this Spark, or which
    Sparks it is released for; nothing for a format that is not in the list."""
    releases = PACKAGES.get(format)
    if releases is None:
        return ""
    minor = ".".join(version.split(".")[:2])
    if minor in releases:
        settings = [f"--conf {key}={value}" for key, value in SETTINGS[format].items()]
        return f"give it with {' '.join([f'--packages {releases[minor]}', *settings])}"
    known = ", ".join(f"{package} for Spark {one}" for one, package in releases.items())
    return (
        f"no release of it for Spark {minor} was known when this was made, only {known}; archive "
        "as parquet, or use such a Spark"
    )
