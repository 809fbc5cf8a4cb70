"""DescribeClientQuotas, AlterClientQuotas (keys 48, 49) v0-1: quotas of users, client ids and IPs.

What is set is read from the metadata that this node has. To set something is the controller's
(`machines.controller.quotas`), to which a broker takes the request.
"""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.broker.cluster.controller_requests import decide_here, take_to_controller
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import BROKER, CONTROLLER, handles
from fencepost.machines.image.quotas import CLIENT_ID, IP, USER, QuotaEntity
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import DESCRIBE_CLUSTER_CONFIGS
from fencepost.wire.api.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryDataResponse,
)
from fencepost.wire.api.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from fencepost.wire.errors import ErrorCode

EXACT, DEFAULT, SPECIFIED = range(3)


@handles(DescribeClientQuotasRequest)
def handle_describe(
    context: RequestContext,
    request: DescribeClientQuotasRequest,
    *,
    access: Access,
    metadata: MetadataCache,
) -> DescribeClientQuotasResponse:
    """Find the entities that match the filter, or say what is wrong with it."""
    if refusal := access.refusal(context, DESCRIBE_CLUSTER_CONFIGS):
        return DescribeClientQuotasResponse(error_code=refusal, entries=None)
    if refused := _refusal_of(request):
        error, message = refused
        return DescribeClientQuotasResponse(error_code=error, error_message=message, entries=None)
    quotas = metadata.image.quotas
    return DescribeClientQuotasResponse(
        entries=[
            _entry(entity, quotas[entity])
            for entity in sorted(quotas, key=repr)
            if _matches(entity, request)
        ],
    )


def _entry(entity: QuotaEntity, values: Mapping[str, float]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
    )


def _matches(entity: QuotaEntity, request: DescribeClientQuotasRequest) -> bool:
    names = dict(entity)
    if request.strict and len(names) != len(request.components):
        return False
    return all(
        one.entity_type in names
        and (one.match_type == SPECIFIED or names[one.entity_type] == one.match)
        for one in request.components
    )


def _refusal_of(request: DescribeClientQuotasRequest) -> tuple[ErrorCode, str] | None:
    """Why the filter cannot be one."""
    seen: set[str] = set()
    for component in request.components:
        if refused := _refusal_of_component(component, seen):
            return refused
        seen.add(component.entity_type)
    if IP in seen and len(seen) > 1:
        return (
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should "
            "not be used with user or clientId filter component.",
        )
    return None


def _refusal_of_component(component: ComponentData, seen: set[str]) -> tuple[ErrorCode, str] | None:
    """Why a component of a filter, behind those of the types in `seen`, cannot be one."""
    kind, how = component.entity_type, component.match_type
    if not kind:
        return ErrorCode.INVALID_REQUEST, "Invalid empty entity type."
    if kind in seen:
        return (
            ErrorCode.INVALID_REQUEST,
            f"Entity type {kind} cannot appear more than once in the filter.",
        )
    if kind not in (USER, CLIENT_ID, IP):
        return ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}"
    if how not in (EXACT, DEFAULT, SPECIFIED):
        return ErrorCode.INVALID_REQUEST, f"Unknown match type {how}"
    if (how == EXACT) != (component.match is not None):
        name = ("MATCH_TYPE_EXACT", "MATCH_TYPE_DEFAULT", "MATCH_TYPE_SPECIFIED")[how]
        wrong = "set match string to null." if how == EXACT else "also specified a match string."
        return ErrorCode.INVALID_REQUEST, f"Request specified {name}, but {wrong}"
    return None


@handles(AlterClientQuotasRequest, listeners=(BROKER,), stores_text=True)
def handle(
    context: PendingRequest, request: AlterClientQuotasRequest, *, forwarder: Forwarder
) -> None:
    """Have the active controller decide."""
    take_to_controller(forwarder, context, request, _refused)


@handles(AlterClientQuotasRequest, listeners=(CONTROLLER,), stores_text=True)
def handle_here(
    context: PendingRequest, request: AlterClientQuotasRequest, *, controller: ControllerService
) -> None:
    """Let the controller decide; answer when that is committed."""
    decide_here(controller, context, request, _refused)


def _refused(request: AlterClientQuotasRequest, error: ErrorCode) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            EntryDataResponse(error_code=int(error), error_message=None, entity=entry.entity)
            for entry in request.entries
        ]
    )
