/* Common code of the kernels: bfloat16, exp, rows of products. Inputs and outputs of products are float32 or bfloat16:
   `half`. */

#ifndef SYNTAXLM_KERNELS
#define SYNTAXLM_KERNELS

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

typedef int64_t integer;

/* Flushes subnormal numbers to 0 in this thread until the mode is restored: they are a hundred times slower. */
static inline unsigned flush_subnormal(void) {
#ifdef __SSE2__
    unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | 0x8040);
    return mode;
#else
    return 0;
#endif
}

static inline void restore_mode(unsigned mode) {
#ifdef __SSE2__
    _mm_setcsr(mode);
#else
    (void)mode;
#endif
}

static inline float of_half(uint16_t bits) {
    union { uint32_t bits; float value; } u = {(uint32_t)bits << 16};
    return u.value;
}

static inline uint16_t to_half(float value) {
    union { float value; uint32_t bits; } u = {value};
    uint32_t rounded = (u.bits + 0x7fffu + ((u.bits >> 16) & 1u)) >> 16;
    return (u.bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0 : (uint16_t)rounded;
}

/* exp to a few units in the last place, vectorised by the compiler; NaN stays NaN. */
static inline float fast_exp(float x) {
    x = x > 88.0f ? 88.0f : x < -87.0f ? -87.0f : x;
    float n = rintf(x * 1.44269504f);
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    union { int32_t bits; float value; } scale = {((int32_t)n + 127) << 23};
    return p * scale.value;
}

static inline float sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }

static inline float fast_tanh(float x) { return 2.0f / (1.0f + fast_exp(-2.0f * x)) - 1.0f; }

/* Entries of a product's result as float32; `copy` is a buffer for them. */
static inline const float *block_of(const void *product, int half, integer at, integer size, float *copy) {
    if (!half) return (const float *)product + at;
    const uint16_t *bits = (const uint16_t *)product + at;
    for (integer j = 0; j < size; j++) copy[j] = of_half(bits[j]);
    return copy;
}

/* Writes entries of a product's input from float32. */
static inline void put_block(void *product, int half, integer at, integer size, const float *values) {
    if (!half) {
        memcpy((float *)product + at, values, size * sizeof(float));
        return;
    }
    uint16_t *bits = (uint16_t *)product + at;
    for (integer j = 0; j < size; j++) bits[j] = to_half(values[j]);
}

#endif
