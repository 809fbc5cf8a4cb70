"""Blocking Kafka clients: connections, cluster metadata, admin, producer, fetcher."""
