/* DIORA's passes, one width of spans at a time: everything between the matrix products.

   Charts are (B, S, features), a sentence's spans by width, then by start. The P pairs of a width are K pairs for each of
   m spans, (K, m). Inputs and outputs of products are float32 or bfloat16 (`half`), all else is float32. Sentences are
   independent, so threads share them. */

#include "kernels.h"

#define INLINE static inline __attribute__((always_inline))

typedef struct {
    integer columns, spans, size, pairs, ways, cells; /* B, S, D, P, K, m */
    int half, threads;
    const integer *firsts, *seconds; /* (P,) spans of the first and second vector of each pair */
} Level;

INLINE float get(const void *values, const int half, integer at) {
    return half ? of_half(((const uint16_t *)values)[at]) : ((const float *)values)[at];
}

INLINE void put(void *values, const int half, integer at, float value) {
    if (half)
        ((uint16_t *)values)[at] = to_half(value);
    else
        ((float *)values)[at] = value;
}

INLINE const void *from(const void *values, const int half, integer at) {
    return (const char *)values + at * (half ? 2 : 4);
}

/* NaN stays NaN. */
INLINE float relu(float value) { return value < 0 ? 0 : value; }

/* `kept` if `value` is positive, else 0, without a branch, which would not be vectorised. */
INLINE float if_positive(float value, float kept) {
    union { float value; uint32_t bits; } u = {kept};
    u.bits &= -(uint32_t)(value > 0);
    return u.value;
}

/* hidden = relu(F + G); scores = Q . H + both spans' scores. F and Q are the halves of a row of `first`. */
INLINE void combine(const Level *l, const void *first, const void *second, const float *vectors,
                    const float *first_scores, const float *second_scores, void *hidden, float *scores,
                    const int half) {
    const integer size = l->size;
#pragma omp parallel for num_threads(l->threads)
    for (integer b = 0; b < l->columns; b++) {
        unsigned mode = flush_subnormal();
        for (integer p = 0; p < l->pairs; p++) {
            integer i = b * l->spans + l->firsts[p], j = b * l->spans + l->seconds[p];
            const void *restrict f = from(first, half, 2 * i * size), *restrict g = from(second, half, j * size);
            const void *restrict q = from(f, half, size);
            const float *restrict h = vectors + j * size;
            void *restrict x = (void *)from(hidden, half, (b * l->pairs + p) * size);
            float dot = 0;
            for (integer d = 0; d < size; d++) {
                float sum = get(f, half, d) + get(g, half, d);
                put(x, half, d, relu(sum));
                dot += get(q, half, d) * h[d];
            }
            scores[b * l->pairs + p] = dot + first_scores[i] + second_scores[j];
        }
        restore_mode(mode);
    }
}

/* mixed = sum over the K pairs of each span of weight * relu(product). */
INLINE void mix(const Level *l, const void *product, const float *weights, float *mixed, const int half) {
    const integer size = l->size;
#pragma omp parallel for num_threads(l->threads)
    for (integer b = 0; b < l->columns; b++)
        for (integer c = 0; c < l->cells; c++) {
            float *restrict sum = mixed + (b * l->cells + c) * size;
            memset(sum, 0, size * sizeof(float));
            for (integer k = 0; k < l->ways; k++) {
                integer p = b * l->pairs + k * l->cells + c;
                const void *restrict z = from(product, half, p * size);
                float weight = weights[p];
                for (integer d = 0; d < size; d++) {
                    float value = get(z, half, d);
                    sum[d] += weight * relu(value);
                }
            }
        }
}

/* Replaces the product by its gradient, given that of `mixed`; weight_grads: of the weights. */
INLINE void mix_backward(const Level *l, void *product, const float *weights, const float *grads, float *weight_grads,
                         const int half) {
    const integer size = l->size;
#pragma omp parallel for num_threads(l->threads)
    for (integer b = 0; b < l->columns; b++) {
        unsigned mode = flush_subnormal();
        for (integer c = 0; c < l->cells; c++) {
            const float *restrict grad = grads + (b * l->cells + c) * size;
            for (integer k = 0; k < l->ways; k++) {
                integer p = b * l->pairs + k * l->cells + c;
                void *restrict z = (void *)from(product, half, p * size);
                float weight = weights[p], dot = 0;
                for (integer d = 0; d < size; d++) {
                    float value = get(z, half, d);
                    dot += grad[d] * relu(value);
                }
                weight_grads[p] = dot;
                for (integer d = 0; d < size; d++) {
                    put(z, half, d, if_positive(get(z, half, d), weight * grad[d]));
                }
            }
        }
        restore_mode(mode);
    }
}

/* Adds the gradients of a width's pairs to those of the charts. hidden_grads, score_grads: of hidden and scores. */
INLINE void combine_backward(const Level *l, const void *first, const float *vectors, const void *hidden,
                             const void *hidden_grads, const float *score_grads, float *first_grads,
                             float *second_grads, float *vector_grads, float *first_score_grads,
                             float *second_score_grads, const int half) {
    const integer size = l->size;
#pragma omp parallel for num_threads(l->threads)
    for (integer b = 0; b < l->columns; b++) {
        unsigned mode = flush_subnormal();
        for (integer p = 0; p < l->pairs; p++) {
            integer i = b * l->spans + l->firsts[p], j = b * l->spans + l->seconds[p], at = (b * l->pairs + p) * size;
            const void *restrict q = from(first, half, (2 * i + 1) * size);
            const void *restrict x = from(hidden, half, at), *restrict dx = from(hidden_grads, half, at);
            const float *restrict h = vectors + j * size;
            float *restrict df = first_grads + 2 * i * size, *restrict dq = df + size;
            float *restrict dg = second_grads + j * size, *restrict dh = vector_grads + j * size;
            float score = score_grads[b * l->pairs + p];
            for (integer d = 0; d < size; d++) {
                float grad = if_positive(get(x, half, d), get(dx, half, d));
                df[d] += grad;
                dg[d] += grad;
            }
            for (integer d = 0; d < size; d++) {
                dq[d] += score * h[d];
                dh[d] += score * get(q, half, d);
            }
            first_score_grads[i] += score;
            second_score_grads[j] += score;
        }
        restore_mode(mode);
    }
}

#define BOTH(name, ...) if (l->half) name(l, __VA_ARGS__, 1); else name(l, __VA_ARGS__, 0)

void diora_combine(const Level *l, const void *first, const void *second, const float *vectors,
                   const float *first_scores, const float *second_scores, void *hidden, float *scores) {
    BOTH(combine, first, second, vectors, first_scores, second_scores, hidden, scores);
}

void diora_mix(const Level *l, const void *product, const float *weights, float *mixed) {
    BOTH(mix, product, weights, mixed);
}

void diora_mix_backward(const Level *l, void *product, const float *weights, const float *grads, float *weight_grads) {
    BOTH(mix_backward, product, weights, grads, weight_grads);
}

void diora_combine_backward(const Level *l, const void *first, const float *vectors, const void *hidden,
                            const void *hidden_grads, const float *score_grads, float *first_grads,
                            float *second_grads, float *vector_grads, float *first_score_grads,
                            float *second_score_grads) {
    BOTH(combine_backward, first, vectors, hidden, hidden_grads, score_grads, first_grads, second_grads, vector_grads,
         first_score_grads, second_score_grads);
}
