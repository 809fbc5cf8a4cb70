"""Archives of topics: written by Spark, exactly once, compacted, verified, replayed into topics."""

from fencepost.arrow.archive.layout import ArchiveError as ArchiveError, Layout as Layout
from fencepost.spark.archive.batches import Written as Written
from fencepost.spark.archive.checking import status as status, verify as verify
from fencepost.spark.archive.compaction import compact as compact
from fencepost.spark.archive.comparing import compare as compare
from fencepost.spark.archive.offset_map import translate as translate
from fencepost.spark.archive.query import archive_topics as archive_topics
from fencepost.spark.archive.replaying import read_offsets as read_offsets, replay as replay
from fencepost.spark.archive.running import here as here, in_tasks as in_tasks
