"""Finds message classes and structs by name or number, and the header version of a message."""
