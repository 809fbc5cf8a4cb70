"""Drawings as SVG without styles of their own, and the lines of text that say the same."""
