"""Opening one log of a directory: begun and finished by its owner, run on any thread."""

from __future__ import annotations

import logging
from collections.abc import Callable

from fencepost.log.errors import InconsistentTopicIdError
from fencepost.log.partition_log import PartitionLog

log = logging.getLogger(__name__)


class OpenJob:
    """Made by `LogDir.begin_open`, and taken back by `LogDir.finish_open`.

    Logs of one directory may be opened by several threads at once, which pays where they have to be
    read through, or synced, after a crash.
    """

    __slots__ = ("_load", "begin_anew", "needs_recovery", "opened")

    def __init__(
        self,
        load: Callable[[], PartitionLog],
        begin_anew: Callable[[], OpenJob],
        *,
        needs_recovery: bool,
    ) -> None:
        self._load = load
        self.begin_anew = begin_anew
        """Set aside what is there, which is another topic's; a job that makes the log."""
        self.needs_recovery = needs_recovery
        """Whether the log was there and not closed in order, so that this may take long."""
        self.opened: PartitionLog | None = None
        """The log; None if it has not run, or found another topic's."""

    def run(self) -> None:
        """Open it. DurableDataLostError (see `PartitionLog.open`), CorruptFileError, OSError."""
        try:
            self.opened = self._load()
        except InconsistentTopicIdError as error:
            log.warning("%s; renaming its directory", error)
