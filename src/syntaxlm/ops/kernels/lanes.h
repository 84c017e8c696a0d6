/* Vectors of 16 float32, and blocks of 64 entries of a row of float32 or bfloat16 (`half`). */

#ifndef SYNTAXLM_LANES
#define SYNTAXLM_LANES

#include "kernels.h"

#define BLOCK 64 /* entries of a row that are in registers together */

typedef float lanes __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint32_t bits32 __attribute__((vector_size(64)));
typedef int32_t signed32 __attribute__((vector_size(64)));
typedef uint32_t pairs_of_half __attribute__((vector_size(64), aligned(2), may_alias));

static inline lanes greater(lanes one, lanes other) {
    bits32 mask = (bits32)(one > other);
    return (lanes)(((bits32)one & mask) | ((bits32)other & ~mask));
}

static inline float sum_of(lanes values) {
    float sum = 0;
    for (int j = 0; j < 16; j++) sum += values[j];
    return sum;
}

static inline float greatest_of(lanes values) {
    float most = values[0];
    for (int j = 1; j < 16; j++) most = values[j] > most ? values[j] : most;
    return most;
}

/* Entries at .. at + 64. Pairs of bfloat16 are separated by shifts, so even and odd entries are in separate vectors: 0
   and 2 have the even entries, 1 and 3 the odd entries of 32 each. `store_block` restores their order. */
static inline void load_block(const void *from, int half, integer at, lanes values[4]) {
    for (int j = 0; j < 4; j += 1 + half) {
        if (!half) {
            values[j] = *(const lanes *)((const float *)from + at + 16 * j);
            continue;
        }
        bits32 pairs = *(const pairs_of_half *)((const uint16_t *)from + at + 16 * j);
        values[j] = (lanes)(pairs << 16);
        values[j + 1] = (lanes)(pairs & 0xffff0000u);
    }
}

/* Rounded to nearest, ties to even. */
static inline void store_block(void *to, int half, integer at, const lanes values[4]) {
    for (int j = 0; j < 4; j += 1 + half) {
        if (!half) {
            *(lanes *)((float *)to + at + 16 * j) = values[j];
            continue;
        }
        bits32 even = (bits32)values[j], odd = (bits32)values[j + 1];
        even += 0x7fffu + ((even >> 16) & 1u);
        odd += 0x7fffu + ((odd >> 16) & 1u);
        *(pairs_of_half *)((uint16_t *)to + at + 16 * j) = (even >> 16) | (odd & 0xffff0000u);
    }
}

/* exp of values up to 0, to a few units in the last place; 0 below -87; NaN stays NaN. */
static inline lanes exp_of_negative(lanes given) {
    lanes lowest = (lanes){0} - 87.0f, x = greater(given, lowest);
    bits32 kept = (bits32)(given > lowest), is_nan = (bits32)(given != given);
    signed32 power = __builtin_convertvector(x * 1.44269504f - 0.5f, signed32); /* rounds: x is not positive */
    lanes n = __builtin_convertvector(power, lanes);
    lanes r = x - n * 0.693359375f + n * 2.12194440e-4f;
    lanes p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    bits32 scale = (bits32)(power + 127) << 23;
    return (lanes)(((bits32)(p * (lanes)scale) & kept) | ((bits32)given & is_nan));
}

#endif
