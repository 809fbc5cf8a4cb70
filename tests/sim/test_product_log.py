"""What the product logs in a run: unforeseen errors fail it; afterwards the log is as before."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator

import pytest

from fencepost.log.errors import LogError
from fencepost.sim.oracle import Violation
from fencepost.sim.product_log import unforeseen_errors_fail

PRODUCT = logging.getLogger("fencepost")
PART = logging.getLogger("fencepost.part")


@pytest.fixture
def info() -> Iterator[None]:
    """The product's log writes lines of INFO."""
    before = PRODUCT.level
    PRODUCT.setLevel(logging.INFO)
    yield
    PRODUCT.setLevel(before)


def log_with(error: Exception) -> None:
    PART.error("it failed", exc_info=error)


def test_an_unforeseen_error_fails_the_run() -> None:
    with unforeseen_errors_fail(), pytest.raises(Violation, match="it failed: KeyError: 'x'"):
        log_with(KeyError("x"))


@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), LogError("damaged")])
def test_what_faults_bring_about_is_for_other_checks(error: Exception) -> None:
    with unforeseen_errors_fail():
        log_with(error)
        PART.error("without an error")


@pytest.mark.usefixtures("info")
def test_nothing_is_printed_in_a_run_and_all_is_as_before_afterwards(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = PRODUCT.propagate, list(PRODUCT.handlers)
    with unforeseen_errors_fail():
        assert not PART.isEnabledFor(logging.INFO)
        log_with(OSError(errno.EIO, "broken"))
    assert not caplog.records
    assert (PRODUCT.propagate, list(PRODUCT.handlers)) == before
    PART.info("printed again")
    assert [record.getMessage() for record in caplog.records] == ["printed again"]
