"""Configs: their definitions, a file of them, those in force, and what follows from them."""
