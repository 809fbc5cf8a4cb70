"""Listeners and connections: bytes become requests, responses become bytes."""
