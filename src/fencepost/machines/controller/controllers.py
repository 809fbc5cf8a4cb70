"""Controllers say what they are and what they can run (KIP-919).

There is no session behind it: the registration of a controller holds until the controller registers
again or an operator removes it (KIP-1312). By it clients find the controllers, and features are not
raised beyond what every controller runs.
"""

from __future__ import annotations

from fencepost.machines.controller.config import METADATA_VERSION_FEATURE
from fencepost.machines.controller.decision import Refused
from fencepost.machines.controller.features import (
    CONTROLLER_REGISTRATION_LEVEL,
    CONTROLLER_UNREGISTRATION_LEVEL,
)
from fencepost.machines.controller.registration_limits import reason_it_is_too_large
from fencepost.machines.image import ClusterImage
from fencepost.wire.api.controller_registration import ControllerRegistrationRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.metadata import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
    UnregisterControllerRecord,
)


def controller_registration_record(
    image: ClusterImage, request: ControllerRegistrationRequest
) -> RegisterControllerRecord:
    """The record of a registration. Raises Refused with UNSUPPORTED_VERSION, INVALID_REQUEST."""
    if image.features.get(METADATA_VERSION_FEATURE, 0) < CONTROLLER_REGISTRATION_LEVEL:
        raise Refused(
            ErrorCode.UNSUPPORTED_VERSION,
            "metadata.version is too old to have controllers register",
        )
    if request.controller_id < 0:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{request.controller_id} is no node id")
    reason = reason_it_is_too_large(request)
    if reason is not None:
        raise Refused(ErrorCode.INVALID_REQUEST, reason)
    return RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(
                name=item.name,
                host=item.host,
                port=item.port,
                security_protocol=item.security_protocol,
            )
            for item in request.listeners
        ],
        features=[
            ControllerFeature(
                name=item.name,
                min_supported_version=item.min_supported_version,
                max_supported_version=item.max_supported_version,
            )
            for item in request.features
        ],
    )


def unregister_controller_record(
    image: ClusterImage, active_id: int, controller_id: int
) -> UnregisterControllerRecord:
    """The record that removes a registration. Raises Refused with INVALID_REQUEST for the active
    controller, UNSUPPORTED_VERSION, CONTROLLER_ID_NOT_REGISTERED, in Kafka's order (KIP-1312)."""
    if controller_id == active_id:
        raise Refused(
            ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active."
        )
    if image.features.get(METADATA_VERSION_FEATURE, 0) < CONTROLLER_UNREGISTRATION_LEVEL:
        raise Refused(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller unregistration.",
        )
    if controller_id not in image.controllers:
        raise Refused(
            ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
            f"Controller ID {controller_id} is not currently registered.",
        )
    return UnregisterControllerRecord(controller_id=controller_id)
