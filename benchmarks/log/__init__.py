"""Benchmarks of the log: see bench.py."""
