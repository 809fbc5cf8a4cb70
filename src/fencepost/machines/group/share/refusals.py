"""`RefusedError`: why a request to a share group is not granted, in Kafka's words."""

from __future__ import annotations

from fencepost.wire.errors import ErrorCode


class RefusedError(Exception):
    """Ends a decision: nothing of it is carried out, and the client is answered the error."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
