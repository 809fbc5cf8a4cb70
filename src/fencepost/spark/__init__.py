"""The PySpark data source `fencepost`; `install()` lets `format("kafka")` mean it."""

from fencepost.spark.install import install as install, uninstall as uninstall
