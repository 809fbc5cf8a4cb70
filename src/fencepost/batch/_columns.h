/* Many batches to columns, in two passes over memory that is in the cache by the second.
 *
 * The scanner reads headers, checks CRCs and parses records into a table of rows that only point
 * at keys and values, until the table is full; then `fill_*` copy into Arrow buffers of exactly the
 * right size. What it cannot decide (a compressed batch, a transactional one while transactions
 * were aborted, a fault) it hands to its caller as an event, with the batch's position.
 */
#ifndef FENCEPOST_COLUMNS_H
#define FENCEPOST_COLUMNS_H

#include <stdlib.h>

#include "_crc32c.h"
#include "_records.h"

enum { EVENT_END, EVENT_FULL, EVENT_BATCH, EVENT_BAD_BATCH, EVENT_BAD_RECORD, EVENT_NO_MEMORY };

enum {
    BATCH_HEADER_BYTES = 61,
    BATCH_LENGTH_OVERHEAD = 12,
    BATCH_CRC_FROM = 21,
    CODEC_BITS = 0x07,
    LOG_APPEND_TIME = 0x08,
    TRANSACTIONAL = 0x10,
    CONTROL = 0x20
};

#define MICROSECONDS_MAX_MS (INT64_MAX / 1000)
#define HEADER_COST_BYTES 32 /* what a header weighs beside its own bytes */

typedef struct {
    int64_t base_offset, base_timestamp, max_timestamp;
    int32_t last_offset_delta, records_count;
    int16_t attributes;
} batch_facts;

typedef struct {
    /* what is wanted */
    int64_t start_offset, end_offset, bytes_max;
    int32_t rows_max;
    int want_headers, want_micros, check_crc, ask_transactional;
    /* the blob */
    const uint8_t *blob, *blob_at, *blob_end;
    /* the payload under way, if one is open */
    int is_open;
    const uint8_t *payload, *payload_at, *payload_end;
    int64_t records_left, record_index;
    batch_facts batch;
    /* the rows collected */
    byte_pair *rows;
    int64_t *offsets, *timestamps;
    int32_t *types, *header_ends;
    byte_pair *headers;
    int64_t rows_room, headers_room;
    int64_t row_count, header_count, bytes;
    int64_t key_bytes, value_bytes, header_key_bytes, header_value_bytes;
    int64_t key_nulls, value_nulls, header_value_nulls, rows_without_headers;
    int header_keys_ascii;
    flaw_report report;
} scanner;

static inline uint32_t big32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline int64_t big64(const uint8_t *at)
{
    return (int64_t)((uint64_t)big32(at) << 32 | big32(at + 4));
}

static void scanner_clear_rows(scanner *s)
{
    s->row_count = s->header_count = s->bytes = 0;
    s->key_bytes = s->value_bytes = s->header_key_bytes = s->header_value_bytes = 0;
    s->key_nulls = s->value_nulls = s->header_value_nulls = s->rows_without_headers = 0;
    s->header_keys_ascii = 1;
}

static void scanner_free(scanner *s)
{
    free(s->rows);
    free(s->offsets);
    free(s->timestamps);
    free(s->types);
    free(s->header_ends);
    free(s->headers);
    memset(s, 0, sizeof *s);
}

static int grow(void **array, int64_t room, size_t size)
{
    void *larger = realloc(*array, (size_t)room * size);
    if (larger == NULL)
        return 0;
    *array = larger;
    return 1;
}

static int scanner_grow_rows(scanner *s)
{
    int64_t room = s->rows_room == 0 ? 1024 : 2 * s->rows_room;
    if (room > s->rows_max)
        room = s->rows_max;
    if (!grow((void **)&s->rows, room, sizeof *s->rows) ||
        !grow((void **)&s->offsets, room, sizeof *s->offsets) ||
        !grow((void **)&s->timestamps, room, sizeof *s->timestamps) ||
        !grow((void **)&s->types, room, sizeof *s->types) ||
        !grow((void **)&s->header_ends, room, sizeof *s->header_ends))
        return 0;
    s->rows_room = room;
    return 1;
}

static int scanner_grow_headers(scanner *s, int64_t wanted)
{
    int64_t room = s->headers_room == 0 ? 1024 : s->headers_room;
    while (room < wanted)
        room *= 2;
    if (!grow((void **)&s->headers, room, sizeof *s->headers))
        return 0;
    s->headers_room = room;
    return 1;
}

/* Begins a payload; its facts are those of the header it came with. */
static void scanner_open_payload(scanner *s, const uint8_t *payload, int64_t size,
                                 const batch_facts *batch)
{
    s->payload = s->payload_at = payload;
    s->payload_end = payload + size;
    s->is_open = 1;
    s->batch = *batch;
    s->records_left = batch->records_count;
    s->record_index = 0;
}

static int is_ascii(const uint8_t *data, int32_t size)
{
    uint8_t seen = 0;
    for (int32_t index = 0; index < size; index++)
        seen |= data[index];
    return seen < 0x80;
}

/* Headers of the record into the table behind those of earlier rows, not yet counted in. */
static int scan_headers(scanner *s, const record_view *record, int32_t *count, int64_t *key_bytes,
                        int64_t *value_bytes)
{
    const uint8_t *at = record->headers;
    *key_bytes = *value_bytes = 0;
    if (!read_header_count(&at, record->end, count, &s->report))
        return EVENT_BAD_RECORD;
    if (s->header_count + *count > s->headers_room &&
        !scanner_grow_headers(s, s->header_count + *count))
        return EVENT_NO_MEMORY;
    for (int32_t index = 0; index < *count; index++) {
        byte_pair *header = &s->headers[s->header_count + index];
        if (!read_header(&at, record->end, header, &s->report))
            return EVENT_BAD_RECORD;
        *key_bytes += header->key_size;
        *value_bytes += header->value_size > 0 ? header->value_size : 0;
    }
    return check_record_rest(at, record->end, &s->report) ? EVENT_END : EVENT_BAD_RECORD;
}

static void take_headers(scanner *s, int32_t count, int64_t key_bytes, int64_t value_bytes)
{
    for (int32_t index = 0; index < count; index++) {
        const byte_pair *header = &s->headers[s->header_count + index];
        s->header_value_nulls += header->value_size < 0;
        if (s->header_keys_ascii && !is_ascii(header->key, header->key_size))
            s->header_keys_ascii = 0;
    }
    s->rows_without_headers += count == 0;
    s->header_count += count;
    s->header_key_bytes += key_bytes;
    s->header_value_bytes += value_bytes;
    s->bytes += key_bytes + value_bytes + (int64_t)count * HEADER_COST_BYTES;
}

static inline int row_timestamp(scanner *s, const record_view *record, int64_t *timestamp)
{
    if (s->batch.attributes & LOG_APPEND_TIME)
        *timestamp = s->batch.max_timestamp;
    else if (!add_timestamp(s->batch.base_timestamp, record->timestamp_delta, timestamp,
                            &s->report))
        return 0;
    if (!s->want_micros)
        return 1;
    if (*timestamp > MICROSECONDS_MAX_MS || *timestamp < -MICROSECONDS_MAX_MS) {
        s->report.flaw = FLAW_MICROSECONDS;
        s->report.detail = *timestamp;
        return 0;
    }
    *timestamp *= 1000;
    return 1;
}

/* One record into the table, or over it when its offset is not wanted. */
static inline int scan_record(scanner *s)
{
    record_view record;
    const uint8_t *at = s->payload_at;
    int32_t header_count = 0;
    int64_t timestamp, header_key_bytes = 0, header_value_bytes = 0;
    if (!read_record(&at, s->payload_end, &record, &s->report))
        return EVENT_BAD_RECORD;
    if (record.offset_delta < 0 || record.offset_delta > s->batch.last_offset_delta) {
        s->report.flaw = FLAW_OFFSET_DELTA;
        s->report.detail = record.offset_delta;
        return EVENT_BAD_RECORD;
    }
    int64_t offset = s->batch.base_offset + record.offset_delta;
    if (offset >= s->start_offset && offset < s->end_offset) {
        int64_t bytes = (record.pair.key_size > 0 ? record.pair.key_size : 0) +
                        (int64_t)(record.pair.value_size > 0 ? record.pair.value_size : 0);
        if (s->row_count == s->rows_max)
            return EVENT_FULL;
        if (!row_timestamp(s, &record, &timestamp))
            return EVENT_BAD_RECORD;
        if (s->want_headers) {
            int event = scan_headers(s, &record, &header_count, &header_key_bytes,
                                     &header_value_bytes);
            if (event != EVENT_END)
                return event;
        }
        if (s->row_count > 0 &&
            s->bytes + bytes + header_key_bytes + header_value_bytes > s->bytes_max)
            return EVENT_FULL;
        if (s->row_count == s->rows_room && !scanner_grow_rows(s))
            return EVENT_NO_MEMORY;
        int64_t row = s->row_count++;
        s->rows[row] = record.pair;
        s->offsets[row] = offset;
        s->timestamps[row] = timestamp;
        s->types[row] = (s->batch.attributes & LOG_APPEND_TIME) != 0;
        s->key_nulls += record.pair.key_size < 0;
        s->value_nulls += record.pair.value_size < 0;
        s->key_bytes += record.pair.key_size > 0 ? record.pair.key_size : 0;
        s->value_bytes += record.pair.value_size > 0 ? record.pair.value_size : 0;
        s->bytes += bytes;
        if (s->want_headers) {
            take_headers(s, header_count, header_key_bytes, header_value_bytes);
            s->header_ends[row] = (int32_t)s->header_count;
        }
    }
    s->payload_at = at;
    return EVENT_END;
}

static int scan_payload(scanner *s)
{
    memset(&s->report, 0, sizeof s->report);
    while (s->records_left > 0) {
        s->report.index = s->record_index;
        s->report.position = s->payload_at - s->payload;
        int event = scan_record(s);
        if (event != EVENT_END)
            return event;
        s->records_left--;
        s->record_index++;
    }
    if (s->payload_at != s->payload_end) {
        s->report.index = s->record_index;
        s->report.position = s->payload_at - s->payload;
        s->report.flaw = FLAW_BATCH_REST;
        s->report.detail = s->payload_end - s->payload_at;
        return EVENT_BAD_RECORD;
    }
    return EVENT_END;
}

/* What can be read of the header at `at`; 0 if no batch has such a header (Python says why). */
static int read_batch_facts(const uint8_t *at, int64_t *size, batch_facts *batch)
{
    *size = (int64_t)(int32_t)big32(at + 8) + BATCH_LENGTH_OVERHEAD;
    batch->base_offset = big64(at);
    batch->attributes = (int16_t)((uint16_t)at[21] << 8 | at[22]);
    batch->last_offset_delta = (int32_t)big32(at + 23);
    batch->base_timestamp = big64(at + 27);
    batch->max_timestamp = big64(at + 35);
    batch->records_count = (int32_t)big32(at + 57);
    return at[16] == 2 && *size >= BATCH_HEADER_BYTES && batch->last_offset_delta >= 0 &&
           batch->records_count >= 0 && batch->base_offset >= 0 &&
           batch->base_offset < INT64_MAX - batch->last_offset_delta;
}

/* The next batch of the blob; EVENT_END with records_left 0 when it was only passed over. */
static int scan_batch(scanner *s, int *finished)
{
    const uint8_t *at = s->blob_at;
    int64_t size, left = s->blob_end - at;
    batch_facts batch;
    *finished = 0;
    if (left < BATCH_HEADER_BYTES) {
        *finished = 1;
        return left > 16 && at[16] != 2 ? EVENT_BAD_BATCH : EVENT_END;
    }
    if (!read_batch_facts(at, &size, &batch))
        return EVENT_BAD_BATCH;
    if (size > left || batch.base_offset >= s->end_offset) {
        *finished = 1;
        return EVENT_END;
    }
    if (s->ask_transactional && (batch.attributes & (TRANSACTIONAL | CONTROL)))
        return EVENT_BATCH;
    if ((batch.attributes & CONTROL) ||
        batch.base_offset + batch.last_offset_delta < s->start_offset) {
        s->blob_at = at + size;
        return EVENT_END;
    }
    if (batch.attributes & CODEC_BITS)
        return EVENT_BATCH;
    if (s->check_crc &&
        crc32c_of(at + BATCH_CRC_FROM, (size_t)(size - BATCH_CRC_FROM), 0) != big32(at + 17))
        return EVENT_BAD_BATCH;
    scanner_open_payload(s, at + BATCH_HEADER_BYTES, size - BATCH_HEADER_BYTES, &batch);
    s->blob_at = at + size;
    return EVENT_END;
}

/* Goes on until there is something to say. */
static int scanner_advance(scanner *s)
{
    for (;;) {
        int finished, event = EVENT_END;
        if (s->is_open) {
            event = scan_payload(s);
            if (event != EVENT_END)
                return event;
            s->is_open = 0;
        }
        event = scan_batch(s, &finished);
        if (event != EVENT_END || finished)
            return event;
    }
}

/* Keys or values in Arrow's binary layout, whose sizes were summed before; `valid` may be NULL
 * when nothing is null. */
static inline void fill_binary(const byte_pair *pairs, int64_t count, int want_values,
                               int32_t *ends, uint8_t *data, uint8_t *valid)
{
    int32_t end = 0;
    ends[0] = 0;
    if (valid != NULL)
        memset(valid, 0, (size_t)((count + 7) / 8));
    for (int64_t index = 0; index < count; index++) {
        const uint8_t *from = want_values ? pairs[index].value : pairs[index].key;
        int32_t size = want_values ? pairs[index].value_size : pairs[index].key_size;
        if (size >= 0) {
            memcpy(data + end, from, (size_t)size);
            end += size;
            if (valid != NULL)
                valid[index >> 3] |= (uint8_t)(1 << (index & 7));
        }
        ends[index + 1] = end;
    }
}

static void fill_keys(const byte_pair *pairs, int64_t count, int32_t *ends, uint8_t *data,
                      uint8_t *valid)
{
    fill_binary(pairs, count, 0, ends, data, valid);
}

static void fill_values(const byte_pair *pairs, int64_t count, int32_t *ends, uint8_t *data,
                        uint8_t *valid)
{
    fill_binary(pairs, count, 1, ends, data, valid);
}

/* The list level of headers: ends per row, and validity because a row without headers is null. */
static void fill_lists(const scanner *s, int32_t *ends, uint8_t *valid)
{
    ends[0] = 0;
    memcpy(ends + 1, s->header_ends, (size_t)s->row_count * sizeof *ends);
    memset(valid, 0, (size_t)((s->row_count + 7) / 8));
    for (int64_t row = 0; row < s->row_count; row++)
        if (ends[row + 1] > ends[row])
            valid[row >> 3] |= (uint8_t)(1 << (row & 7));
}

#endif
