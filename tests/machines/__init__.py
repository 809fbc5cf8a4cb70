"""Tests of the sans-IO machines."""
