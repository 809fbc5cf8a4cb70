"""Clients of simulated brokers: producers, consumers and members of groups.

They are ends of the network and nothing else: no fault strikes a client itself, but what it sends
and hears travels over links as everything does, at drawn versions in worlds on the wire.
"""
