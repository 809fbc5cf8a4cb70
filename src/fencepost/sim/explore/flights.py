"""Messages and the network, as small numbers.

A message is known by its type and bytes, so equal ones are one; what arrives is what its bytes say.
A flight is a message on its way:

| kind   | what is on its way                                        | what comes of it        |
|--------|-----------------------------------------------------------|-------------------------|
| ASKED  | a request whose answer its sender waits for               | ANSWER                  |
| ANSWER | the answer to one                                         | the sender gets it      |
| LATE   | a request that its sender has given up on                 | SAID                    |
| SAID   | an answer that comes after its receiver has given it up   | it gets it all the same |
| ORPHAN | a request whose sender has died, or closed the connection | the answer goes nowhere |

A machine has at most one request to each peer whose answer it waits for, so a network holds at most
one ASKED or ANSWER for a pair of nodes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from fencepost.wire.message import Message


class Kind(IntEnum):
    """See the table above."""

    ASKED = 0
    ANSWER = 1
    LATE = 2
    SAID = 3
    ORPHAN = 4


class Flight(NamedTuple):
    """`asker` asked `peer`; `message` is on its way, `request` is what it answers, or itself."""

    kind: Kind
    asker: int
    peer: int
    message: int
    request: int

    @property
    def source(self) -> int:
        """Who sent it."""
        return self.peer if self.kind in (Kind.ANSWER, Kind.SAID) else self.asker

    @property
    def target(self) -> int:
        """Who will get it."""
        return self.asker if self.kind in (Kind.ANSWER, Kind.SAID) else self.peer


class Numbers:
    """Values by number, numbers by value."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def of(self, value: Any) -> int:
        """The number of a hashable value; a new one for a new value."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number

    def __len__(self) -> int:
        return len(self.values)


class Messages:
    """Every message there has been, by number."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[type[Message], bytes], int] = {}
        self._messages: list[Message] = []

    def of(self, message: Message) -> int:
        """The number of a message."""
        kind = type(message)
        key = kind, bytes(message.encode(kind.max_version))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._messages)
            self._messages.append(kind.decode(key[1], kind.max_version))
        return number

    def __getitem__(self, number: int) -> Message:
        """The message as it arrives; not to be changed."""
        return self._messages[number]

    def __len__(self) -> int:
        return len(self._messages)


Net = tuple[int, ...]
"""The flights of a network by number, ascending."""


class Networks:
    """Every network there has been, by number; 0 is the empty one."""

    def __init__(self) -> None:
        self.flights = Numbers()
        self._nets = Numbers()
        self._nets.of(())

    def of(self, flights: set[int]) -> int:
        """The number of the network of these flights."""
        return self._nets.of(tuple(sorted(flights)))

    def __getitem__(self, number: int) -> Net:
        net: Net = self._nets.values[number]
        return net

    def flight(self, number: int) -> Flight:
        """A flight by number."""
        flight: Flight = self.flights.values[number]
        return flight

    def awaited(self, net: int, asker: int, peer: int) -> int:
        """The ASKED or ANSWER of a pair of nodes; -1 if there is none."""
        for number in self[net]:
            flight = self.flight(number)
            if flight.asker == asker and flight.peer == peer and flight.kind <= Kind.ANSWER:
                return number
        return -1

    def __len__(self) -> int:
        return len(self._nets)
