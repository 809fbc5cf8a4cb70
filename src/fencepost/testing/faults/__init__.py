"""Faults on demand: proxies in front of brokers, and what they do to requests and answers.

`injector` is what tests call, `gate` the proxy in front of one node, `relay` one connection through
it. `rules` says which requests meet which fault, `error_answers` makes the answers of failures,
`links` knows who is cut off from whom, `addresses` sends clients of somebody else's cluster back
through the proxy.
"""
