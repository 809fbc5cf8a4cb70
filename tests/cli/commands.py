"""What a command line that ran in this process has printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> object:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Fencepost = Callable[..., Ran]
