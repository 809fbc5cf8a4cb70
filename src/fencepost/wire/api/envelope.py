"""Envelope (key 58): a client's request, passed on by a broker to the active controller (KIP-590).

Sent by brokers alone. A client need not know the controller: what only the controller can do, it
asks of any broker, and the broker forwards it in an envelope and the answer back.

What the three fields of bytes hold, and the one of the response:

* `request_data`: the client's request as it came, from its header on (the header has API key,
  version, correlation id and client id), without the length in front. Kafka's controller answers
  error 35 when it cannot read it, and the broker then closes the client's connection, so that
  the client asks for versions again.
* `request_principal`: who the client is, in the form of the principal builder both nodes have
  configured. With Kafka's default one (`fencepost.wire.records.principal` reads and writes it): an
  int16 version, 0, and DefaultPrincipalData at that version, which is flexible: compact strings
  `Type` and `Name`, the bool `TokenAuthenticated` (whether a delegation token was used), tags. The
  controller authorizes the request as this principal, therefore the sender itself needs
  CLUSTER_ACTION. Error 97 when it cannot be read.
* `client_host_address`: the client's IP address, 4 or 16 bytes in network order, for rules about
  hosts; of any other length is error 42.
* `response_data`: the response to that request from its header on, again without the length. It
  has the correlation id the client sent.

APIs that may be inside, by key: 19 CreateTopics, 20 DeleteTopics, 30 CreateAcls, 31 DeleteAcls,
33 AlterConfigs, 37 CreatePartitions, 38 CreateDelegationToken, 39 RenewDelegationToken,
40 ExpireDelegationToken, 43 ElectLeaders, 44 IncrementalAlterConfigs,
45 AlterPartitionReassignments, 46 ListPartitionReassignments, 49 AlterClientQuotas,
51 AlterUserScramCredentials, 55 DescribeQuorum, 57 UpdateFeatures, 64 UnregisterBroker,
67 AllocateProducerIds, 80 AddRaftVoter, 81 RemoveRaftVoter, 94 UnregisterController. Any other
is error 42.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, field
from fencepost.wire.secrets import ALWAYS
from fencepost.wire.types import Bytes, Int16


class EnvelopeRequest(Request["EnvelopeResponse"], api_key=58, versions="0", flexible="0+"):
    """A request inside of a request."""

    request_data: Bytes = field(
        secret=ALWAYS, doc="Header and body of the client's request, without a length."
    )
    request_principal: Bytes | None = field(
        doc=(
            "Who sent it, as the principal builder writes it; null can be sent, but is error 97 "
            "with Kafka's default one."
        ),
    )
    client_host_address: Bytes = field(
        doc="IP address it came from: 4 bytes, or 16 for IPv6, in network order.",
    )


class EnvelopeResponse(Message, api_key=58, kind="response", versions="0", flexible="0+"):
    """A response inside of a response."""

    response_data: Bytes | None = field(
        secret=ALWAYS,
        default=None,
        doc=(
            "Header and body of the response, without a length; null on an error. What became of "
            "the client's request is said in here."
        ),
    )
    error_code: Int16 = field(
        doc=(
            "Error of the envelope, not of the request inside: 0, 31, 35 the request cannot be "
            "read, 41 not the active controller, 42 not an API to forward or no address, 97."
        ),
    )
