"""The records of transactional ids, as `__transaction_state` has them.

A record is a transactional id with everything about it, or with nothing, which forgets it. Its
value is v0, which brokers since 0.11 read, or v1 (flexible, `transaction.version` 1 and up). A
record of another type or a later version is passed over (KIP-915): it is left from a newer broker.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from fencepost.machines.transaction.model import Transaction, from_value, value_of
from fencepost.wire.errors import DecodeError
from fencepost.wire.records.transaction import (
    TransactionLogKey,
    TransactionLogValue,
    UnknownRecordTypeError,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

FLEXIBLE_FROM: Final = 1
"""The level of `transaction.version` from which values are written as v1."""

_VERSION = Struct(">h")


class TransactionRecord(NamedTuple):
    """What a transactional id is from now on; None is a tombstone."""

    transactional_id: str
    transaction: Transaction | None
    value_version: int = 0


class TransactionCodec:
    """How they are written."""

    @staticmethod
    def encode(record: TransactionRecord) -> tuple[bytes, bytes | None]:
        """The bytes of a record.

        The record has all of the transactional id, the producer ids before and after it too, or the
        next coordinator gives the producer another id than it was told (KAFKA-20310).
        """
        key = encode_key(TransactionLogKey(transactional_id=record.transactional_id))
        if record.transaction is None:
            return key, None
        version = record.value_version
        return key, encode_value(value_of(record.transaction, version), version)

    @staticmethod
    def decode(key: bytes, value: bytes | None) -> TransactionRecord | None:
        """The record; None if it is of a kind or version that is not known. DecodeError."""
        try:
            decoded = decode_key(key)
        except UnknownRecordTypeError:
            return None
        assert isinstance(decoded, TransactionLogKey)
        if value is None:
            return TransactionRecord(decoded.transactional_id, None)
        if len(value) >= _VERSION.size:
            (version,) = _VERSION.unpack_from(value)
            if version > TransactionLogValue.max_version:
                return None
        fields = decode_value(decoded, value)
        assert isinstance(fields, TransactionLogValue)
        try:
            transaction = from_value(decoded.transactional_id, fields)
        except ValueError as error:
            raise DecodeError(f"{decoded.transactional_id}: {error}") from None
        return TransactionRecord(decoded.transactional_id, transaction)
