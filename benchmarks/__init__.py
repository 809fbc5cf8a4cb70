"""Benchmarks: side by side with peers in one run, medians and ratios, never a bare number."""
