"""Whether a log can still be used: it ends once, by being closed or by a disk that refuses."""

from __future__ import annotations

from fencepost.log.errors import LogFailedError


class Health:
    """Of the log in `directory`; shared by all that works on it, on whatever thread."""

    __slots__ = ("_directory", "failure", "is_closed")

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.failure: str | None = None
        """Why the log has failed, for good; the first reason counts."""
        self.is_closed = False

    def fail(self, reason: str) -> None:
        """The disk has refused. Any thread."""
        if self.failure is None:
            self.failure = reason

    def check(self) -> None:
        """Raise LogFailedError if the log has failed or is closed."""
        if self.failure is not None:
            raise LogFailedError(f"{self._directory} is offline: {self.failure}")
        if self.is_closed:
            raise LogFailedError(f"{self._directory} is closed")
