"""The kernels trust no buffer: one that is a byte too short is refused before it is touched.

Their callers pass what Arrow and NumPy made, of the right size; these tests pass what a mistake in
a caller would.
"""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from fencepost.batch import backend

from .samples import RECORDS, build, many

ROWS = 9
"""One more than a byte of a bitmap has bits."""


@pytest.fixture
def kernels(backend_name: str) -> Any:
    if backend_name != "c":
        pytest.skip("only the kernels take buffers")
    return backend.kernels


def ends(count: int, step: int = 1) -> bytearray:
    return bytearray(array("i", range(0, step * (count + 1), step)).tobytes())


def column(count: int = ROWS) -> list[Any]:
    """Ends, data, valid and offset of `count` values of one byte each."""
    return [ends(count), bytearray(b"x" * count), bytearray(b"\xff" * ((count + 7) // 8)), 0]


def encoder_arguments() -> dict[str, Any]:
    return {
        "key": column(),
        "value": column(),
        "timestamps": bytearray(8 * ROWS),
        "headers": [ends(ROWS), bytearray(b"\xff\xff"), 0, column(), ROWS, column()],
        "order": bytearray(array("i", range(ROWS)).tobytes()),
    }


def make_encoder(kernels: Any, arguments: dict[str, Any]) -> Any:
    key, value, headers = (tuple(arguments[name]) for name in ("key", "value", "headers"))
    keys, count, values = headers[3:]
    headers = (*headers[:3], tuple(keys), count, tuple(values))
    return kernels.RowEncoder(
        ROWS, key, value, arguments["timestamps"], headers, arguments["order"]
    )


def test_buffers_of_the_right_size_are_taken(kernels: Any):
    encoder = make_encoder(kernels, encoder_arguments())
    assert encoder.plan_batch(0, ROWS, 10_000)[0] == ROWS
    assert len(encoder.write_batch(0)) == encoder.plan_batch(0, ROWS, 10_000)[1]


@pytest.mark.parametrize(
    "place",
    [
        *[(name, index) for name in ("key", "value") for index in (0, 1, 2)],
        *[("headers", index) for index in (0, 1)],
        *[("headers", part, index) for part in (3, 5) for index in (0, 1, 2)],
        ("timestamps",),
        ("order",),
    ],
    ids=str,
)
def test_a_column_that_is_a_byte_too_short_is_refused(kernels: Any, place: tuple[Any, ...]):
    arguments: Any = encoder_arguments()
    buffer = arguments
    for step in place:
        buffer = buffer[step]
    del buffer[-1]
    with pytest.raises(ValueError, match=f"a buffer of {len(buffer)} bytes should have"):
        make_encoder(kernels, arguments)


def test_more_headers_than_there_are_header_keys_are_refused(kernels: Any):
    arguments = encoder_arguments()
    arguments["headers"][4] = ROWS - 1
    with pytest.raises(ValueError, match="more headers than header keys"):
        make_encoder(kernels, arguments)


@pytest.mark.parametrize(("begin", "end"), [(-1, 1), (0, 0), (3, 2), (0, ROWS + 1), (ROWS, ROWS)])
def test_rows_that_are_not_there_are_refused(kernels: Any, begin: int, end: int):
    encoder = make_encoder(kernels, encoder_arguments())
    with pytest.raises(ValueError, match=f"rows {begin} to {end} of {ROWS}"):
        encoder.plan_batch(begin, end, 10_000)


def test_columns_that_change_while_they_are_written_are_noticed(kernels: Any):
    arguments = encoder_arguments()
    encoder = make_encoder(kernels, arguments)
    encoder.plan_batch(0, ROWS, 10_000)
    arguments["value"][2][:] = bytes(2)  # all values are null now
    with pytest.raises(AssertionError, match="changed while they were written"):
        encoder.write_batch(0)


def scanner_of(kernels: Any) -> Any:
    scanner = kernels.RowScanner(
        many(1, 3, ROWS),
        *(0, 2**62, 1000, 1 << 20),
        want_headers=True,
        want_micros=True,
        check_crc=True,
        ask_transactional=False,
    )
    assert scanner.advance() == kernels.END
    return scanner


def fill_sizes(scanner: Any) -> dict[str, tuple[int, ...]]:
    """For each part the sizes of ends, data and validity."""
    (keys, _), (values, _), (headers, _, _), (header_keys, _), (header_values, _) = scanner.sizes()
    rows = scanner.row_count
    of_rows, of_headers = (4 * (rows + 1), (rows + 7) // 8), (4 * (headers + 1), (headers + 7) // 8)
    return {
        "keys": (of_rows[0], keys, of_rows[1]),
        "values": (of_rows[0], values, of_rows[1]),
        "header keys": (of_headers[0], header_keys, of_headers[1]),
        "header values": (of_headers[0], header_values, of_headers[1]),
    }


@pytest.mark.parametrize("part", ["keys", "values", "header keys", "header values"])
@pytest.mark.parametrize("short", [0, 1, 2])
def test_a_target_that_is_a_byte_too_short_is_refused(kernels: Any, part: str, short: int):
    scanner = scanner_of(kernels)
    sizes = fill_sizes(scanner)[part]
    how = (part.startswith("header"), part.endswith("values"))
    scanner.fill_pairs(*how, *(bytearray(size) for size in sizes))
    targets = [bytearray(size - (index == short)) for index, size in enumerate(sizes)]
    with pytest.raises(ValueError, match=f"{sizes[short]} bytes do not fit"):
        scanner.fill_pairs(*how, *targets)


@pytest.mark.parametrize("part", ["keys", "values", "header keys", "header values", "lists"])
def test_nothing_is_left_of_what_was_in_a_target(kernels: Any, part: str):
    """Arrow's memory is not cleared, and a bit of validity that is left makes a value of a null."""
    scanner = scanner_of(kernels)
    rows = scanner.row_count
    sizes = {**fill_sizes(scanner), "lists": (4 * (rows + 1), (rows + 7) // 8)}[part]
    found = []
    for byte in (b"\0", b"\xff"):
        targets = [bytearray(byte * size) for size in sizes]
        if part == "lists":
            scanner.fill_lists(*targets)
        else:
            scanner.fill_pairs(part.startswith("header"), part.endswith("values"), *targets)
        found.append(targets)
    assert found[0] == found[1]


@pytest.mark.parametrize("short", [0, 1, 2])
def test_a_target_for_numbers_that_is_a_byte_too_short_is_refused(kernels: Any, short: int):
    scanner = scanner_of(kernels)
    sizes = [width * scanner.row_count for width in (8, 8, 4)]
    targets = [bytearray(size - (index == short)) for index, size in enumerate(sizes)]
    with pytest.raises(ValueError, match=f"{sizes[short]} bytes do not fit"):
        scanner.fill_numbers(*targets)


@pytest.mark.parametrize("short", [0, 1])
def test_a_target_for_lists_that_is_a_byte_too_short_is_refused(kernels: Any, short: int):
    scanner = scanner_of(kernels)
    sizes = [4 * (scanner.row_count + 1), (scanner.row_count + 7) // 8]
    targets = [bytearray(size - (index == short)) for index, size in enumerate(sizes)]
    with pytest.raises(ValueError, match=f"{sizes[short]} bytes do not fit"):
        scanner.fill_lists(*targets)


def test_a_batch_is_passed_only_where_a_whole_one_is(kernels: Any):
    whole = bytes(build(RECORDS[:1]))
    for blob in (whole[:-1], whole[:60], b"", whole[:61]):
        scanner = kernels.RowScanner(
            blob,
            *(0, 2**62, 1000, 1 << 20),
            want_headers=False,
            want_micros=False,
            check_crc=False,
            ask_transactional=False,
        )
        with pytest.raises(ValueError, match="no whole batch"):
            scanner.skip_batch()
        assert scanner.position == 0


@pytest.mark.parametrize("bad", [-1, 3, -(2**31), 2**31 - 1])
def test_partitions_that_are_not_there_are_not_sorted(kernels: Any, bad: int):
    order, edges = bytearray(4 * 3), bytearray(8 * 3)
    assert kernels.order_by_partition(array("i", [0, 2, 1]), 3, 3, edges, order)
    assert list(array("i", bytes(order))) == [0, 2, 1]
    for place in range(3):
        numbers = array("i", [0, 1, 2])
        numbers[place] = bad
        assert not kernels.order_by_partition(numbers, 3, 3, edges, order)


def test_targets_of_partitions_are_checked(kernels: Any):
    numbers = array("i", [0, 2, 1])
    for edges, order in ((bytearray(23), bytearray(12)), (bytearray(24), bytearray(11))):
        with pytest.raises(ValueError, match="do not fit"):
            kernels.order_by_partition(numbers, 3, 3, edges, order)
    with pytest.raises(ValueError, match="a buffer of 12 bytes should have 16"):
        kernels.order_by_partition(numbers, 4, 3, bytearray(24), bytearray(16))
    with pytest.raises(ValueError, match="do not fit"):
        kernels.partition_keys(tuple(column(3)), 3, 5, bytearray(11))
    for none in (0, -1):
        with pytest.raises(ValueError, match=f"{none} partitions"):
            kernels.partition_keys(tuple(column(3)), 3, none, bytearray(12))
