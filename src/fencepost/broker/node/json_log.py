"""Events of a node as JSON, one object per line, for `fencepost.log.format=json`."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final

MESSAGE_CHARACTERS_MAX: Final = 2_000


class JsonFormatter(logging.Formatter):
    """An object with `time` (ISO 8601, UTC), `level`, `logger` and `message`, and with `exception`
    where there is a traceback. Whatever a message repeats of clients and files, it is one line."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        message = record.getMessage()
        if len(message) > MESSAGE_CHARACTERS_MAX:
            message = f"{message[:MESSAGE_CHARACTERS_MAX]}... ({len(message)} characters)"
        moment = datetime.fromtimestamp(record.created, tz=UTC)
        event = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": message,
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event)
