"""`Cluster`: a real broker in a child process, on a free loopback port, with its own directory.

It is what `fencepost serve` runs, started with this interpreter, so a test talks to the thing that
users run: real sockets, real files, a process that can be killed. `kill` is SIGKILL, `stop` is
SIGTERM, and `restart` starts again on the same port and data.

The child writes a ready file once it accepts clients; its log goes to a file next to the data and
is part of every error. It ends with the test process even if that forgets to end it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fencepost.testing.node_process import ClusterError, NodeProcess
from fencepost.testing.ports import LOOPBACK, free_ports
from fencepost.testing.process_cluster import ProcessCluster, config_text

__all__ = ["Cluster", "ClusterError"]

NODE_ID = 1


class Cluster(ProcessCluster):
    """A one-node cluster for tests; a context manager, started on entry.

    Keyword arguments are broker configs with underscores for dots: `Cluster(num_partitions=3)`.
    `config` takes them under their own names. `data_dir` keeps the data there; without it the data
    is in a temporary directory that goes with the cluster. One default is not the broker's: groups
    form at once (`group.initial.rebalance.delay.ms=0`), because nobody starts a fleet in a test.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        data_dir: Path | str | None = None,
        config: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if brokers != 1:
            raise ValueError(
                f"brokers={brokers} is not allowed: 1; several nodes are a"
                " fencepost.testing.quorum_cluster.QuorumCluster"
            )
        super().__init__()
        self._config: dict[str, Any] = {
            "listeners": f"PLAINTEXT://{LOOPBACK}:{free_ports(1)[0]}",
            "group.initial.rebalance.delay.ms": 0,
        }
        self._config.update({key.replace("_", "."): value for key, value in options.items()})
        self._config.update(config or {})
        self.data_dir = Path(data_dir) if data_dir is not None else self.directory / "data"
        self._node = NodeProcess("the broker", self.directory, self._arguments)
        self.bootstrap_servers = ""
        """HOST:PORT of the broker; stays the same over `restart`."""

    # -- start and end --------------------------------------------------------------------------

    def start(self) -> None:
        """Start the broker and wait until it accepts clients. ClusterError."""
        self._node.start()
        self._node.wait_until_ready()
        self.bootstrap_servers = ",".join(self._node.addresses)

    def stop(self) -> int:
        """SIGTERM, and wait; the exit code."""
        return self._node.stop()

    def kill(self) -> int:
        """SIGKILL: what was not on the disk is lost. The exit code, -9."""
        return self._node.kill()

    def restart(self) -> None:
        """Stop the broker if it runs, and start it on the same port with the same data."""
        if self.running:
            self.stop()
        self.start()

    # -- looking inside --------------------------------------------------------------------

    @property
    def nodes(self) -> dict[int, NodeProcess]:
        """The broker."""
        return {NODE_ID: self._node}

    @property
    def running(self) -> bool:
        """Whether the broker's process is alive."""
        return self._node.running

    @property
    def pid(self) -> int:
        """The broker's process id; ClusterError when it does not run."""
        return self._node.pid

    @property
    def log_path(self) -> Path:
        """Where the broker's log goes."""
        return self._node.log_path

    @property
    def log_text(self) -> str:
        """The broker's log so far."""
        return self._node.log_text

    def _arguments(self) -> list[str]:
        options = [f"-o{key}={config_text(value)}" for key, value in self._config.items()]
        return ["--data-dir", str(self.data_dir), *options]
