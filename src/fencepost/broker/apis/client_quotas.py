"""DescribeClientQuotas, AlterClientQuotas (keys 48, 49) v0-1: there are none, and none can be set.

No client is throttled, so no quota is in force, and DescribeClientQuotas finds none; a filter that
cannot be one is refused as by Kafka. To set a quota is UNSUPPORTED_VERSION, entity by entity: Kafka
stores it, but a quota that is stored and not obeyed would be a promise that is not kept. To remove
one is 0, as in Kafka where there is none.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.net.registry import BROKER, CONTROLLER, handles
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import ALTER_CLUSTER_CONFIGS, DESCRIBE_CLUSTER_CONFIGS
from fencepost.wire.api.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryDataRequest,
    EntryDataResponse,
)
from fencepost.wire.api.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from fencepost.wire.errors import ErrorCode

USER, CLIENT_ID, IP = "user", "client-id", "ip"
EXACT, DEFAULT, SPECIFIED = range(3)
NOT_OFFERED: Final = "Client quotas are not offered: this broker throttles no client."


@handles(DescribeClientQuotasRequest)
def handle_describe(
    context: RequestContext, request: DescribeClientQuotasRequest, *, access: Access
) -> DescribeClientQuotasResponse:
    """Find none, or say what is wrong with the filter."""
    if refusal := access.refusal(context, DESCRIBE_CLUSTER_CONFIGS):
        return DescribeClientQuotasResponse(error_code=refusal, entries=None)
    seen: set[str] = set()
    for component in request.components:
        refused = _refusal_of(component, seen)
        if refused is not None:
            error, message = refused
            return DescribeClientQuotasResponse(
                error_code=error, error_message=message, entries=None
            )
        seen.add(component.entity_type)
    if IP in seen and len(seen) > 1:
        return DescribeClientQuotasResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="Invalid entity filter component combination. IP filter component should "
            "not be used with user or clientId filter component.",
            entries=None,
        )
    return DescribeClientQuotasResponse()


def _refusal_of(component: ComponentData, seen: set[str]) -> tuple[ErrorCode, str] | None:
    """Why a component of a filter, behind those of the types in `seen`, cannot be one."""
    kind, how = component.entity_type, component.match_type
    if not kind:
        return ErrorCode.INVALID_REQUEST, "Invalid empty entity type."
    if kind in seen:
        return (
            ErrorCode.INVALID_REQUEST,
            f"Entity type {kind} cannot appear more than once in the filter.",
        )
    if how not in (EXACT, DEFAULT, SPECIFIED):
        return ErrorCode.INVALID_REQUEST, f"Unknown match type {how}"
    if (how == EXACT) != (component.match is not None):
        name = ("MATCH_TYPE_EXACT", "MATCH_TYPE_DEFAULT", "MATCH_TYPE_SPECIFIED")[how]
        wrong = "set match string to null." if how == EXACT else "also specified a match string."
        return ErrorCode.INVALID_REQUEST, f"Request specified {name}, but {wrong}"
    if kind not in (USER, CLIENT_ID, IP):
        return ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}"
    return None


@handles(AlterClientQuotasRequest, listeners=(BROKER, CONTROLLER))
def handle_alter(
    context: RequestContext, request: AlterClientQuotasRequest, *, access: Access
) -> AlterClientQuotasResponse:
    """Refuse each entity for which a quota is to be set."""
    if refusal := access.refusal(context, ALTER_CLUSTER_CONFIGS):
        return AlterClientQuotasResponse(
            entries=[
                EntryDataResponse(error_code=refusal, error_message=None, entity=entry.entity)
                for entry in request.entries
            ]
        )
    return AlterClientQuotasResponse(entries=[_answer(entry) for entry in request.entries])


def _answer(entry: EntryDataRequest) -> EntryDataResponse:
    if all(op.remove for op in entry.ops):
        return EntryDataResponse(error_message=None, entity=entry.entity)
    return EntryDataResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=NOT_OFFERED, entity=entry.entity
    )
