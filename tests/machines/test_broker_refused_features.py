"""What an operator is told of a cluster whose finalized features a broker does not run."""

from __future__ import annotations

import pytest

from fencepost.machines.broker.refused_features import advice, levels_to_lower
from fencepost.machines.image import FeatureRange
from fencepost.wire.api.broker_registration import BrokerRegistrationResponse
from fencepost.wire.errors import ErrorCode

from .broker_fixtures import LifecycleFixture, MetadataApplied, image

OFFERED = (FeatureRange("metadata.version", 7, 30), FeatureRange("eligible", 0, 1))
REFUSED = BrokerRegistrationResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)


@pytest.mark.parametrize(
    ("finalized", "lower"),
    [
        ({}, {}),
        ({"metadata.version": 30, "eligible": 1}, {}),
        ({"eligible": 2}, {"eligible": (2, 1)}),
        ({"metadata.version": 31, "share.version": 1}, {"metadata.version": (31, 30),
                                                        "share.version": (1, 0)}),
        ({"share.version": 0}, {}),
    ],
)  # fmt: skip
def test_levels_above_what_is_offered_are_to_be_lowered(finalized, lower):
    assert levels_to_lower(finalized, OFFERED) == lower
    assert bool(advice(finalized, OFFERED)) == bool(lower)


def test_the_advice_is_a_command():
    told = advice({"group.version": 1, "share.version": 1}, OFFERED)
    assert told.startswith("the cluster has finalized group.version 1, share.version 1, which")
    assert "`fencepost features downgrade group.version=0 share.version=0`" in told


def test_a_refusal_waits_for_the_metadata_that_tell_what_is_lacking():
    broker = LifecycleFixture()
    broker.start()
    broker.answer(REFUSED)
    assert broker.replies == [], "it is not known yet which feature it is"
    broker.step(MetadataApplied(image(1, level=34)))
    broker.advance(100)
    broker.answer(REFUSED)
    ((_, outcome),) = broker.replies
    assert outcome.error == ErrorCode.UNSUPPORTED_VERSION
    assert "metadata.version 34, which this broker does not run" in outcome.reason


def test_a_refusal_that_metadata_do_not_explain_ends_the_start_all_the_same():
    broker = LifecycleFixture()
    broker.start()
    broker.step(MetadataApplied(image(1)))
    broker.answer(REFUSED)
    ((_, outcome),) = broker.replies
    assert outcome.reason == "registration refused: UNSUPPORTED_VERSION"
