"""Faults on demand: proxies in front of brokers, and what they do to requests and answers.

`injector` is what tests call, `gate` the proxy in front of one node, `relay` one connection through
it. `rules` says which requests meet which fault, `error_answers` makes the answers of failures,
`links` knows which node or client is cut off from which, `addresses` sends clients of a cluster
that does not know of the proxy back through it.
"""
