"""The part of `Admin` that is about security."""

from __future__ import annotations

from fencepost.client.acls import creating_acls, deleting_acls, describing_acls
from fencepost.client.client_quotas import altering_client_quotas, describing_client_quotas
from fencepost.client.cluster import Cluster
from fencepost.client.delegation_tokens import (
    creating_delegation_token,
    describing_delegation_tokens,
    expiring_delegation_token,
    renewing_delegation_token,
)
from fencepost.client.faces import blocking
from fencepost.client.scram_users import altering_scram_users, describing_scram_users


class SecurityAdmin:
    """ACLs, users who log in by SCRAM, quotas of clients and delegation tokens."""

    cluster: Cluster

    describe_acls = blocking(describing_acls)
    create_acls = blocking(creating_acls)
    delete_acls = blocking(deleting_acls)
    describe_user_scram_credentials = blocking(describing_scram_users)
    alter_user_scram_credentials = blocking(altering_scram_users)
    describe_client_quotas = blocking(describing_client_quotas)
    alter_client_quotas = blocking(altering_client_quotas)
    create_delegation_token = blocking(creating_delegation_token)
    renew_delegation_token = blocking(renewing_delegation_token)
    expire_delegation_token = blocking(expiring_delegation_token)
    describe_delegation_token = blocking(describing_delegation_tokens)
