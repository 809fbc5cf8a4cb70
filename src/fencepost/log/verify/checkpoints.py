"""The files of a log directory that are about all of it: checkpoints, identity, the marker."""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.log.checkpoints import TopicPartition, decode_offsets
from fencepost.log.dump.kinds import CLEANER_OFFSET_FILE
from fencepost.log.durable_end import decode_durable_end
from fencepost.log.errors import CorruptFileError
from fencepost.log.meta import MetaProperties, decode_clean_shutdown
from fencepost.log.names import (
    CLEAN_SHUTDOWN_FILE,
    DURABLE_END_SUFFIX,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_FILE,
    parse_partition_dir,
)
from fencepost.log.verify.facts import DirectoryFacts
from fencepost.log.verify.files import Files
from fencepost.log.verify.problems import Problem, Severity, unreadable


class CheckpointReader:
    """Reads what a log directory says; `problems` has what is wrong with how it says it."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self.problems: list[Problem] = []
        self.named: dict[str, set[TopicPartition]] = {}
        """The partitions of each file."""

    def facts(self, *, is_live: bool) -> DirectoryFacts:
        """What the files say of partitions."""
        is_clean = self._is_clean() and not is_live
        return DirectoryFacts(
            is_clean,
            self._recovery_points(),
            self._offsets(LOG_START_OFFSET_FILE),
            self._offsets(HIGH_WATERMARK_FILE),
            self._offsets(CLEANER_OFFSET_FILE),
        )

    def _is_clean(self) -> bool:
        path = f"{self._directory}/{CLEAN_SHUTDOWN_FILE}"
        try:
            epoch = decode_clean_shutdown(self._files.read(path))
        except FileNotFoundError:
            return False
        except CorruptFileError:
            epoch = None
        except OSError as error:
            self.problems.append(unreadable(path, "document", error))
            return False
        if epoch is None:
            reason = "cannot be read, so the next start takes it for an unclean end"
            self.problems.append(Problem(path, None, Severity.WARNING, "document", reason))
        return epoch is not None

    def _recovery_points(self) -> dict[TopicPartition, int]:
        """As they were checkpointed, or to the last flush where that is written down."""
        points = self._offsets(RECOVERY_POINT_FILE)
        for name in self._files.list(self._directory):
            key = parse_partition_dir(name.removesuffix(DURABLE_END_SUFFIX))
            if key is None or not name.endswith(DURABLE_END_SUFFIX):
                continue
            path = f"{self._directory}/{name}"
            try:
                points[key] = max(
                    points.get(key, 0), decode_durable_end(path, self._files.read(path))
                )
            except CorruptFileError as error:
                problem = Problem(path, None, Severity.WARNING, "checkpoint", error.reason)
                self.problems.append(problem)
            except OSError as error:
                self.problems.append(unreadable(path, "checkpoint", error))
            self.named[path] = {key}
        return points

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        path = f"{self._directory}/{name}"
        try:
            data = self._files.read(path)
            # Kafka makes the file when it starts, and writes to it later.
            offsets = decode_offsets(path, data) if data else {}
        except FileNotFoundError:
            return {}
        except CorruptFileError as error:
            self.problems.append(Problem(path, None, Severity.WARNING, "checkpoint", error.reason))
            return {}
        except OSError as error:
            self.problems.append(unreadable(path, "checkpoint", error))
            return {}
        self.named[path] = set(offsets)
        return offsets

    def strangers(self, present: set[TopicPartition]) -> Iterator[Problem]:
        """Partitions that a file names and that are not there."""
        for path, named in self.named.items():
            for topic, partition in sorted(named - present):
                reason = f"names {topic}-{partition}, which is not there"
                yield Problem(path, None, Severity.WARNING, "checkpoint", reason)


def read_identity(files: Files, directory: str) -> MetaProperties | Problem:
    """Whose directory it is, by `meta.properties`."""
    path = f"{directory}/{META_PROPERTIES_FILE}"
    try:
        return MetaProperties.decode(path, files.read(path))
    except FileNotFoundError:
        return Problem(path, None, Severity.ERROR, "document", "is not there")
    except CorruptFileError as error:
        return Problem(path, None, Severity.ERROR, "document", error.reason)
    except OSError as error:
        return unreadable(path, "document", error)


def compare_identities(identities: dict[str, MetaProperties]) -> Iterator[Problem]:
    """Directories of one node have its cluster and its number, and each an id of its own."""
    first: MetaProperties | None = None
    first_directory = ""
    ids: dict[object, str] = {}
    for directory, meta in identities.items():
        path = f"{directory}/{META_PROPERTIES_FILE}"
        if first is None:
            first, first_directory = meta, directory
        if (meta.cluster_id, meta.node_id) != (first.cluster_id, first.node_id):
            reason = (
                f"these are different nodes' directories: this one is of node {meta.node_id} of"
                f" cluster {meta.cluster_id}, and {first_directory} is of node {first.node_id} of"
                f" cluster {first.cluster_id}; check them one node at a time"
            )
            yield Problem(path, None, Severity.ERROR, "document", reason)
        if meta.directory_id is not None and meta.directory_id in ids:
            reason = f"has the directory id of {ids[meta.directory_id]}"
            yield Problem(path, None, Severity.ERROR, "document", reason)
        ids.setdefault(meta.directory_id, directory)
