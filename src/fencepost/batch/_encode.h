/* Columns to batches: how many rows fit, then header, records and CRC in one go.
 *
 * Columns are Arrow's binary layout, strings and bytes alike. `fpost_plan_batch` computes sizes
 * only, so that the caller allocates once and `fpost_write_records` needs no checks of its own.
 */
#ifndef FENCEPOST_ENCODE_H
#define FENCEPOST_ENCODE_H

#include "_records.h"

/* A binary column; `ends` NULL means that every value is null. */
typedef struct {
    const int32_t *ends;
    const uint8_t *data;
    const uint8_t *valid; /* NULL: nothing is null */
    int64_t bit_offset;   /* of row 0 in `valid` */
} fpost_binary_column;

typedef struct {
    fpost_binary_column key, value;
    const int64_t *timestamps; /* ms */
    const int32_t *order;      /* row numbers in the order of writing, or NULL */
    const int32_t *list_ends;  /* headers of row r: list_ends[r] to list_ends[r + 1]; or NULL */
    const uint8_t *list_valid;
    int64_t list_bit_offset;
    fpost_binary_column header_key, header_value;
} fpost_row_columns;

typedef struct {
    int64_t end;          /* position behind the last row that fits */
    int64_t payload_size; /* of those rows */
    int64_t too_large;    /* size of the first row when it alone does not fit, else 0 */
    int64_t base_timestamp, max_timestamp;
} fpost_batch_plan;

static inline int fpost_is_valid(const uint8_t *bitmap, int64_t bit)
{
    return bitmap == NULL || (bitmap[bit >> 3] >> (bit & 7) & 1);
}

/* Size of a value, -1 for null. */
static inline int32_t fpost_value_size(const fpost_binary_column *column, int64_t row)
{
    if (column->ends == NULL || !fpost_is_valid(column->valid, column->bit_offset + row))
        return -1;
    return column->ends[row + 1] - column->ends[row];
}

static inline uint64_t fpost_zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static inline int fpost_varint_size(int64_t value)
{
    uint64_t raw = fpost_zigzag(value);
    int size = 1;
    while (raw >= 0x80) {
        raw >>= 7;
        size++;
    }
    return size;
}

static inline uint8_t *fpost_write_varint(uint8_t *at, int64_t value)
{
    uint64_t raw = fpost_zigzag(value);
    while (raw >= 0x80) {
        *at++ = (uint8_t)(raw | 0x80);
        raw >>= 7;
    }
    *at++ = (uint8_t)raw;
    return at;
}

static inline int64_t fpost_nullable_size(int32_t size)
{
    return fpost_varint_size(size) + (size > 0 ? size : 0);
}

static inline int64_t fpost_headers_begin(const fpost_row_columns *columns, int64_t row,
                                          int64_t *end)
{
    if (columns->list_ends == NULL ||
        !fpost_is_valid(columns->list_valid, columns->list_bit_offset + row))
        return *end = 0;
    *end = columns->list_ends[row + 1];
    return columns->list_ends[row];
}

static inline int64_t fpost_headers_size(const fpost_row_columns *columns, int64_t row)
{
    int64_t end, header = fpost_headers_begin(columns, row, &end);
    int64_t size = fpost_varint_size(end - header);
    for (; header < end; header++)
        size += fpost_nullable_size(fpost_value_size(&columns->header_key, header)) +
                fpost_nullable_size(fpost_value_size(&columns->header_value, header));
    return size;
}

static inline int64_t fpost_body_size(const fpost_row_columns *columns, int64_t row,
                                      int64_t timestamp_delta, int64_t offset_delta)
{
    return 1 + fpost_varint_size(timestamp_delta) + fpost_varint_size(offset_delta) +
           fpost_nullable_size(fpost_value_size(&columns->key, row)) +
           fpost_nullable_size(fpost_value_size(&columns->value, row)) +
           fpost_headers_size(columns, row);
}

static inline int64_t fpost_row_at(const fpost_row_columns *columns, int64_t position)
{
    return columns->order == NULL ? position : columns->order[position];
}

/* The longest run of rows from `begin` whose records take at most `payload_max` bytes. */
static void fpost_plan_batch(const fpost_row_columns *columns, int64_t begin, int64_t end,
                             int64_t payload_max, fpost_batch_plan *plan)
{
    int64_t base = columns->timestamps[fpost_row_at(columns, begin)];
    plan->payload_size = plan->too_large = 0;
    plan->base_timestamp = base;
    plan->max_timestamp = FPOST_NO_TIMESTAMP;
    for (plan->end = begin; plan->end < end; plan->end++) {
        int64_t row = fpost_row_at(columns, plan->end);
        int64_t timestamp = columns->timestamps[row];
        int64_t delta = (int64_t)((uint64_t)timestamp - (uint64_t)base);
        /* Timestamps too far apart for 64 bits begin a batch of their own. */
        if (((timestamp ^ base) & (timestamp ^ delta)) < 0)
            return;
        int64_t body = fpost_body_size(columns, row, delta, plan->end - begin);
        int64_t size = body + fpost_varint_size(body);
        if (plan->payload_size + size > payload_max) {
            if (plan->end == begin)
                plan->too_large = size;
            return;
        }
        plan->payload_size += size;
        if (timestamp > plan->max_timestamp)
            plan->max_timestamp = timestamp;
    }
}

static inline uint8_t *fpost_write_nullable(uint8_t *at, const fpost_binary_column *column,
                                            int64_t row)
{
    int32_t size = fpost_value_size(column, row);
    at = fpost_write_varint(at, size);
    if (size > 0) {
        memcpy(at, column->data + column->ends[row], (size_t)size);
        at += size;
    }
    return at;
}

/* Writes the records that `plan` was made for; returns the end of what was written. */
static uint8_t *fpost_write_records(const fpost_row_columns *columns, int64_t begin,
                                    const fpost_batch_plan *plan, uint8_t *at)
{
    for (int64_t position = begin; position < plan->end; position++) {
        int64_t row = fpost_row_at(columns, position);
        int64_t delta = columns->timestamps[row] - plan->base_timestamp;
        int64_t header_end, header = fpost_headers_begin(columns, row, &header_end);
        at = fpost_write_varint(at, fpost_body_size(columns, row, delta, position - begin));
        *at++ = 0;
        at = fpost_write_varint(at, delta);
        at = fpost_write_varint(at, position - begin);
        at = fpost_write_nullable(at, &columns->key, row);
        at = fpost_write_nullable(at, &columns->value, row);
        at = fpost_write_varint(at, header_end - header);
        for (; header < header_end; header++) {
            at = fpost_write_nullable(at, &columns->header_key, header);
            at = fpost_write_nullable(at, &columns->header_value, header);
        }
    }
    return at;
}

/* MurmurHash2 with the seed and the sign conventions of Kafka's Java client. */
static inline int32_t fpost_murmur2(const uint8_t *data, int64_t size)
{
    const uint32_t multiplier = 0x5bd1e995u;
    uint32_t hash = 0x9747b28cu ^ (uint32_t)size;
    int64_t at = 0;
    for (; at + 4 <= size; at += 4) {
        uint32_t word = (uint32_t)data[at] | (uint32_t)data[at + 1] << 8 |
                        (uint32_t)data[at + 2] << 16 | (uint32_t)data[at + 3] << 24;
        word *= multiplier;
        word ^= word >> 24;
        hash = hash * multiplier ^ word * multiplier;
    }
    if (size - at >= 3)
        hash ^= (uint32_t)data[at + 2] << 16;
    if (size - at >= 2)
        hash ^= (uint32_t)data[at + 1] << 8;
    if (size - at >= 1)
        hash = (hash ^ data[at]) * multiplier;
    hash = (hash ^ hash >> 13) * multiplier;
    return (int32_t)(hash ^ hash >> 15);
}

/* The partition of every key, -1 for a null key. */
static void fpost_partition_keys(const fpost_binary_column *keys, int64_t count, int32_t partitions,
                                 int32_t *partition)
{
    for (int64_t row = 0; row < count; row++) {
        int32_t size = fpost_value_size(keys, row);
        partition[row] =
            size < 0
                ? -1
                : (fpost_murmur2(keys->data + keys->ends[row], size) & 0x7fffffff) % partitions;
    }
}

/* Stable counting sort of row numbers by partition; `ends[p]` is where p's rows end in `order`.
 * Returns 0 if a partition is not in 0 .. partitions - 1. */
static int fpost_order_by_partition(const int32_t *partition, int64_t count, int32_t partitions,
                                    int64_t *ends, int32_t *order)
{
    memset(ends, 0, (size_t)partitions * sizeof *ends);
    for (int64_t row = 0; row < count; row++) {
        if (partition[row] < 0 || partition[row] >= partitions)
            return 0;
        ends[partition[row]]++;
    }
    int64_t begin = 0;
    for (int32_t index = 0; index < partitions; index++) {
        int64_t rows = ends[index];
        ends[index] = begin;
        begin += rows;
    }
    for (int64_t row = 0; row < count; row++)
        order[ends[partition[row]]++] = (int32_t)row;
    return 1;
}

#endif
