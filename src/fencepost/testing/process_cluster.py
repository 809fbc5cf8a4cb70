"""`ProcessCluster`: what clusters have in common whose nodes are processes in a directory."""

from __future__ import annotations

import abc
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from fencepost.testing.node_process import NodeProcess


class ProcessCluster(abc.ABC):
    """A context manager: started on entry, and gone at the end, whatever happened.

    Without a `directory` the nodes live in a temporary one that goes with them.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.is_temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="fencepost-"))

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    @abc.abstractmethod
    def nodes(self) -> Mapping[int, NodeProcess]:
        """All nodes by id."""

    @abc.abstractmethod
    def start(self) -> None:
        """Start the nodes and wait until they serve. ClusterError."""

    @abc.abstractmethod
    def stop(self) -> object:
        """Stop the nodes in order. ClusterError."""

    def close(self) -> None:
        """End everything and remove what is temporary."""
        try:
            if any(node.running for node in self.nodes.values()):
                self.stop()
        finally:
            for node in self.nodes.values():
                if node.running:
                    node.kill()
            if self.is_temporary:
                shutil.rmtree(self.directory, ignore_errors=True)


def config_text(value: object) -> str:
    """A config value as it stands in a file of properties."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(config_text(item) for item in value)
    return str(value)
