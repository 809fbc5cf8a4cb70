"""Client quotas: what is sampled, whose limit counts, and how long a client is throttled."""

from fencepost.machines.quota.clients import (
    Account,
    ClientAccounts,
    ClientQuotas,
    MutationQuota,
    RateQuota,
    Usage,
)
from fencepost.machines.quota.limits import Budget, Limits
from fencepost.machines.quota.rate import SampledRate, Windows
from fencepost.machines.quota.token_bucket import TokenBucket

__all__ = [
    "Account",
    "Budget",
    "ClientAccounts",
    "ClientQuotas",
    "Limits",
    "MutationQuota",
    "RateQuota",
    "SampledRate",
    "TokenBucket",
    "Usage",
    "Windows",
]
