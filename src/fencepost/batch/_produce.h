/* The plain Produce request: what stands where in its bytes, and whether a batch may be appended.
 *
 * Usual is what today's clients send: v3 to v13, nothing tagged, every batch there. Of anything
 * else it is said that it is not plain, never what is wrong with it: the codec and `produced` look
 * again, and have the words. So a request that is taken here is one that they would take, too.
 *
 * From v9 on lengths are varints, one more than what they stand for, and structs end with tags
 * (KIP-482); before, lengths are plain integers of 2 bytes (strings) or 4, and nothing ends.
 *
 * Every read is checked against the end of the frame; nothing is allocated.
 */
#ifndef FENCEPOST_PRODUCE_H
#define FENCEPOST_PRODUCE_H

#include <stdint.h>
#include <string.h>

#include "_crc32c.h"
#include "_records.h"

enum {
    FPOST_LOG_START_FROM = 5,
    FPOST_RECORD_ERRORS_FROM = 8,
    FPOST_FLEXIBLE_FROM = 9,
    FPOST_TOPIC_IDS_FROM = 13,
    FPOST_TOPIC_ID_BYTES = 16,
    FPOST_NAME_BYTES_MAX = 249,
    FPOST_STRING_BYTES_MAX = 32767,
    FPOST_BATCH_HEADER_BYTES = 61,
    FPOST_BATCH_LENGTH_OVERHEAD = 12,
    FPOST_BATCH_CRC_FROM = 21,
    FPOST_BATCH_MAGIC = 2,
    FPOST_CODEC_BITS = 0x07,
    FPOST_TRANSACTIONAL_BIT = 0x10
};

static inline uint16_t fpost_be16(const uint8_t *at)
{
    return (uint16_t)((uint32_t)at[0] << 8 | at[1]);
}

static inline uint32_t fpost_be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline uint64_t fpost_be64(const uint8_t *at)
{
    return (uint64_t)fpost_be32(at) << 32 | fpost_be32(at + 4);
}

static inline uint8_t *fpost_put_be(uint8_t *at, uint64_t value, int bytes)
{
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
        *at++ = (uint8_t)(value >> shift);
    return at;
}

/* An unsigned varint of at most 32 bits; 0 if it is malformed or passes `end`. */
static inline int fpost_take_uvarint(const uint8_t **cursor, const uint8_t *end, uint32_t *value)
{
    uint32_t result = 0;
    for (int shift = 0; *cursor < end; shift += 7) {
        uint8_t byte = *(*cursor)++;
        if (shift == 28 && byte > 0x0f)
            return 0;
        result |= (uint32_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = result;
            return 1;
        }
    }
    return 0;
}

static inline int fpost_uvarint_size(uint32_t value)
{
    int size = 1;
    for (; value >= 0x80; value >>= 7)
        size++;
    return size;
}

static inline uint8_t *fpost_put_uvarint(uint8_t *at, uint32_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

/* What a length stands for, which is in so many bytes before v9; not null. */
static inline int fpost_take_length(const uint8_t **cursor, const uint8_t *end, int version,
                                    int bytes, uint32_t *length)
{
    if (version >= FPOST_FLEXIBLE_FROM) {
        if (!fpost_take_uvarint(cursor, end, length) || *length == 0)
            return 0;
        --*length;
        return 1;
    }
    if (end - *cursor < bytes)
        return 0;
    *length = bytes == 2 ? fpost_be16(*cursor) : fpost_be32(*cursor);
    *cursor += bytes;
    return *length < (bytes == 2 ? 0x8000u : 0x80000000u);
}

/* The end of a struct without tags. */
static inline int fpost_take_end(const uint8_t **cursor, const uint8_t *end, int version)
{
    return version < FPOST_FLEXIBLE_FROM || (*cursor < end && *(*cursor)++ == 0);
}

/* A string or bytes, not null and not longer than `size_max`, after a length of so many bytes. */
static inline int fpost_take_bytes(const uint8_t **cursor, const uint8_t *end, int version,
                                   int bytes, uint32_t size_max, const uint8_t **data,
                                   uint32_t *size)
{
    if (!fpost_take_length(cursor, end, version, bytes, size) || *size > size_max ||
        (uint64_t)(end - *cursor) < *size)
        return 0;
    *data = *cursor;
    *cursor += *size;
    return 1;
}

typedef struct {
    const uint8_t *transactional_id; /* NULL where there is none */
    uint32_t transactional_id_size;
    int32_t acks, timeout_ms;
    uint32_t topics;
} fpost_produce_head;

static inline int fpost_take_transactional_id(const uint8_t **cursor, const uint8_t *end,
                                              int version, fpost_produce_head *head)
{
    int bytes = version < FPOST_FLEXIBLE_FROM ? 2 : 1;
    if (end - *cursor < bytes)
        return 0;
    if (bytes == 2 ? fpost_be16(*cursor) == 0xffff : **cursor == 0) {
        *cursor += bytes;
        head->transactional_id = NULL;
        head->transactional_id_size = 0;
        return 1;
    }
    return fpost_take_bytes(cursor, end, version, 2, FPOST_STRING_BYTES_MAX,
                            &head->transactional_id, &head->transactional_id_size);
}

/* Up to the first topic. */
static inline int fpost_take_produce_head(const uint8_t **cursor, const uint8_t *end, int version,
                                          fpost_produce_head *head)
{
    if (!fpost_take_transactional_id(cursor, end, version, head) || end - *cursor < 6)
        return 0;
    head->acks = (int16_t)fpost_be16(*cursor);
    head->timeout_ms = (int32_t)fpost_be32(*cursor + 2);
    *cursor += 6;
    return fpost_take_length(cursor, end, version, 4, &head->topics);
}

/* A topic's name or id, and how many partitions follow. */
static inline int fpost_take_topic(const uint8_t **cursor, const uint8_t *end, int version,
                                   const uint8_t **name, uint32_t *size, uint32_t *partitions)
{
    if (version < FPOST_TOPIC_IDS_FROM) {
        if (!fpost_take_bytes(cursor, end, version, 2, FPOST_NAME_BYTES_MAX, name, size))
            return 0;
    } else {
        if (end - *cursor < FPOST_TOPIC_ID_BYTES)
            return 0;
        *name = *cursor;
        *size = FPOST_TOPIC_ID_BYTES;
        *cursor += FPOST_TOPIC_ID_BYTES;
    }
    return fpost_take_length(cursor, end, version, 4, partitions);
}

static inline int fpost_take_partition(const uint8_t **cursor, const uint8_t *end, int version,
                                       int32_t *index, const uint8_t **batch, uint32_t *size)
{
    if (end - *cursor < 4)
        return 0;
    *index = (int32_t)fpost_be32(*cursor);
    *cursor += 4;
    return fpost_take_bytes(cursor, end, version, 4, INT32_MAX, batch, size) &&
           fpost_take_end(cursor, end, version);
}

typedef struct {
    int64_t base_offset, base_timestamp, max_timestamp, producer_id;
    int32_t batch_length, partition_leader_epoch, last_offset_delta, base_sequence, records_count;
    uint32_t crc;
    int16_t attributes, producer_epoch;
} fpost_produced_header;

typedef struct {
    int64_t bytes_max, timestamp_min, timestamp_max;
    int key_required, is_transactional;
} fpost_produced_rules;

static inline void fpost_read_produced_header(const uint8_t *batch, fpost_produced_header *header)
{
    header->base_offset = (int64_t)fpost_be64(batch);
    header->batch_length = (int32_t)fpost_be32(batch + 8);
    header->partition_leader_epoch = (int32_t)fpost_be32(batch + 12);
    header->crc = fpost_be32(batch + 17);
    header->attributes = (int16_t)fpost_be16(batch + 21);
    header->last_offset_delta = (int32_t)fpost_be32(batch + 23);
    header->base_timestamp = (int64_t)fpost_be64(batch + 27);
    header->max_timestamp = (int64_t)fpost_be64(batch + 35);
    header->producer_id = (int64_t)fpost_be64(batch + 43);
    header->producer_epoch = (int16_t)fpost_be16(batch + 51);
    header->base_sequence = (int32_t)fpost_be32(batch + 53);
    header->records_count = (int32_t)fpost_be32(batch + 57);
}

static inline int64_t fpost_add_clamped(int64_t value, int64_t more)
{
    if (more > 0 && value > INT64_MAX - more)
        return INT64_MAX;
    if (more < 0 && value < INT64_MIN - more)
        return INT64_MIN;
    return value + more;
}

/* Whether the batch is uncompressed, of a transaction or not as is said, sound in all that `produced`
 * checks, and nothing in it has to be put right. */
static int fpost_check_produced(const uint8_t *batch, int64_t size,
                                const fpost_produced_rules *rules, fpost_produced_header *header)
{
    if (size < FPOST_BATCH_HEADER_BYTES || size > rules->bytes_max ||
        batch[16] != FPOST_BATCH_MAGIC)
        return 0;
    fpost_read_produced_header(batch, header);
    if (header->base_offset != 0 ||
        header->batch_length != size - FPOST_BATCH_LENGTH_OVERHEAD ||
        header->attributes != (rules->is_transactional ? FPOST_TRANSACTIONAL_BIT : 0) ||
        header->records_count <= 0 || header->last_offset_delta != header->records_count - 1)
        return 0;
    if (header->producer_id == -1 ? rules->is_transactional
                                  : header->producer_id < -1 || header->producer_epoch < 0 ||
                                        header->base_sequence < 0)
        return 0;
    if (fpost_crc32c_of(batch + FPOST_BATCH_CRC_FROM, (size_t)(size - FPOST_BATCH_CRC_FROM), 0) !=
        header->crc)
        return 0;
    fpost_walk_rules walked = {
        .count = header->records_count,
        .base_timestamp = header->base_timestamp,
        .timestamp_min = rules->timestamp_min,
        .timestamp_max = rules->timestamp_max,
        .record_bytes_max = INT64_MAX, /* of compressed batches alone, which are not for here */
        .key_required = rules->key_required,
    };
    fpost_reason_report report;
    int64_t max_timestamp;
    return fpost_walk_payload(batch + FPOST_BATCH_HEADER_BYTES, size - FPOST_BATCH_HEADER_BYTES,
                              &walked, &max_timestamp, &report) &&
           max_timestamp == header->max_timestamp;
}

/* An answer's bytes for a partition whose batch was appended, and where lengths stand in it. */
static inline int fpost_answered_partition_size(int version)
{
    if (version >= FPOST_FLEXIBLE_FROM)
        return 4 + 2 + 8 + 8 + 8 + 1 + 1 + 1;
    return 4 + 2 + 8 + 8 + (version >= FPOST_LOG_START_FROM ? 8 : 0) +
           (version >= FPOST_RECORD_ERRORS_FROM ? 4 + 2 : 0);
}

static inline uint8_t *fpost_put_answered_partition(uint8_t *at, int version, int32_t index,
                                                    int64_t base_offset, int64_t append_time_ms,
                                                    int64_t start_offset)
{
    at = fpost_put_be(at, (uint32_t)index, 4);
    at = fpost_put_be(at, 0, 2);
    at = fpost_put_be(at, (uint64_t)base_offset, 8);
    at = fpost_put_be(at, (uint64_t)append_time_ms, 8);
    if (version >= FPOST_LOG_START_FROM)
        at = fpost_put_be(at, (uint64_t)start_offset, 8);
    if (version >= FPOST_FLEXIBLE_FROM)
        return fpost_put_be(at, 0x010000, 3); /* no record errors, no message, no tags */
    if (version >= FPOST_RECORD_ERRORS_FROM)
        at = fpost_put_be(at, 0xffff, 4 + 2); /* no record errors, no message */
    return at;
}

static inline int fpost_length_size(int version, int bytes, uint32_t length)
{
    return version >= FPOST_FLEXIBLE_FROM ? fpost_uvarint_size(length + 1) : bytes;
}

static inline uint8_t *fpost_put_length(uint8_t *at, int version, int bytes, uint32_t length)
{
    return version >= FPOST_FLEXIBLE_FROM ? fpost_put_uvarint(at, length + 1)
                                          : fpost_put_be(at, length, bytes);
}

#endif
