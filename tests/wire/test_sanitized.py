"""The codec under AddressSanitizer and UndefinedBehaviorSanitizer: no byte out of bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

import fencepost.wire

from .. import sanitized
from .catalogue import CODECS

CODEC = Path(fencepost.wire.__file__).resolve().with_name("_codec.pyx")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif("c" not in CODECS, reason="only the compiled codec can"),
]


def test_nothing_is_read_or_written_out_of_bounds(tmp_path: Path):
    done = sanitized.run("tests.wire.exercise_codec", str(sanitized.build(CODEC, tmp_path)))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "all edges held" in done.stdout


PLANTED = {
    "read_length": (
        "_codec_read.pxi",
        "if c.end - c.pos < plain_width:",
        "if c.end - c.pos + 1 < plain_width:",
    ),
    "read_single": (
        "_codec_read.pxi",
        "if c.end - p < op.width:",
        "if c.end - p + 1 < op.width:",
    ),
    "write_tag_value": ("_codec_tags.pxi", "if need(s, width - 1) < 0:", "if need(s, 0) < 0:"),
}


@pytest.mark.parametrize("place", PLANTED)
def test_a_byte_too_many_would_be_noticed(place: str, tmp_path: Path):
    """The tester tested."""
    built = sanitized.build(CODEC, tmp_path, planted=PLANTED[place])
    done = sanitized.run("tests.wire.exercise_codec", str(built))
    assert done.returncode != 0
    assert "ERROR: AddressSanitizer" in done.stderr
