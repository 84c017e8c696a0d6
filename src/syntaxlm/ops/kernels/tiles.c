/* Products of bfloat16 matrices with float32 sums, in AMX tiles or, on processors without these, in AVX-512 registers.

   The right factor is packed once and used for many small left factors, for which a library's own packing would cost
   more than the product. Sizes are multiples of 32, except the rows of a left factor. A tile is 16 rows of 64 bytes. */

#define _GNU_SOURCE /* for syscall */
#include "kernels.h"

#ifdef __AVX512BF16__
#include <immintrin.h>

#define TILE 512       /* entries of a tile of bfloat16 */
#define PACKED 262144  /* entries of a left factor packed at a time: a fraction of a core's L2 cache */
#define INNER 1024     /* rows of the inner dimension summed at a time if both factors are packed on the fly */

#if defined(__AMX_BF16__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

/* Whether the system lets this process use tiles. May be called repeatedly. */
int tiles_usable(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

typedef struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} Configuration;

/* Other libraries rely on the tile configuration that they set, so it is restored. */
static void configure(Configuration *before) {
    Configuration ours = {.palette = 1};
    for (int j = 0; j < 8; j++) ours.bytes[j] = 64, ours.rows[j] = 16;
    _tile_storeconfig(before);
    _tile_loadconfig(&ours);
}

static void restore(const Configuration *before) {
    if (before->palette)
        _tile_loadconfig(before);
    else
        _tile_release();
}

/* out (32, 32; stride) = or += products of two tiles of rows, each followed by the next ones of its 16 rows, and two
   tiles of columns. */
static inline void multiply(const uint16_t *a, const uint16_t *b, integer steps, integer rows, int add, float *out,
                            integer stride) {
    const uint16_t *a1 = a + steps * TILE, *b1 = b + steps * TILE;
    (void)rows;
    if (add) {
        _tile_loadd(0, out, 4 * stride);
        _tile_loadd(1, out + 16, 4 * stride);
        _tile_loadd(2, out + 16 * stride, 4 * stride);
        _tile_loadd(3, out + 16 * stride + 16, 4 * stride);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (integer k = 0; k < steps * TILE; k += TILE) {
        _tile_loadd(4, a + k, 64);
        _tile_loadd(6, b + k, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b1 + k, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a1 + k, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, out, 4 * stride);
    _tile_stored(1, out + 16, 4 * stride);
    _tile_stored(2, out + 16 * stride, 4 * stride);
    _tile_stored(3, out + 16 * stride + 16, 4 * stride);
}

#else

int tiles_usable(void) { return 1; }

typedef int Configuration;
static void configure(Configuration *before) { (void)before; }
static void restore(const Configuration *before) { (void)before; }

#define ROWS 8 /* their sums stay in registers */

/* As above, of the first rows only. */
static inline void multiply(const uint16_t *a, const uint16_t *b, integer steps, integer rows, int add, float *out,
                            integer stride) {
    for (integer m = 0; m < rows; m += ROWS) {
        const uint16_t *from = a + m / 16 * steps * TILE + m % 16 * 32;
        __m512 sums[ROWS][2];
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < 2; j++)
                sums[i][j] = add ? _mm512_loadu_ps(out + (m + i) * stride + 16 * j) : _mm512_setzero_ps();
        for (integer k = 0; k < steps * TILE; k += TILE)
            for (integer pair = 0; pair < 16; pair++) {
                __m512bh b0 = (__m512bh)_mm512_loadu_si512(b + k + 32 * pair);
                __m512bh b1 = (__m512bh)_mm512_loadu_si512(b + steps * TILE + k + 32 * pair);
                for (int i = 0; i < ROWS; i++) {
                    int32_t bits;
                    memcpy(&bits, from + k + 32 * i + 2 * pair, 4);
                    __m512bh x = (__m512bh)_mm512_set1_epi32(bits);
                    sums[i][0] = _mm512_dpbf16_ps(sums[i][0], x, b0);
                    sums[i][1] = _mm512_dpbf16_ps(sums[i][1], x, b1);
                }
            }
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < 2; j++) _mm512_storeu_ps(out + (m + i) * stride + 16 * j, sums[i][j]);
    }
}

#endif

/* Transposes 16 rows of 16 words of 32 bits. */
static inline void transpose(__m512i r[16]) {
    __m512i t[16];
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 4; i++) {
        r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
        t[4 + i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
        t[8 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
        t[12 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
        r[4 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88);
        r[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
        r[12 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xdd);
    }
}

/* The tile of a right factor: rows k and k + 1 of 16 columns as pairs, for 32 rows. Rows from `inner` on are 0. */
static inline void pairs(const uint16_t *from, integer stride, integer inner, __m512i r[16]) {
    for (integer i = 0; i < 16; i++) {
        __m512i even = _mm512_setzero_si512(), odd = even;
        if (2 * i < inner) even = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(from + 2 * i * stride)));
        if (2 * i + 1 < inner)
            odd = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(from + (2 * i + 1) * stride)));
        r[i] = _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
    }
}

/* Packs the right factor w of x -> x w, (inner, columns), or if `transposed` of x -> x w^T, (columns, inner). */
void tiles_pack(const uint16_t *w, integer inner, integer columns, int transposed, uint16_t *packed) {
    for (integer n = 0; n < columns; n += 16)
        for (integer k = 0; k < inner; k += 32, packed += TILE) {
            __m512i r[16];
            if (transposed) {
                for (integer i = 0; i < 16; i++) r[i] = _mm512_loadu_si512(w + (n + i) * inner + k);
                transpose(r);
            } else
                pairs(w + k * columns + n, columns, 32, r);
            for (integer i = 0; i < 16; i++) _mm512_storeu_si512(packed + 32 * i, r[i]);
        }
}

/* c (rows, columns; stride) = a (rows, inner; stride) times the packed factor; c is bfloat16 (`half`) or float32.
   scratch: space for 262144 entries, or for 32 rows of a if these are more. */
void tiles_product(const uint16_t *a, integer a_stride, integer rows, integer inner, const uint16_t *packed,
                   integer columns, void *c, integer c_stride, int half, uint16_t *scratch, integer threads) {
    integer steps = inner / 32, most = PACKED / inner / 32 * 32;
    if (most < 32) most = 32;
    for (integer from = 0; from < rows; from += most) {
        integer count = rows - from < most ? rows - from : most;
        uint16_t *to = scratch;
        for (integer m = 0; m < count; m += 16)
            for (integer k = 0; k < inner; k += 32, to += TILE)
                for (integer i = 0; i < 16; i++)
                    _mm512_storeu_si512(to + 32 * i, m + i < count
                                                         ? _mm512_loadu_si512(a + (from + m + i) * a_stride + k)
                                                         : _mm512_setzero_si512());
        if ((count + 15) / 16 % 2) memset(to, 0, 2 * TILE * steps);
#pragma omp parallel num_threads(threads) if (threads > 1)
        {
            Configuration before;
            configure(&before);
            float out[32 * 32] __attribute__((aligned(64)));
#pragma omp for schedule(static)
            for (integer n = 0; n < columns; n += 32) {
                for (integer m = 0; m < count; m += 32) {
                    integer last = count - m < 32 ? count - m : 32;
                    multiply(scratch + m / 16 * steps * TILE, packed + n / 16 * steps * TILE, steps, last, 0, out, 32);
                    for (integer i = 0; i < last; i++) {
                        __m512 low = _mm512_load_ps(out + 32 * i), high = _mm512_load_ps(out + 32 * i + 16);
                        integer at = (from + m + i) * c_stride + n;
                        if (half)
                            _mm512_storeu_si512((uint16_t *)c + at, (__m512i)_mm512_cvtne2ps_pbh(high, low));
                        else {
                            _mm512_storeu_ps((float *)c + at, low);
                            _mm512_storeu_ps((float *)c + at + 16, high);
                        }
                    }
                }
            }
            restore(&before);
        }
    }
}

/* c (rows, columns) float32 = a^T b: a (inner, rows; stride), b (inner, columns; stride), for large inner.
   scratch: space for min(inner, 1024) rows of b, rounded up to 32. */
void tiles_product_of_sums(const uint16_t *a, integer a_stride, const uint16_t *b, integer b_stride, integer inner,
                           integer rows, integer columns, float *c, uint16_t *scratch, integer threads) {
    for (integer from = 0; from < inner; from += INNER) {
        integer count = inner - from < INNER ? inner - from : INNER, steps = (count + 31) / 32;
        uint16_t *to = scratch;
        for (integer n = 0; n < columns; n += 16)
            for (integer k = 0; k < count; k += 32, to += TILE) {
                __m512i r[16];
                pairs(b + (from + k) * b_stride + n, b_stride, count - k, r);
                for (integer i = 0; i < 16; i++) _mm512_storeu_si512(to + 32 * i, r[i]);
            }
#pragma omp parallel num_threads(threads) if (threads > 1)
        {
            Configuration before;
            configure(&before);
            uint16_t left[32 * INNER] __attribute__((aligned(64)));
#pragma omp for schedule(static)
            for (integer m = 0; m < rows; m += 32) {
                for (integer k = 0; k < count; k += 32)
                    for (integer half = 0; half < 2; half++) {
                        __m512i r[16];
                        pairs(a + (from + k) * a_stride + m + 16 * half, a_stride, count - k, r);
                        transpose(r);
                        uint16_t *tile = left + (half * steps + k / 32) * TILE;
                        for (integer i = 0; i < 16; i++) _mm512_store_si512(tile + 32 * i, r[i]);
                    }
                for (integer n = 0; n < columns; n += 32)
                    multiply(left, scratch + n / 16 * steps * TILE, steps, 32, from > 0, c + m * columns + n, columns);
            }
            restore(&before);
        }
    }
}

#else

int tiles_usable(void) { return 0; }

#endif
