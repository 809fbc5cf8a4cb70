"""ACLs are added and removed (KIP-140, KIP-290): the checks of both, in Kafka's order.

An ACL that there is already, or that the request has twice, is a success and no record: there are
never two of the same (KAFKA-19347). What a request asks for is one batch; one that asks for more
than `MAX_ACLS` is refused as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from enum import IntEnum
from typing import Final

from fencepost.machines.authorizer.filters import AclFilter, AclLookup
from fencepost.machines.authorizer.hosts import RANGE, parsed_range
from fencepost.machines.controller.decision import TOO_MANY_RECORDS, Refused
from fencepost.machines.image import ClusterImage
from fencepost.machines.image.acls import (
    CLUSTER_NAME,
    UNKNOWN,
    WILDCARD,
    Acl,
    AclOperation,
    Pattern,
    PermissionType,
    ResourceType,
    is_known,
)
from fencepost.machines.image.persistent import PersistentMap
from fencepost.wire.api.create_acls import AclCreation, AclCreationResult, CreateAclsRequest
from fencepost.wire.api.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import RemoveAccessControlEntryRecord
from fencepost.wire.types import Uuid

MAX_ACLS: Final = 10_000
"""How many ACLs one request may add or remove, as in Kafka."""
TOLD_MAX: Final = 10 * MAX_ACLS
"""How many ACLs one answer may tell to have been removed, by all filters together."""
SCANS_MAX: Final = 100
"""How many filters of a request may name neither a resource nor a principal: for each of them all
ACLs are looked at."""
RANGES_SINCE: Final = 32
"""The `metadata.version` from which on hosts may be ranges: 4.4-IV1 (KIP-1276)."""
TOO_MANY_TO_REMOVE: Final = f"Cannot remove more than {MAX_ACLS} acls in a single delete operation."

Codes = tuple[int, int, int, int]
"""Of a creation: its resource type, pattern type, operation and permission. A request may have ten
thousand creations, and few combinations of these."""
_CODES: Final[tuple[tuple[type[IntEnum], str], ...]] = (
    (ResourceType, "resourceType"),
    (Pattern, "patternType"),
    (AclOperation, "operation"),
    (PermissionType, "permissionType"),
)
"""What they mean, and what messages call them."""


class PresentAcls:
    """Which ACLs there are in an image; follows it, so that asking costs what has changed."""

    def __init__(self) -> None:
        self._acls: PersistentMap[Uuid, Acl] = PersistentMap()
        self._counts: Counter[Acl] = Counter()

    def of(self, acls: PersistentMap[Uuid, Acl]) -> Container[Acl]:
        """Those of an image. An older log may have one under two ids."""
        for _, old, new in acls.changes_since(self._acls):
            if new is not None:
                self._counts[new] += 1
            if old is not None:
                self._counts[old] -= 1
                if not self._counts[old]:
                    del self._counts[old]
        self._acls = acls
        return self._counts


def create_acls(
    image: ClusterImage, present: PresentAcls, request: CreateAclsRequest, new_ids: Iterator[Uuid]
) -> tuple[list[AclCreationResult], list[Message]]:
    """A result for each creation, and the records: none if there would be too many, or if any code
    in the request is one that only filters have, which Kafka answers with an unknown error."""
    codes = {_codes_of(one) for one in request.creations}
    if any(map(_are_for_filters, codes)):
        failed = AclCreationResult(
            error_code=int(ErrorCode.UNKNOWN_SERVER_ERROR), error_message=None
        )
        return [failed] * len(request.creations), []
    unknown = {one: name for one in codes if (name := _unknown_code(one))}
    there, added = present.of(image.acls), set[Acl]()
    results: list[AclCreationResult] = []
    records: list[Message] = []
    for creation in request.creations:
        try:
            _check_name(creation)
            if unknown and (called := unknown.get(_codes_of(creation))):
                raise Refused(ErrorCode.INVALID_REQUEST, f"Invalid {called} {UNKNOWN}")
            acl = _checked(image, creation)
        except Refused as refused:
            results.append(
                AclCreationResult(error_code=int(refused.error), error_message=refused.message)
            )
            continue
        results.append(AclCreationResult())
        if acl not in there and acl not in added:
            added.add(acl)
            records.append(acl.to_record(_unused(new_ids, image)))
    if len(records) > MAX_ACLS:
        refused_all = AclCreationResult(
            error_code=int(ErrorCode.POLICY_VIOLATION), error_message=TOO_MANY_RECORDS
        )
        return [refused_all] * len(results), []
    return results, records


def _unused(new_ids: Iterator[Uuid], image: ClusterImage) -> Uuid:
    return next(one for one in new_ids if one not in image.acls)


def _codes_of(creation: AclCreation) -> Codes:
    return (
        creation.resource_type,
        creation.resource_pattern_type,
        creation.operation,
        creation.permission_type,
    )


def _are_for_filters(codes: Codes) -> bool:
    kind, pattern, operation, permission = codes
    return (
        kind == ResourceType.ANY
        or pattern in (Pattern.ANY, Pattern.MATCH)
        or operation == AclOperation.ANY
        or permission == PermissionType.ANY
    )


def _unknown_code(codes: Codes) -> str | None:
    """What messages call the first of the codes that means nothing."""
    pairs = zip(codes, _CODES, strict=True)
    return next((called for code, (known, called) in pairs if not is_known(known, code)), None)


def _check_name(creation: AclCreation) -> None:
    name = creation.resource_name
    if creation.resource_type == ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}",
        )
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Invalid empty resource name")


def _checked(image: ClusterImage, creation: AclCreation) -> Acl:
    """The ACL that is to be created. Raises Refused."""
    acl = Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.operation,
        creation.principal,
        creation.host,
        creation.permission_type,
    )
    if ":" not in acl.principal:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the"
            " principal type from the principal name)",
        )
    _check_host(image, acl.host)
    return acl


def _check_host(image: ClusterImage, host: str) -> None:
    if not host:
        raise Refused(ErrorCode.INVALID_REQUEST, "Host pattern cannot be null or empty")
    if host == WILDCARD or RANGE not in host:
        return
    if image.metadata_version < RANGES_SINCE:
        raise Refused(
            ErrorCode.UNSUPPORTED_VERSION,
            "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher.",
        )
    try:
        parsed_range(host)
    except ValueError as error:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"Invalid CIDR notation '{host}': {error}"
        ) from None


def delete_acls(
    image: ClusterImage, request: DeleteAclsRequest
) -> tuple[list[DeleteAclsFilterResult], list[Message]]:
    """A result for each filter, and a record for each ACL that one or several match; none if there
    would be too many, or too much to look at."""
    results: list[DeleteAclsFilterResult] = []
    removed: dict[Uuid, None] = {}
    lookup, told = AclLookup(image.acls.items()), 0
    for asked in request.filters:
        wanted = AclFilter.of(asked)
        unknown = wanted.unknown_part
        if unknown is not None:
            results.append(_refused(f"Unknown {unknown}."))
            continue
        found = lookup.find(wanted)
        told += len(found)
        removed.update((acl_id, None) for _, acl_id in found)
        if len(removed) > MAX_ACLS or told > TOLD_MAX or lookup.scanned > SCANS_MAX:
            return [_refused(TOO_MANY_TO_REMOVE) for _ in request.filters], []
        results.append(
            DeleteAclsFilterResult(
                error_message=None, matching_acls=[_told(acl) for acl, _ in found]
            )
        )
    return results, [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in removed]


def _refused(message: str) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=int(ErrorCode.INVALID_REQUEST), error_message=message)


def _told(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
