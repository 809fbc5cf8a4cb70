"""Finalized features, and the controllers' registrations that stand behind them."""

from __future__ import annotations

import pytest

from fencepost.machines.controller import controller
from fencepost.machines.controller.features import METADATA_FORMATS
from fencepost.machines.image import ClusterImage
from fencepost.sim.ablations import load_ablation
from fencepost.wire.api.controller_registration import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from fencepost.wire.api.unregister_broker import UnregisterBrokerRequest
from fencepost.wire.api.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records import metadata as records

from .controller_fixtures import Bench, uuid

UPGRADE, SAFE, UNSAFE = 1, 2, 3
REFUSED = int(ErrorCode.INVALID_UPDATE_VERSION)
LOWEST, HIGHEST = 7, 33


def bench_at(level: int = HIGHEST, features: dict[str, tuple[int, int]] | None = None) -> Bench:
    ranges = {"metadata.version": (LOWEST, HIGHEST), "kraft.version": (0, 1), **(features or {})}
    bench = Bench(node_id=1, supported_features=ranges)
    bench.apply([records.FeatureLevelRecord(name="metadata.version", feature_level=level)])
    return bench


def update(
    bench: Bench,
    *changes: tuple[str, int, int],
    version: int = 2,
    validate_only: bool = False,
    voters: tuple[int, ...] = (1,),
    kraft_version: int = 0,
) -> tuple[UpdateFeaturesResponse, int | None]:
    """The response to changes (feature, level, kind), and the kraft.version asked for."""
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(
                feature=name,
                max_version_level=level,
                upgrade_type=kind,
                allow_downgrade=kind != UPGRADE,
            )
            for name, level, kind in changes
        ],
        validate_only=validate_only,
    )
    reply: tuple[UpdateFeaturesResponse, int | None] = bench.do(
        bench.controller.decide_update_features(request, version, voters, kraft_version)
    )
    return reply


def level_of(bench: Bench, name: str = "metadata.version") -> int:
    return bench.controller.image.features.get(name, 0)


# -- the table -------------------------------------------------------------------------------------

NOW = 20


@pytest.mark.parametrize("kind", [0, UPGRADE, SAFE, UNSAFE, 4, -1])
@pytest.mark.parametrize(
    "level", [-1, 0, LOWEST - 1, LOWEST, 18, 19, NOW, 21, HIGHEST, HIGHEST + 1]
)
def test_a_level_of_the_metadata_version(level: int, kind: int) -> None:
    bench = bench_at(NOW)
    response, kraft_version = update(bench, ("metadata.version", level, kind))
    runs = LOWEST <= level <= HIGHEST
    is_lossless = not any(level < one <= NOW for one in METADATA_FORMATS)
    allowed = runs and (
        level == NOW
        if kind not in (UPGRADE, SAFE, UNSAFE)
        else (level >= NOW if kind == UPGRADE else level <= NOW and is_lossless)
    )
    allowed = allowed and kind in (UPGRADE, SAFE, UNSAFE)
    assert response.error_code == (0 if allowed else REFUSED)
    assert bool(response.error_message) is not allowed
    assert level_of(bench) == (level if allowed else NOW)
    assert kraft_version is None


@pytest.mark.parametrize("kind", [UPGRADE, SAFE, UNSAFE])
@pytest.mark.parametrize("level", [-1, 0, 1, 2, 3])
@pytest.mark.parametrize("now", [0, 1, 2])
def test_a_level_of_another_feature(now: int, level: int, kind: int) -> None:
    bench = bench_at(features={"some.version": (1, 2)})
    if now:
        assert update(bench, ("some.version", now, UPGRADE))[0].error_code == 0
    response, _ = update(bench, ("some.version", level, kind))
    allowed = 0 <= level <= 2 and (level >= now if kind == UPGRADE else level <= now)
    assert response.error_code == (0 if allowed else REFUSED)
    assert level_of(bench, "some.version") == (level if allowed else now)


@pytest.mark.parametrize("lost", METADATA_FORMATS)
def test_a_downgrade_that_may_lose_metadata_is_refused(lost: int) -> None:
    for kind, why in (
        (SAFE, "because it might delete metadata information."),
        (UNSAFE, "Unsafe metadata downgrade is not supported in this version."),
    ):
        bench = bench_at(lost)
        refused, _ = update(bench, ("metadata.version", lost - 1, kind))
        assert refused.error_code == REFUSED
        message = refused.error_message or ""
        assert f"metadata.version downgrade from {lost} to {lost - 1}." in message
        assert message.endswith(why)


def test_the_highest_level_without_new_records_can_be_left_downwards() -> None:
    bench = bench_at(29)
    assert update(bench, ("metadata.version", 23, SAFE))[0].error_code == 0
    assert level_of(bench) == 23


# -- who can run it --------------------------------------------------------------------------------


def test_an_unknown_feature_is_refused() -> None:
    response, _ = update(bench_at(), ("imaginary.version", 1, UPGRADE))
    assert response.error_code == REFUSED
    assert (response.error_message or "").endswith(
        "Invalid update version 1 for feature imaginary.version. Local controller 1 does not"
        " support this feature."
    )


def test_an_unknown_feature_is_refused_at_level_0_too() -> None:
    assert update(bench_at(), ("imaginary.version", 0, SAFE))[0].error_code == REFUSED


def test_a_broker_that_cannot_run_it_is_named() -> None:
    bench = bench_at(20, {"some.version": (1, 3)})
    bench.register(4)  # its features are those of the bench: metadata.version alone
    response, _ = update(bench, ("some.version", 1, UPGRADE))
    assert response.error_code == REFUSED
    assert "Broker 4 does not support this feature." in (response.error_message or "")


def controller_request(
    node: int, low: int = 7, high: int = HIGHEST
) -> ControllerRegistrationRequest:
    return ControllerRegistrationRequest(
        controller_id=node,
        incarnation_id=uuid(abs(node)),
        zk_migration_ready=True,
        listeners=[Listener(name="C", host=f"c{node}", port=9093, security_protocol=0)],
        features=[
            Feature(name="metadata.version", min_supported_version=low, max_supported_version=high)
        ],
    )


def test_a_controller_that_cannot_run_it_is_named() -> None:
    bench = bench_at(20)
    bench.do(bench.controller.decide_register_controller(controller_request(3, high=25)))
    response, _ = update(bench, ("metadata.version", 26, UPGRADE), voters=(1, 3))
    assert "Controller 3 only supports versions 7-25" in (response.error_message or "")
    assert update(bench, ("metadata.version", 25, UPGRADE), voters=(1, 3))[0].error_code == 0


def test_a_voter_that_has_not_registered_may_not_run_it() -> None:
    bench = bench_at(20)
    response, _ = update(bench, ("metadata.version", 21, UPGRADE), voters=(1, 2))
    assert response.error_code == REFUSED
    assert "controller 2 has not registered" in (response.error_message or "")
    bench.do(bench.controller.decide_register_controller(controller_request(2)))
    assert update(bench, ("metadata.version", 21, UPGRADE), voters=(1, 2))[0].error_code == 0


def test_where_controllers_do_not_register_they_are_not_asked() -> None:
    bench = bench_at(14)
    assert update(bench, ("metadata.version", 21, UPGRADE), voters=(1, 2))[0].error_code == 0


# -- the request as a whole ------------------------------------------------------------------------


def test_all_or_nothing() -> None:
    bench = bench_at(20, {"some.version": (1, 2)})
    response, _ = update(bench, ("metadata.version", 21, UPGRADE), ("some.version", 9, UPGRADE))
    assert response.error_code == REFUSED
    assert (level_of(bench), level_of(bench, "some.version")) == (20, 0)
    response, _ = update(bench, ("some.version", 2, UPGRADE), ("metadata.version", 21, UPGRADE))
    assert response.error_code == 0
    assert (level_of(bench), level_of(bench, "some.version")) == (21, 2)


def test_the_metadata_version_is_written_first() -> None:
    bench = bench_at(20, {"a.version": (1, 2)})
    before = len(bench.log)
    update(bench, ("a.version", 2, UPGRADE), ("metadata.version", 21, UPGRADE))
    names = [record.name for record in bench.log[before:]]  # type: ignore[attr-defined]
    assert names == ["metadata.version", "a.version"]


@pytest.mark.parametrize("version", [1, 2])
def test_only_to_validate(version: int) -> None:
    bench = bench_at(20)
    change = ("metadata.version", 21, UPGRADE)
    response, _ = update(bench, change, version=version, validate_only=True)
    assert response.error_code == 0
    assert level_of(bench) == 20
    wrong = ("metadata.version", 99, UPGRADE)
    assert update(bench, wrong, version=version, validate_only=True)[0].error_code == REFUSED


@pytest.mark.parametrize(("version", "has_results"), [(0, True), (1, True), (2, False)])
def test_results_per_feature_are_of_old_versions(version: int, has_results: bool) -> None:
    bench = bench_at(20)
    response, _ = update(bench, ("metadata.version", 21, UPGRADE), version=version)
    assert response.error_code == 0
    assert [one.feature for one in response.results] == ["metadata.version"] * has_results
    refused, _ = update(bench, ("metadata.version", 99, UPGRADE), version=version)
    assert (refused.error_code, refused.results) == (REFUSED, []), "the error stands at the top"


def test_in_v0_a_flag_allows_downgrades() -> None:
    bench = bench_at(22)
    assert update(bench, ("metadata.version", 21, SAFE), version=0)[0].error_code == 0
    assert update(bench, ("metadata.version", 20, UPGRADE), version=0)[0].error_code == REFUSED


def test_a_feature_named_twice_is_refused() -> None:
    bench = bench_at(20)
    twice = (("metadata.version", 21, UPGRADE), ("metadata.version", 22, UPGRADE))
    assert update(bench, *twice)[0].error_code == ErrorCode.INVALID_REQUEST
    assert level_of(bench) == 20


def test_nothing_to_change_is_no_mistake() -> None:
    bench = bench_at(20)
    assert update(bench)[0].error_code == 0


@pytest.mark.parametrize(
    ("now", "level", "kind", "error"),
    [
        (0, 1, UPGRADE, 0),
        (0, 0, UPGRADE, 0),
        (1, 1, UPGRADE, 0),
        (1, 0, UPGRADE, REFUSED),
        (1, 0, SAFE, REFUSED),
        (1, 0, UNSAFE, REFUSED),
        (0, 1, SAFE, REFUSED),
        (0, 2, UPGRADE, REFUSED),
    ],
)
def test_the_quorums_own_level_is_checked_and_not_written(
    now: int, level: int, kind: int, error: int
) -> None:
    bench = bench_at()
    before = len(bench.log)
    response, asked = update(bench, ("kraft.version", level, kind), kraft_version=now)
    assert response.error_code == error
    assert asked == (None if error else level)
    assert len(bench.log) == before


# -- registrations ---------------------------------------------------------------------------------


def test_a_controller_registers_and_registers_again() -> None:
    bench = bench_at()
    for incarnation in (7, 8):
        request = controller_request(2)
        request.incarnation_id = uuid(incarnation)
        reply = bench.do(bench.controller.decide_register_controller(request))
        assert (reply.error_code, reply.error_message) == (0, None)
        registered = bench.controller.image.controllers[2]
        assert registered.incarnation_id == uuid(incarnation)
        assert not registered.zk_migration_ready, "no controller migrates from ZooKeeper"
        assert [(e.name, e.host, e.port) for e in registered.listeners] == [("C", "c2", 9093)]


def test_an_old_metadata_version_has_no_controllers() -> None:
    bench = bench_at(14)
    reply = bench.do(bench.controller.decide_register_controller(controller_request(2)))
    assert reply.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert not bench.controller.image.controllers


def test_a_negative_id_is_no_controller() -> None:
    reply = bench_at().controller.decide_register_controller(controller_request(-1)).reply
    assert reply.error_code == ErrorCode.INVALID_REQUEST


def test_unregistering_says_what_became_of_it() -> None:
    bench = bench_at()
    bench.register(4)
    there = bench.do(bench.controller.decide_unregister(UnregisterBrokerRequest(broker_id=4)))
    assert (there.error_code, there.error_message) == (0, None)
    gone = bench.do(bench.controller.decide_unregister(UnregisterBrokerRequest(broker_id=4)))
    assert gone.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert gone.error_message == "Broker ID 4 is not currently registered"


def test_a_broker_of_too_many_partitions_is_not_unregistered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = bench_at()
    bench.brokers(1, 2)
    bench.create("t", assignments=[(0, [1, 2]), (1, [2, 1])])
    written = len(bench.log)
    monkeypatch.setattr(controller, "MAX_RECORDS", 2)
    request = UnregisterBrokerRequest(broker_id=1)
    reply = bench.do(bench.controller.decide_unregister(request))
    assert reply.error_code == ErrorCode.POLICY_VIOLATION
    assert reply.error_message == "Unable to perform excessively large batch operation."
    assert len(bench.log) == written and 1 in bench.image.brokers
    monkeypatch.setattr(controller, "MAX_RECORDS", 3)
    assert bench.do(bench.controller.decide_unregister(request)).error_code == 0
    assert 1 not in bench.image.brokers


# -- unfencing while others write (KAFKA-13959) ----------------------------------------------------


def test_a_broker_need_not_reach_the_end_of_a_busy_log() -> None:
    bench = bench_at()
    epoch = bench.register(4).broker_epoch
    for _ in range(50):
        bench.do(bench.controller.decide_no_op())
        reply = bench.heartbeat(4, current_metadata_offset=epoch)
    assert not reply.is_fenced
    assert bench.controller.image.offset > epoch, "it has not read all"


def test_a_broker_that_has_to_reach_the_end_never_does() -> None:
    bench = Bench(load_ablation("unfences-at-the-end").rules.controller)
    epoch = bench.register(4).broker_epoch
    for read in range(50):
        bench.do(bench.controller.decide_no_op())
        reply = bench.heartbeat(4, current_metadata_offset=epoch + read)
    assert reply.is_fenced, "one record behind, for ever"


def test_no_op_records_only_move_the_offset() -> None:
    bench = bench_at()
    before = bench.controller.image
    bench.do(bench.controller.decide_no_op())
    after = bench.controller.image
    assert after.offset == before.offset + 1
    assert after.features == before.features
    assert isinstance(bench.log[-1], records.NoOpRecord)
    assert isinstance(after, ClusterImage)
