"""Log directories and single partitions, one after the other.

A directory that a broker is using changes under our eyes. Its partitions are checked as after an
unclean end, since that is what its files would be if the broker stopped now; and where something
is found it is looked at again at the end, because it may have been half-way through a write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from fencepost.log.checkpoints import TopicPartition
from fencepost.log.dump.kinds import kind_of
from fencepost.log.meta import MetaProperties
from fencepost.log.names import (
    LOCK_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    TEMPORARY_SUFFIX,
    parse_offset_file,
    parse_partition_dir,
)
from fencepost.log.verify.checkpoints import (
    CheckpointReader,
    compare_identities,
    read_identity,
)
from fencepost.log.verify.facts import DirectoryFacts, PartitionFacts
from fencepost.log.verify.files import Files
from fencepost.log.verify.metadata_log import METADATA_DIR, check_snapshot, topic_ids
from fencepost.log.verify.partition import PartitionVerifier
from fencepost.log.verify.problems import Counts, Problem, Severity, unreadable
from fencepost.log.verify.segments import Progress
from fencepost.wire.types import Uuid

LOOKS_AGAIN: Final = 3
"""How often something suspicious in a directory in use is looked at once more."""
_PAUSE_S: Final = 0.3

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
"""What Kafka's formatting tool puts beside the partitions, in the form of a snapshot."""

_GOING_DIRS: Final = {
    "-delete": "waits to be deleted",
    "-stray": "was set aside: the cluster does not know it",
    "-future": "is being copied from another directory",
}


class NotALogDirectoryError(ValueError):
    """A path is neither a log directory nor one of a partition."""


class Verifier:
    """Verifies directories; `counts` says how much there was."""

    def __init__(
        self,
        files: Files,
        *,
        is_live: Callable[[str], bool],
        is_deep: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._files = files
        self._is_live = is_live
        self._is_deep = is_deep
        self._progress = progress
        self._topic_ids: dict[str, tuple[Uuid, str]] = {}
        self._metadata_ids: dict[str, Uuid] = {}
        self._identities: dict[str, MetaProperties] = {}
        self._suspects: list[tuple[str, TopicPartition]] = []
        self.counts = Counts()

    def run(self, directories: list[str]) -> Iterator[Problem]:
        """All problems of log directories and partitions' directories.

        Raises NotALogDirectoryError before anything else, OSError.
        """
        for directory in directories:
            if not (self.is_log_dir(directory) or self._is_partition(directory)):
                raise NotALogDirectoryError(
                    f"{directory} is neither a log directory nor one of a partition"
                )
        for directory in filter(self.is_log_dir, directories):
            metadata = f"{directory}/{METADATA_DIR}"
            if self._files.is_dir(metadata):
                with suppress(OSError):  # which is a problem of that partition, later
                    self._metadata_ids |= topic_ids(self._files, metadata)
        for directory in directories:
            if self.is_log_dir(directory):
                yield from self._log_dir(directory)
            else:
                yield from self._lone_partition(directory)
        yield from compare_identities(self._identities)
        yield from self._look_again()

    def is_log_dir(self, directory: str) -> bool:
        """Whether it is a log directory: formatted, or with partitions in it."""
        if not self._files.is_dir(directory):
            return False
        return any(
            name == META_PROPERTIES_FILE
            or (parse_partition_dir(name) and self._files.is_dir(f"{directory}/{name}"))
            for name in self._files.list(directory)
        )

    def _is_partition(self, directory: str) -> bool:
        return self._files.is_dir(directory) and any(
            parse_offset_file(name) or name == PARTITION_METADATA_FILE
            for name in self._files.list(directory)
        )

    # -- one directory

    def _log_dir(self, directory: str) -> Iterator[Problem]:
        is_live = self._is_live(directory)
        identity = read_identity(self._files, directory)
        if isinstance(identity, Problem):
            yield identity
        else:
            self._identities[directory] = identity
        reader = CheckpointReader(self._files, directory)
        facts = reader.facts(is_live=is_live)
        yield from reader.problems
        present: dict[TopicPartition, str] = {}
        for name in self._files.list(directory):
            key = parse_partition_dir(name)
            if key is not None and self._files.is_dir(f"{directory}/{name}"):
                present[key] = f"{directory}/{name}"
            else:
                yield from self._other(directory, name)
        if not is_live:
            yield from reader.strangers(set(present))
        for key, path in present.items():
            yield from self._partition(path, key, facts.of(key), directory if is_live else None)

    def _other(self, directory: str, name: str) -> Iterator[Problem]:
        path = f"{directory}/{name}"
        for suffix, text in _GOING_DIRS.items():
            if name.endswith(suffix) and self._files.is_dir(path):
                yield Problem(path, None, Severity.NOTE, "leftover", text)
                return
        if name == BOOTSTRAP_FILE:
            try:
                yield from check_snapshot(self._files, path)
            except OSError as error:
                yield unreadable(path, "snapshot", error)
        elif name.endswith(TEMPORARY_SUFFIX):
            yield Problem(path, None, Severity.WARNING, "leftover", "was being written")
        elif kind_of(path) is None and name != LOCK_FILE:
            yield Problem(path, None, Severity.NOTE, "leftover", "is no file of a log directory")

    def _lone_partition(self, directory: str) -> Iterator[Problem]:
        parent, _, name = directory.rstrip("/").rpartition("/")
        parent = parent or "."
        key = parse_partition_dir(name)
        facts = PartitionFacts()
        live_in = None
        if key is not None and self._files.exists(f"{parent}/{META_PROPERTIES_FILE}"):
            is_live = self._is_live(parent)
            facts = self._facts(parent, is_live).of(key)
            live_in = parent if is_live else None
        yield from self._partition(directory, key or (name, 0), facts, live_in)

    def _facts(self, directory: str, is_live: bool) -> DirectoryFacts:
        return CheckpointReader(self._files, directory).facts(is_live=is_live)

    # -- one partition

    def _partition(
        self, path: str, key: TopicPartition, facts: PartitionFacts, live_in: str | None
    ) -> Iterator[Problem]:
        found = self._verify(path, key, facts)
        if live_in is None:
            yield from found
            return
        problems = list(found)
        if any(problem.is_problem for problem in problems):
            self._suspects.append((live_in, key))
        else:
            yield from problems

    def _verify(self, path: str, key: TopicPartition, facts: PartitionFacts) -> Iterator[Problem]:
        try:
            verifier = PartitionVerifier(
                self._files,
                path,
                facts,
                self.counts,
                is_deep=self._is_deep,
                progress=self._progress,
            )
            yield from verifier.run()
        except OSError as error:
            yield unreadable(error.filename or path, "file", error)
            return
        if verifier.topic_id is not None:
            yield from self._check_topic_id(path, key[0], verifier.topic_id)

    def _check_topic_id(self, path: str, topic: str, topic_id: Uuid) -> Iterator[Problem]:
        metadata = f"{path}/{PARTITION_METADATA_FILE}"
        known = self._metadata_ids.get(topic, topic_id)
        if known != topic_id:
            reason = f"topic id {topic_id}, but the metadata log has {known}"
            yield Problem(metadata, None, Severity.ERROR, "document", reason)
            return
        for other, (other_id, other_path) in self._topic_ids.items():
            if (other == topic) != (other_id == topic_id):
                reason = f"topic id {topic_id}, but {other_path} has {other_id}"
                yield Problem(metadata, None, Severity.ERROR, "document", reason)
                break
        self._topic_ids.setdefault(topic, (topic_id, path))

    def _look_again(self) -> Iterator[Problem]:
        """What a broker may have been writing while we read."""
        for directory, (topic, partition) in self._suspects:
            path = f"{directory}/{topic}-{partition}"
            problems: list[Problem] = []
            for _ in range(LOOKS_AGAIN):
                time.sleep(_PAUSE_S)
                if not self._files.is_dir(path):
                    problems = []
                    break
                facts = self._facts(directory, True).of((topic, partition))
                counts, self.counts = self.counts, Counts()
                problems = list(self._verify(path, (topic, partition), facts))
                self.counts = counts
                if not any(problem.is_problem for problem in problems):
                    break
            yield from problems
        self._suspects = []
