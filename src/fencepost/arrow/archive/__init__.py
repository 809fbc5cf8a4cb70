"""Archives in Parquet as files: which there are, what is archived, and reading them, without Spark.

`fencepost.spark.archive` writes them.
"""
