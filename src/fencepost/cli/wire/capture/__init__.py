"""What a capture of packets says: connections, frames, requests and their responses.

* `command` reads the packets of a file and prints the messages;
* the rest does no I/O: `connections` keeps both directions of each connection, `reassembly` puts
  one of them in order, `framing` cuts it into frames, `frame_detection` says what can be one, and
  `conversation` tells requests, responses and SASL tokens apart.

Only `fencepost wire decode --pcap` imports this package; an import contract sees to it.
"""
