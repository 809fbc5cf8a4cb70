"""Fencepost: Kafka's replicated log in Python, and a Spark pipeline that knows when it was cut."""

__version__ = "0.1.0"
