"""The PySpark data source `fencepost`; `install()` lets `format("kafka")` mean it, and by
`in_batch()` a write in foreachBatch counts once."""

from fencepost.spark.idempotency import in_batch as in_batch
from fencepost.spark.install import install as install, uninstall as uninstall
