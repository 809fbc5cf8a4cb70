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

#define FPOST_CRC_POLYNOMIAL 0x82f63b78u
#define FPOST_CRC_LONG_BYTES 4096
#define FPOST_CRC_SHORT_BYTES 256

#if defined(__GNUC__) && defined(__x86_64__)
#define FPOST_CRC_HAS_X86 1
#include <nmmintrin.h>
#else
#define FPOST_CRC_HAS_X86 0
#endif

typedef uint32_t (*fpost_crc_function)(uint32_t state, const uint8_t *data, size_t size);

static uint32_t fpost_crc_table[8][256];
static fpost_crc_function fpost_crc_update;

static uint32_t fpost_crc_software(uint32_t state, const uint8_t *data, size_t size)
{
    while (size >= 8) {
        uint32_t low = state ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 |
                                (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
        state = fpost_crc_table[7][low & 0xff] ^ fpost_crc_table[6][low >> 8 & 0xff] ^
                fpost_crc_table[5][low >> 16 & 0xff] ^ fpost_crc_table[4][low >> 24] ^
                fpost_crc_table[3][data[4]] ^ fpost_crc_table[2][data[5]] ^
                fpost_crc_table[1][data[6]] ^ fpost_crc_table[0][data[7]];
        data += 8;
        size -= 8;
    }
    while (size-- > 0)
        state = fpost_crc_table[0][(state ^ *data++) & 0xff] ^ state >> 8;
    return state;
}

#if FPOST_CRC_HAS_X86

static uint32_t fpost_crc_long_zeros[4][256], fpost_crc_short_zeros[4][256];

/* Fills the table for "followed by `zeros` zero bytes": the image of each single bit, then sums. */
static void fpost_crc_fill_zeros(uint32_t table[4][256], size_t zeros)
{
    static const uint8_t nothing[FPOST_CRC_LONG_BYTES];
    for (int byte = 0; byte < 4; byte++) {
        table[byte][0] = 0;
        for (int bit = 0; bit < 8; bit++) {
            uint32_t image = fpost_crc_software((uint32_t)1 << (8 * byte + bit), nothing, zeros);
            for (int below = 0; below < 1 << bit; below++)
                table[byte][1 << bit | below] = table[byte][below] ^ image;
        }
    }
}

static inline uint32_t fpost_crc_shift(uint32_t table[4][256], uint32_t state)
{
    return table[0][state & 0xff] ^ table[1][state >> 8 & 0xff] ^
           table[2][state >> 16 & 0xff] ^ table[3][state >> 24];
}

static inline uint64_t fpost_crc_load(const uint8_t *data)
{
    uint64_t word;
    memcpy(&word, data, sizeof word);
    return word;
}

/* Three runs of `run` bytes, repeated while they fit. */
__attribute__((target("sse4.2"))) static inline uint32_t
fpost_crc_three_runs(uint32_t state, const uint8_t **cursor, size_t *size, size_t run,
                     uint32_t table[4][256])
{
    const uint8_t *data = *cursor;
    while (*size >= 3 * run) {
        uint64_t first = state, second = 0, third = 0;
        for (size_t at = 0; at < run; at += 8) {
            first = _mm_crc32_u64(first, fpost_crc_load(data + at));
            second = _mm_crc32_u64(second, fpost_crc_load(data + run + at));
            third = _mm_crc32_u64(third, fpost_crc_load(data + 2 * run + at));
        }
        state = fpost_crc_shift(table, (uint32_t)first) ^ (uint32_t)second;
        state = fpost_crc_shift(table, state) ^ (uint32_t)third;
        data += 3 * run;
        *size -= 3 * run;
    }
    *cursor = data;
    return state;
}

__attribute__((target("sse4.2"))) static uint32_t
fpost_crc_sse42(uint32_t state, const uint8_t *data, size_t size)
{
    state = fpost_crc_three_runs(state, &data, &size, FPOST_CRC_LONG_BYTES, fpost_crc_long_zeros);
    state = fpost_crc_three_runs(state, &data, &size, FPOST_CRC_SHORT_BYTES, fpost_crc_short_zeros);
    uint64_t wide = state;
    for (; size >= 8; size -= 8, data += 8)
        wide = _mm_crc32_u64(wide, fpost_crc_load(data));
    state = (uint32_t)wide;
    while (size-- > 0)
        state = _mm_crc32_u8(state, *data++);
    return state;
}

#endif /* FPOST_CRC_HAS_X86 */

/* Makes the tables and chooses; returns whether the processor's instruction is used. */
static int fpost_crc_initialise(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t state = byte;
        for (int bit = 0; bit < 8; bit++)
            state = state >> 1 ^ (FPOST_CRC_POLYNOMIAL & (0u - (state & 1)));
        fpost_crc_table[0][byte] = state;
    }
    for (int table = 1; table < 8; table++)
        for (int byte = 0; byte < 256; byte++)
            fpost_crc_table[table][byte] =
                fpost_crc_table[0][fpost_crc_table[table - 1][byte] & 0xff] ^
                fpost_crc_table[table - 1][byte] >> 8;
    fpost_crc_update = fpost_crc_software;
#if FPOST_CRC_HAS_X86
    if (__builtin_cpu_supports("sse4.2")) {
        fpost_crc_fill_zeros(fpost_crc_long_zeros, FPOST_CRC_LONG_BYTES);
        fpost_crc_fill_zeros(fpost_crc_short_zeros, FPOST_CRC_SHORT_BYTES);
        fpost_crc_update = fpost_crc_sse42;
        return 1;
    }
#endif
    return 0;
}

static inline uint32_t fpost_crc32c_of(const uint8_t *data, size_t size, uint32_t value)
{
    return ~fpost_crc_update(~value, data, size);
}

#endif
