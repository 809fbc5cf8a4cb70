"""Lag over time of the groups whose pages were looked at: a number per look, for an hour or so.

Brokers keep no history, so the console does, of few groups: those whose pages were opened last.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Any, Final

from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.errors import ClientError
from fencepost.client.lag import finding_lag
from fencepost.console.drawing.series import Point

GROUPS_MAX: Final = 20
POINTS_MAX: Final = 720


class LagHistory:
    """May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._points: OrderedDict[str, deque[Point]] = OrderedDict()

    def watch(self, group: str) -> list[Point]:
        """What is known of a group so far; it is watched from now on, in the place of the group
        that was not asked for the longest, if there are GROUPS_MAX already."""
        with self._lock:
            points = self._points.setdefault(group, deque(maxlen=POINTS_MAX))
            self._points.move_to_end(group)
            while len(self._points) > GROUPS_MAX:
                self._points.popitem(last=False)
            return list(points)

    def looking(self, view: ClusterView[Any], now_ms: int) -> Conversation[None]:
        """Ask for the lag of every watched group and note it with this time."""
        with self._lock:
            watched = list(self._points)
        for group in watched:
            try:
                lags = yield from finding_lag(view, group)
            except ClientError:
                total = None
            else:
                known = [lag.lag_records for lag in lags.values() if lag.lag_records is not None]
                total = sum(known)
            self.note(group, Point(now_ms, total))

    def note(self, group: str, point: Point) -> None:
        """Keep a number of a group that is watched."""
        with self._lock:
            points = self._points.get(group)
            if points is not None:
                points.append(point)
