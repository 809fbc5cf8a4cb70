"""Replication between real brokers that are killed, paused and cut off, seen by real clients."""
