"""Drives machines over ports and files without an event loop, for the broker and the simulator."""
