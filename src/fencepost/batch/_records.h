/* Reading the records of a v2 batch: one bounded parser, and the strict walk over a whole payload.
 *
 * Every read is checked against the end of the record, every record against the end of the payload;
 * nothing is allocated. A fault is reported as a number (twin: walk.Flaw) with the record's index,
 * where it begins and the value that was wrong; Python words it.
 */
#ifndef FENCEPOST_RECORDS_H
#define FENCEPOST_RECORDS_H

#include <stdint.h>
#include <string.h>

enum {
    FLAW_NONE = 0,
    FLAW_TOO_FEW = 1,
    FLAW_LENGTH = 2,
    FLAW_VARINT = 3,
    FLAW_KEY_LENGTH = 4,
    FLAW_VALUE_LENGTH = 5,
    FLAW_HEADER_COUNT = 6,
    FLAW_HEADER_LENGTH = 7,
    FLAW_RECORD_REST = 8,
    FLAW_OFFSET_DELTA = 9,
    FLAW_TIMESTAMP = 10,
    FLAW_NO_KEY = 11,
    FLAW_TIMESTAMP_BOUNDS = 12,
    FLAW_BATCH_REST = 13,
    FLAW_MICROSECONDS = 14
};

#define RECORD_BODY_BYTES_MIN 6
#define NO_TIMESTAMP (-1)

typedef struct {
    int32_t flaw;
    int64_t index;    /* of the record */
    int64_t position; /* of its first byte in the payload */
    int64_t detail;   /* the value that was wrong */
} flaw_report;

/* A key and a value, of a record or of a header; meaningless pointers where the size is -1. */
typedef struct {
    const uint8_t *key, *value;
    int32_t key_size, value_size;
} byte_pair;

typedef struct {
    byte_pair pair;
    const uint8_t *headers, *end; /* from the header count on, to the end of the record */
    int64_t timestamp_delta;
    int32_t offset_delta;
} record_view;

static inline int64_t unzigzag(uint64_t raw)
{
    return (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
}

static int read_varint_slowly(const uint8_t **cursor, const uint8_t *end, int bytes_max,
                              uint8_t last_max, int64_t *value)
{
    const uint8_t *at = *cursor;
    uint64_t raw = 0;
    for (int index = 0; index < bytes_max && at < end; index++) {
        uint8_t byte = *at++;
        if (index == bytes_max - 1 && byte > last_max)
            return 0;
        raw |= (uint64_t)(byte & 0x7f) << (7 * index);
        if (byte < 0x80) {
            *value = unzigzag(raw);
            *cursor = at;
            return 1;
        }
    }
    return 0;
}

/* At most five bytes with no more than 32 bits in them; 0 if it is malformed or passes `end`. */
static inline int read_varint(const uint8_t **cursor, const uint8_t *end, int32_t *value)
{
    const uint8_t *at = *cursor;
    if (end - at >= 2) {
        uint32_t raw = at[0];
        if (raw < 0x80) {
            *value = (int32_t)unzigzag(raw);
            *cursor = at + 1;
            return 1;
        }
        if (at[1] < 0x80) {
            *value = (int32_t)unzigzag((raw & 0x7f) | (uint32_t)at[1] << 7);
            *cursor = at + 2;
            return 1;
        }
    }
    int64_t wide;
    if (!read_varint_slowly(cursor, end, 5, 0x0f, &wide))
        return 0;
    *value = (int32_t)wide;
    return 1;
}

static inline int read_varlong(const uint8_t **cursor, const uint8_t *end, int64_t *value)
{
    const uint8_t *at = *cursor;
    if (at < end && *at < 0x80) {
        *value = unzigzag(*at);
        *cursor = at + 1;
        return 1;
    }
    return read_varint_slowly(cursor, end, 10, 0x01, value);
}

/* A length that is -1 for null, and as many bytes; 0 with `detail` set if it does not fit. */
static inline int read_nullable(const uint8_t **cursor, const uint8_t *end, const uint8_t **data,
                                int32_t *size, int32_t flaw, flaw_report *report)
{
    if (!read_varint(cursor, end, size)) {
        report->flaw = FLAW_VARINT;
        return 0;
    }
    if (*size < -1 || *size > end - *cursor) {
        report->flaw = flaw;
        report->detail = *size;
        return 0;
    }
    *data = *cursor;
    if (*size > 0)
        *cursor += *size;
    return 1;
}

/* The record at the cursor up to its headers; on success the cursor stands behind the record. */
static inline int read_record(const uint8_t **cursor, const uint8_t *end, record_view *record,
                              flaw_report *report)
{
    int32_t size;
    const uint8_t *at = *cursor;
    if (at == end) {
        report->flaw = FLAW_TOO_FEW;
        return 0;
    }
    if (!read_varint(&at, end, &size)) {
        report->flaw = FLAW_VARINT;
        return 0;
    }
    if (size < RECORD_BODY_BYTES_MIN || size > end - at) {
        report->flaw = FLAW_LENGTH;
        report->detail = size;
        return 0;
    }
    end = at + size;
    *cursor = end;
    at++; /* attributes: none are defined */
    if (!read_varlong(&at, end, &record->timestamp_delta) ||
        !read_varint(&at, end, &record->offset_delta)) {
        report->flaw = FLAW_VARINT;
        return 0;
    }
    if (!read_nullable(&at, end, &record->pair.key, &record->pair.key_size, FLAW_KEY_LENGTH, report) ||
        !read_nullable(&at, end, &record->pair.value, &record->pair.value_size, FLAW_VALUE_LENGTH, report))
        return 0;
    record->headers = at;
    record->end = end;
    return 1;
}

static inline int read_header_count(const uint8_t **cursor, const uint8_t *end, int32_t *count,
                                    flaw_report *report)
{
    if (!read_varint(cursor, end, count)) {
        report->flaw = FLAW_VARINT;
        return 0;
    }
    if (*count < 0 || *count > (end - *cursor) / 2) { /* a header has two bytes at least */
        report->flaw = FLAW_HEADER_COUNT;
        report->detail = *count;
        return 0;
    }
    return 1;
}

static inline int read_header(const uint8_t **cursor, const uint8_t *end, byte_pair *header,
                              flaw_report *report)
{
    if (!read_nullable(cursor, end, &header->key, &header->key_size, FLAW_HEADER_LENGTH, report))
        return 0;
    if (header->key_size < 0) {
        report->flaw = FLAW_HEADER_LENGTH;
        report->detail = header->key_size;
        return 0;
    }
    return read_nullable(cursor, end, &header->value, &header->value_size, FLAW_HEADER_LENGTH,
                         report);
}

static inline int check_record_rest(const uint8_t *at, const uint8_t *end, flaw_report *report)
{
    if (at == end)
        return 1;
    report->flaw = FLAW_RECORD_REST;
    report->detail = end - at;
    return 0;
}

static inline int skip_headers(const record_view *record, flaw_report *report)
{
    const uint8_t *at = record->headers;
    int32_t count;
    byte_pair header;
    if (!read_header_count(&at, record->end, &count, report))
        return 0;
    for (int32_t index = 0; index < count; index++)
        if (!read_header(&at, record->end, &header, report))
            return 0;
    return check_record_rest(at, record->end, report);
}

static inline int add_timestamp(int64_t base, int64_t delta, int64_t *sum, flaw_report *report)
{
    if ((delta > 0 && base > INT64_MAX - delta) || (delta < 0 && base < INT64_MIN - delta)) {
        report->flaw = FLAW_TIMESTAMP;
        report->detail = delta;
        return 0;
    }
    *sum = base + delta;
    return 1;
}

typedef struct {
    int32_t count, last_offset_delta;
    int64_t base_timestamp, timestamp_min, timestamp_max;
    int key_required;
} walk_rules;

static inline int walk_record(const record_view *record, const walk_rules *rules,
                              int64_t *max_timestamp, flaw_report *report)
{
    int64_t timestamp;
    if (record->offset_delta != report->index) {
        report->flaw = FLAW_OFFSET_DELTA;
        report->detail = record->offset_delta;
        return 0;
    }
    if (!add_timestamp(rules->base_timestamp, record->timestamp_delta, &timestamp, report))
        return 0;
    if (rules->key_required && record->pair.key_size < 0) {
        report->flaw = FLAW_NO_KEY;
        return 0;
    }
    if (timestamp != NO_TIMESTAMP &&
        (timestamp < rules->timestamp_min || timestamp > rules->timestamp_max)) {
        report->flaw = FLAW_TIMESTAMP_BOUNDS;
        report->detail = timestamp;
        return 0;
    }
    if (timestamp > *max_timestamp)
        *max_timestamp = timestamp;
    return 1;
}

/* Walks a producer's payload: every record sound, numbered 0, 1, 2..., and nothing behind them. */
static int walk_payload(const uint8_t *payload, int64_t size, const walk_rules *rules,
                        int64_t *max_timestamp, flaw_report *report)
{
    const uint8_t *at = payload, *end = payload + size;
    *max_timestamp = NO_TIMESTAMP;
    memset(report, 0, sizeof *report);
    for (; report->index < rules->count; report->index++) {
        record_view record;
        report->position = at - payload;
        if (!read_record(&at, end, &record, report) || !skip_headers(&record, report) ||
            !walk_record(&record, rules, max_timestamp, report))
            return 0;
    }
    if (at != end) {
        report->position = at - payload;
        report->flaw = FLAW_BATCH_REST;
        report->detail = end - at;
        return 0;
    }
    return 1;
}

#endif
