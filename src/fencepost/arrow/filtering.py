"""Filters of a read: what they say about which offsets can match, and what is applied to rows.

As a list of `(column, operator, value)`, all of which must hold, or a list of such lists, one of
which must (the form of `pyarrow.parquet.read_table`). From comparisons of topic, partition, offset,
and lower bounds of the timestamp follows which offsets need not be fetched; an upper bound of the
timestamp says nothing, because producers' timestamps need not grow. All of them are applied to the
rows by Arrow; a key or value that is null passes none. An expression of `pyarrow.compute` narrows
nothing, because Arrow does not show what it says, and is applied to the rows alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.arrow.bounds import EPOCH
from fencepost.arrow.errors import ArgumentError
from fencepost.arrow.narrowing import Narrowing

Filters: TypeAlias = Any
"""A list as above, an expression, or None."""
_COMPARE: Final = {
    "=": lambda field, value: field == value,
    "==": lambda field, value: field == value,
    "!=": lambda field, value: field != value,
    "<": lambda field, value: field < value,
    "<=": lambda field, value: field <= value,
    ">": lambda field, value: field > value,
    ">=": lambda field, value: field >= value,
}
_MEMBER: Final = ("in", "not in")
OPERATORS: Final = (*_COMPARE, *_MEMBER)
_FORM: Final = (
    "must be tuples (column, operator, value), all of which hold, lists of them, one of which "
    "holds, or an expression of pyarrow.compute"
)
TERMS_MAX: Final = 1000
"""Arrow goes down a chain of comparisons by recursion: tens of thousands end the process."""
_INT64: Final = range(-(2**63), 2**63)


@dataclass(frozen=True)
class Term:
    """One comparison; `values` has several only for "in" and "not in"."""

    column: str
    operator: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class RowFilter:
    """What rows must meet (None: nothing), the columns needed to tell, and where to look."""

    expression: pc.Expression | None
    columns: frozenset[str]
    narrowing: Narrowing


def parse_filters(filters: Filters, schema: pa.Schema) -> RowFilter:
    """The filter of a read whose columns, chosen or not, are of `schema`. ArgumentError."""
    if filters is None:
        return RowFilter(None, frozenset(), Narrowing())
    if isinstance(filters, pc.Expression):
        return RowFilter(filters, _columns_of(filters, schema), Narrowing())
    if sum(map(len, _lists(filters))) > TERMS_MAX:
        allowed = f"must be {TERMS_MAX} comparisons at most; for many values there is 'in'"
        raise ArgumentError("filters", "", allowed)
    any_of = [[_term(term, filters, schema) for term in terms] for terms in _lists(filters)]
    whole: pc.Expression | None = None
    for terms in any_of:
        expression = _all_of(terms, schema)
        whole = expression if whole is None else whole | expression
    columns = frozenset(term.column for terms in any_of for term in terms)
    return RowFilter(whole, columns, _union([_narrowed(terms) for terms in any_of]))


def _lists(filters: object) -> list[Sequence[Any]]:
    if isinstance(filters, str | bytes) or not isinstance(filters, Sequence) or not filters:
        raise ArgumentError("filters", filters, _FORM)
    if all(isinstance(one, tuple) for one in filters):
        return [filters]
    if all(isinstance(one, list) and one for one in filters):
        return list(filters)
    raise ArgumentError("filters", filters, _FORM)


def _columns_of(expression: pc.Expression, schema: pa.Schema) -> frozenset[str]:
    """Those that Arrow does not find where it is to apply the expression without them."""
    empty = schema.empty_table()
    _applied(empty, expression)
    needed = set()
    for name in schema.names:
        try:
            empty.drop_columns([name]).filter(expression)
        except pa.ArrowInvalid:
            needed.add(name)
    return frozenset(needed)


def _applied(table: pa.Table, expression: pc.Expression) -> pa.Table:
    try:
        return table.filter(expression)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ArgumentError("filters", expression, str(error).split("\n")[0]) from error


def _term(given: Any, filters: object, schema: pa.Schema) -> Term:
    if not isinstance(given, tuple) or len(given) != 3:
        raise ArgumentError("filters", filters, _FORM)
    column, operator, value = given
    if column not in schema.names or column == "headers":
        names = ", ".join(name for name in schema.names if name != "headers")
        raise ArgumentError("filters", given, f"a column must be one of {names}")
    if operator not in OPERATORS:
        raise ArgumentError("filters", given, f"an operator must be one of {', '.join(OPERATORS)}")
    values = [value]
    if operator in _MEMBER:
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise ArgumentError("filters", given, f"{operator!r} needs several values")
        values = list(value)
    kind = schema.field(column).type
    return Term(column, operator, tuple(_checked(one, kind, given) for one in values))


def _checked(value: Any, kind: pa.DataType, given: object) -> Any:
    """The value as one of the column's type."""
    if isinstance(value, str) and not _is_text(value):
        raise ArgumentError("filters", given, "the value has half a surrogate pair")
    if pa.types.is_binary(kind):
        if isinstance(value, bytes | str):
            return value if isinstance(value, bytes) else value.encode()
        raise ArgumentError("filters", given, "the value must be bytes or a text")
    if pa.types.is_string(kind):
        if isinstance(value, str):
            return value
        raise ArgumentError("filters", given, "the value must be a text")
    if pa.types.is_timestamp(kind):
        if isinstance(value, datetime) and value.tzinfo is not None:
            return value
        raise ArgumentError("filters", given, "the value must be a datetime with a time zone")
    if type(value) is int and value in _INT64:
        return value
    raise ArgumentError("filters", given, "the value must be a whole number of 64 bits")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _all_of(terms: Sequence[Term], schema: pa.Schema) -> pc.Expression:
    whole: pc.Expression | None = None
    for term in terms:
        expression = _expression(term, schema.field(term.column).type)
        whole = expression if whole is None else whole & expression
    assert whole is not None
    return whole


def _expression(term: Term, kind: pa.DataType) -> pc.Expression:
    # Partitions are compared as 64 bits: a number that no int32 holds is no error, just no match.
    wide = pa.int64() if pa.types.is_integer(kind) else kind
    field = pc.field(term.column)
    if term.operator in _MEMBER:
        found = field.cast(wide).isin(pa.array(term.values, wide))
        return found if term.operator == "in" else ~found & field.is_valid()
    return _COMPARE[term.operator](field, pc.scalar(pa.scalar(term.values[0], wide)))


def _narrowed(terms: Iterable[Term]) -> Narrowing:
    narrowing = Narrowing()
    for term in terms:
        if not term.values or term.operator in ("!=", "not in"):
            continue
        least, most = min(term.values), max(term.values)
        if term.column == "offset":
            _narrow_offset(narrowing, term.operator, least, most)
        elif term.column == "timestamp" and term.operator not in ("<", "<="):
            # Rounded down to a millisecond: Kafka's times have no finer parts.
            narrowing.since(max(0, (least - EPOCH) // timedelta(milliseconds=1)))
        elif term.column == "topic" and term.operator in ("=", "==", "in"):
            narrowing.of_topics(frozenset(term.values))
        elif term.column == "partition" and term.operator in ("=", "==", "in"):
            narrowing.of_partitions(frozenset(term.values))
    return narrowing


def _narrow_offset(narrowing: Narrowing, operator: str, least: int, most: int) -> None:
    if operator in ("=", "==", "in", ">="):
        narrowing.at_least(least)
    if operator in ("=", "==", "in", "<="):
        narrowing.at_most(most)
    if operator == ">":
        narrowing.at_least(least + 1)
    if operator == "<":
        narrowing.at_most(most - 1)


def _union(narrowings: Sequence[Narrowing]) -> Narrowing:
    """What every record meets that meets one of them."""
    times = [one.least_timestamp_ms for one in narrowings]
    topics = [one.topics for one in narrowings]
    partitions = [one.partitions for one in narrowings]
    return Narrowing(
        min(one.least_offset for one in narrowings),
        max(one.most_offset for one in narrowings),
        None if None in times else min(time for time in times if time is not None),
        None if None in topics else frozenset().union(*(one for one in topics if one)),
        None if None in partitions else frozenset().union(*(one for one in partitions if one)),
    )
