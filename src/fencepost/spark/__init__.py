"""The PySpark data source `fencepost`."""
