"""What a client and a broker say to one another around the messages, without any I/O.

* `framing`: bytes as they come into frames, within bounds;
* `in_flight`: correlation ids, and which response answers which request;
* `negotiation`: the versions that a broker serves, asked for by ApiVersions;
* `versions`: the version that a request is sent in;
* `sasl`: authentication.

The blocking `client.connection` and the broker's asyncio connections to its peers drive the same
code. What takes several requests is a generator: it yields a request and the version to send it in
(None: the newest of both ends), is sent the response, and returns what was agreed.
"""
