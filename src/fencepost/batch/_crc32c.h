/* CRC-32C: the processor's instruction where it has one, tables of eight bytes a step elsewhere.
 *
 * One crc32 instruction takes three cycles but three of them can be under way at once, so long
 * input is cut into three runs whose checksums are computed side by side. Joining them needs the
 * checksum of a run followed by n zero bytes, which is linear over GF(2): four table look-ups,
 * one per byte of the checksum. The tables are made at import by the same arithmetic.
 */
#ifndef FENCEPOST_CRC32C_H
#define FENCEPOST_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CRC_POLYNOMIAL 0x82f63b78u
#define CRC_LONG_BYTES 4096
#define CRC_SHORT_BYTES 256

#if defined(__GNUC__) && defined(__x86_64__)
#define CRC_HAS_X86 1
#include <nmmintrin.h>
#else
#define CRC_HAS_X86 0
#endif

typedef uint32_t (*crc_function)(uint32_t state, const uint8_t *data, size_t size);

static uint32_t crc_table[8][256];
static crc_function crc_update;

static uint32_t crc_software(uint32_t state, const uint8_t *data, size_t size)
{
    while (size >= 8) {
        uint32_t low = state ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 |
                                (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
        state = crc_table[7][low & 0xff] ^ crc_table[6][low >> 8 & 0xff] ^
                crc_table[5][low >> 16 & 0xff] ^ crc_table[4][low >> 24] ^
                crc_table[3][data[4]] ^ crc_table[2][data[5]] ^
                crc_table[1][data[6]] ^ crc_table[0][data[7]];
        data += 8;
        size -= 8;
    }
    while (size-- > 0)
        state = crc_table[0][(state ^ *data++) & 0xff] ^ state >> 8;
    return state;
}

#if CRC_HAS_X86

static uint32_t crc_long_zeros[4][256], crc_short_zeros[4][256];

/* Fills the table for "followed by `zeros` zero bytes": the image of each single bit, then sums. */
static void crc_fill_zeros(uint32_t table[4][256], size_t zeros)
{
    static const uint8_t nothing[CRC_LONG_BYTES];
    for (int byte = 0; byte < 4; byte++) {
        table[byte][0] = 0;
        for (int bit = 0; bit < 8; bit++) {
            uint32_t image = crc_software((uint32_t)1 << (8 * byte + bit), nothing, zeros);
            for (int below = 0; below < 1 << bit; below++)
                table[byte][1 << bit | below] = table[byte][below] ^ image;
        }
    }
}

static inline uint32_t crc_shift(uint32_t table[4][256], uint32_t state)
{
    return table[0][state & 0xff] ^ table[1][state >> 8 & 0xff] ^
           table[2][state >> 16 & 0xff] ^ table[3][state >> 24];
}

static inline uint64_t crc_load(const uint8_t *data)
{
    uint64_t word;
    memcpy(&word, data, sizeof word);
    return word;
}

/* Three runs of `run` bytes, repeated while they fit. */
__attribute__((target("sse4.2"))) static inline uint32_t
crc_three_runs(uint32_t state, const uint8_t **cursor, size_t *size, size_t run,
               uint32_t table[4][256])
{
    const uint8_t *data = *cursor;
    while (*size >= 3 * run) {
        uint64_t first = state, second = 0, third = 0;
        for (size_t at = 0; at < run; at += 8) {
            first = _mm_crc32_u64(first, crc_load(data + at));
            second = _mm_crc32_u64(second, crc_load(data + run + at));
            third = _mm_crc32_u64(third, crc_load(data + 2 * run + at));
        }
        state = crc_shift(table, (uint32_t)first) ^ (uint32_t)second;
        state = crc_shift(table, state) ^ (uint32_t)third;
        data += 3 * run;
        *size -= 3 * run;
    }
    *cursor = data;
    return state;
}

__attribute__((target("sse4.2"))) static uint32_t
crc_sse42(uint32_t state, const uint8_t *data, size_t size)
{
    state = crc_three_runs(state, &data, &size, CRC_LONG_BYTES, crc_long_zeros);
    state = crc_three_runs(state, &data, &size, CRC_SHORT_BYTES, crc_short_zeros);
    uint64_t wide = state;
    for (; size >= 8; size -= 8, data += 8)
        wide = _mm_crc32_u64(wide, crc_load(data));
    state = (uint32_t)wide;
    while (size-- > 0)
        state = _mm_crc32_u8(state, *data++);
    return state;
}

#endif /* CRC_HAS_X86 */

/* Makes the tables and chooses; returns whether the processor's instruction is used. */
static int crc_initialise(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t state = byte;
        for (int bit = 0; bit < 8; bit++)
            state = state >> 1 ^ (CRC_POLYNOMIAL & (0u - (state & 1)));
        crc_table[0][byte] = state;
    }
    for (int table = 1; table < 8; table++)
        for (int byte = 0; byte < 256; byte++)
            crc_table[table][byte] =
                crc_table[0][crc_table[table - 1][byte] & 0xff] ^ crc_table[table - 1][byte] >> 8;
    crc_update = crc_software;
#if CRC_HAS_X86
    if (__builtin_cpu_supports("sse4.2")) {
        crc_fill_zeros(crc_long_zeros, CRC_LONG_BYTES);
        crc_fill_zeros(crc_short_zeros, CRC_SHORT_BYTES);
        crc_update = crc_sse42;
        return 1;
    }
#endif
    return 0;
}

static inline uint32_t crc32c_of(const uint8_t *data, size_t size, uint32_t value)
{
    return ~crc_update(~value, data, size);
}

#endif
