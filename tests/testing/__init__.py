"""Clusters for tests, and the faults they inject."""
