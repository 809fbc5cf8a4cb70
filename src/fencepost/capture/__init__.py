"""What a capture of packets says: connections, frames, requests and their responses. No I/O.

* `packets` takes packets apart, down to TCP;
* `connections` keeps both directions of each connection, `reassembly` puts one of them in order,
  `framing` cuts it into frames, `frame_detection` says what can be one, and `conversation` tells
  requests, responses and SASL tokens apart.

It reads no file: `fencepost wire decode --pcap` does, with libpcap (the extra `pcap`), and loads
this package for it.
"""
