"""What can go wrong between client and cluster, one class per thing a caller does differently.

Every error says where it happened (`host`, `topic`, `partition`) as attributes and in its text, and
whether trying again can help (`retriable`). Raising is left to connection, cluster and the modules
above; nothing here knows a socket.
"""

from __future__ import annotations

from typing import ClassVar

from fencepost.wire.errors import ErrorCode, error_name, is_retriable


def refusal(code: int) -> str:
    """What a broker says with nothing but `code`, as the end of a sentence."""
    from fencepost.wire.error_meanings import meaning  # texts for people: for failures only

    text = meaning(code).removesuffix(".")
    return text[:1].lower() + text[1:]


class ClientError(Exception):
    """Base of all errors of this package.

    `host` is "host:port", `code` Kafka's error number when a broker named one.
    """

    always_retriable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        host: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.host = host
        self.topic = topic
        self.partition = partition
        self.code = code

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later, perhaps on another broker."""
        return self.always_retriable or (self.code is not None and is_retriable(self.code))

    def __str__(self) -> str:
        subject = self.topic or ""
        if self.partition is not None:
            subject = f"{subject}-{self.partition}" if subject else f"partition {self.partition}"
        parts = [part for part in (subject, f"at {self.host}" if self.host else "") if part]
        where = f"{' '.join(parts)}: " if parts else ""
        named = f" [{error_name(self.code)}]" if self.code is not None else ""
        return f"{where}{self.message}{named}"


class ConfigError(ClientError):
    """A client property is unknown or has a value it cannot have; the text names the key."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        super().__init__(f"{key}={value!r}: {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, object, str]]:
        return type(self), (self.key, self.value, self.allowed)


class ConnectionFailed(ClientError):
    """A broker could not be reached, or went away while something was in flight."""

    always_retriable = True


class RequestTimedOut(ClientError):
    """A broker did not answer in time; whether it carried out the request is unknown."""

    always_retriable = True


class ProtocolError(ClientError):
    """A peer sent something that is not Kafka's protocol; the connection is closed."""


class AuthenticationFailed(ClientError):
    """The broker refused the credentials, or could not prove that it knows them."""


class UnsupportedApi(ClientError):
    """Client and broker have no version of an API in common."""


class BrokerError(ClientError):
    """A broker answered with an error code."""

    @classmethod
    def of(
        cls,
        code: int,
        what: str,
        *,
        host: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> BrokerError:
        """The subclass that fits `code`, saying `what` was refused."""
        kind = _BY_CODE.get(code, BrokerError)
        return kind(what, host=host, topic=topic, partition=partition, code=code)


class UnknownTopic(BrokerError):
    """No such topic, partition or topic id in the cluster."""


class OffsetOutOfRange(BrokerError):
    """The offset asked for lies before the log's start or after its end."""


class DeadlineExceeded(ClientError):
    """Retrying stopped at the caller's deadline; `last` is the error met last."""

    def __init__(self, message: str, last: ClientError | None = None) -> None:
        super().__init__(
            message if last is None else f"{message}; last error: {last}",
            host=last.host if last else None,
            topic=last.topic if last else None,
            partition=last.partition if last else None,
        )
        self.last = last

    def __str__(self) -> str:
        return self.message  # the last error's own text already says where


class LogTruncated(ClientError):
    """The leader's log parts from what was read before: records at `diverging_offset` and after
    it have been replaced or lost since (KIP-320)."""

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        partition: int,
        offset: int,
        leader_epoch: int,
        diverging_epoch: int,
        diverging_offset: int,
    ) -> None:
        super().__init__(message, topic=topic, partition=partition)
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.diverging_epoch = diverging_epoch
        self.diverging_offset = diverging_offset


class DeliveryFailed(ClientError):
    """A batch was not acknowledged. `in_doubt` tells whether it may be in the log nevertheless."""

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        partition: int,
        in_doubt: bool,
        host: str | None = None,
        code: int | None = None,
    ) -> None:
        super().__init__(message, host=host, topic=topic, partition=partition, code=code)
        self.in_doubt = in_doubt


class TransactionError(ClientError):
    """Something of a transactional producer was refused; see the two subclasses. `cause` is the
    error behind it."""

    def __init__(self, message: str, cause: ClientError | None = None) -> None:
        super().__init__(
            message,
            host=cause.host if cause else None,
            topic=cause.topic if cause else None,
            partition=cause.partition if cause else None,
            code=cause.code if cause else None,
        )
        self.cause = cause

    @property
    def retriable(self) -> bool:
        """Never: what could be tried again has been."""
        return False

    def __reduce__(self) -> tuple[type[TransactionError], tuple[str, ClientError | None]]:
        return type(self), (self.message, self.cause)


class AbortableTransactionError(TransactionError):
    """The transaction cannot be committed: abort it, then the producer can begin another."""


class FatalTransactionError(TransactionError):
    """The producer is of no use any more; the coordinator ends what it left open."""


class ProducerFenced(FatalTransactionError):
    """Another producer has initialized the same transactional id since (or the coordinator has
    ended a transaction that took longer than `transaction.timeout.ms`)."""


_BY_CODE: dict[int, type[BrokerError]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopic,
    ErrorCode.UNKNOWN_TOPIC_ID: UnknownTopic,
    ErrorCode.INCONSISTENT_TOPIC_ID: UnknownTopic,
    ErrorCode.OFFSET_OUT_OF_RANGE: OffsetOutOfRange,
}
