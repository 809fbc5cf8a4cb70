"""The files of a metadata log, and what others count on of them."""

from __future__ import annotations

from msgspec import Struct

from fencepost.log.log_dir import LogDir
from fencepost.log.names import partition_dir
from fencepost.log.quorum_state import QuorumStateFile
from fencepost.machines.quorum.voters import VoterSet
from fencepost.runtime.metadata.rules import RULES, MetadataRules


class MetadataFiles(Struct, frozen=True):
    """The files of a node's metadata log, and who owns them.

    `is_observer`: no voter counts on them, or the loss of records is accepted. `static` are the
    configured voters.
    """

    log_dir: LogDir
    topic: str
    state: QuorumStateFile
    node_id: int
    static: VoterSet
    is_observer: bool
    rules: MetadataRules = RULES

    @property
    def directory(self) -> str:
        """Where the log is."""
        return f"{self.log_dir.path}/{partition_dir(self.topic, 0)}"
