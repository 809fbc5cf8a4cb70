"""`RefusedError`: why a request to a group is not granted."""

from __future__ import annotations

from fencepost.wire.errors import ErrorCode


class RefusedError(Exception):
    """Ends a decision: nothing of it is carried out, and the client is answered the error.

    The message is Kafka's, which has none where it meets what it does not expect.
    """

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(error, message)
        self.error = error
        self.message = message
