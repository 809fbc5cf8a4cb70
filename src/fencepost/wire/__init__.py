"""The protocol: bytes to typed messages and back, and nothing else.

No sockets, no files, no clock; the standard library only. `fencepost.wire.api` has the requests
and responses, `fencepost.wire.records` what Kafka stores in its own logs. `frame` puts headers and
length prefixes around them.
"""
