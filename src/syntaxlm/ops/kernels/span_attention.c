/* Span attention between its matrix products, forward and backward (see span_attention.py).
 *
 * R features of a span, the first half of the forward run, the second of the backward run; m the longest span; A
 * neurons of the scorer. The tokens of a sequence are contiguous on the tape, preceded by the m tokens before its first
 * step: the token k steps before the one at position p is at p - k. Queries are the steps that attend, in the order of
 * the tape; a call processes some of them, from `first` on. A query's features are a row of a product: those of the
 * update (R), of the forget gate (R), of the gate (R, not in the paper's form), of the scorer (A).
 * Matrix products are computed in float32 or bfloat16: their inputs and outputs have that type (`half`).
 */

#include "kernels.h"

typedef struct {
    integer size, scorer, maximum, width; /* R, A, m, features of a query */
    int half, threads, released;
    const integer *places, *rows; /* (n,): position of each query on the tape, and its row in all other arrays */
    const void *features;         /* (n, width), from the product */
    float *tape;                  /* (N, 2R): u, f of every token */
    const float *score_weight;    /* (A,) */
    float *scores, *attentions;   /* (n, m) */
    float *contexts;              /* (n, R) */
    /* used in backward */
    float *tape_grads;            /* (N, 2R), added to */
    void *feature_grads;          /* (n, width), input of products */
    const float *context_grads, *score_grads, *attention_grads; /* (n, R); (n, m) or null, twice */
} Layer;

#define LARGEST_TANH 9.0f /* tanh is 1 in float32 from here on */

/* tanh to a few units in the last place, also near 0: x P(x^2) / Q(x^2), fitted for least relative error on 0..9. */
static inline float fine_tanh(float x) {
    x = x > LARGEST_TANH ? LARGEST_TANH : x < -LARGEST_TANH ? -LARGEST_TANH : x;
    float y = x * x;
    float p = 1.33533857e-8f, q = 7.77605475e-7f;
    p = p * y + 2.06082306e-5f;
    q = q * y + 3.28555379e-4f;
    p = p * y + 3.49554053e-3f;
    q = q * y + 2.58768065e-2f;
    p = p * y + 1.33809874e-1f;
    q = q * y + 4.67143031e-1f;
    p = p * y + 9.99999980e-1f;
    q = q * y + 1.0f;
    float value = x * p / q;
    return value > 1.0f ? 1.0f : value < -1.0f ? -1.0f : value;
}

/* u and f from rows of a product (count, stride), whose first features are those of update and forget gate. */
void span_tape(const Layer *l, const void *product, integer stride, const integer *places, integer count) {
    integer R = l->size;
#pragma omp parallel for num_threads(l->threads) schedule(static) if (l->threads > 1)
    for (integer row = 0; row < count; row++) {
        float copy[2 * R], *restrict u = l->tape + places[row] * 2 * R, *restrict f = u + R;
        const float *z = block_of(product, l->half, row * stride, 2 * R, copy), *a = z + R;
        for (integer j = 0; j < R; j++) f[j] = sigmoid(a[j]);
        /* If f is nearly 1, 1 - f loses precision, so it is computed by its own sigmoid. */
        if (l->released)
            for (integer j = 0; j < R; j++) u[j] = sigmoid(-a[j]) * z[j];
        else
            for (integer j = 0; j < R; j++) u[j] = sigmoid(-a[j]) * fine_tanh(z[j]);
    }
}

/* From the gradients of u and f to those of the features they were computed from, in rows of `grads`, (count, stride). */
void span_tape_backward(const Layer *l, const void *product, void *grads, integer stride, const integer *places,
                        integer count) {
    integer R = l->size;
#pragma omp parallel for num_threads(l->threads) schedule(static) if (l->threads > 1)
    for (integer row = 0; row < count; row++) {
        float copy[2 * R], made[2 * R];
        const float *z = block_of(product, l->half, row * stride, 2 * R, copy), *a = z + R;
        const float *u = l->tape + places[row] * 2 * R, *f = u + R;
        const float *u_grad = l->tape_grads + places[row] * 2 * R, *f_grad = u_grad + R;
        for (integer j = 0; j < R; j++) {
            float left = sigmoid(-a[j]);
            made[j] = u_grad[j] * left;
            made[R + j] = f[j] * (f_grad[j] * left - u_grad[j] * u[j]);
        }
        if (!l->released)
            for (integer j = 0; j < R; j++) {
                float tanhs = fine_tanh(z[j]);
                made[j] *= 1 - tanhs * tanhs;
            }
        put_block(grads, l->half, row * stride, 2 * R, made);
    }
}

/* The gate of a query, (R,). */
static inline void gate_of(const Layer *l, integer query, float *restrict gate) {
    integer R = l->size;
    float copy[R];
    const float *logits = block_of(l->features, l->half, l->rows[query] * l->width + 2 * R, R, copy);
    for (integer j = 0; j < R; j++) gate[j] = sigmoid(logits[j]);
}

/* The spans of queries first to last - 1, of lengths 1 to m: (last - first, m, R), input of products. */
void span_represent(const Layer *l, integer first, integer last, void *spans) {
    integer R = l->size, H = R / 2, m = l->maximum;
#pragma omp parallel for num_threads(l->threads) schedule(static) if (l->threads > 1)
    for (integer query = first; query < last; query++) {
        float gate[R], kept[H], run[R], span[R];
        memset(run, 0, sizeof(run));
        for (integer j = 0; j < H; j++) kept[j] = 1;
        if (l->released) gate_of(l, query, gate);
        for (integer k = 0; k < m; k++) {
            const float *restrict u = l->tape + (l->places[query] - 1 - k) * 2 * R, *restrict f = u + R;
            for (integer j = 0; j < H; j++) {
                run[j] += kept[j] * u[j];
                kept[j] *= f[j];
            }
            for (integer j = H; j < R; j++) run[j] = f[j] * run[j] + u[j];
            if (l->released)
                for (integer j = 0; j < R; j++) span[j] = fine_tanh(gate[j] * run[j]);
            put_block(spans, l->half, ((query - first) * m + k) * R, R, l->released ? span : run);
        }
    }
}

/* scores -> softmax, (m,). */
static inline void softmax(const float *scores, integer m, float *weights) {
    float largest = -INFINITY, sum = 0;
    for (integer k = 0; k < m; k++) largest = scores[k] > largest ? scores[k] : largest;
    for (integer k = 0; k < m; k++) weights[k] = fast_exp(scores[k] - largest);
    for (integer k = 0; k < m; k++) sum += weights[k];
    for (integer k = 0; k < m; k++) weights[k] /= sum;
}

/* Scores, attention and context of queries. spans: of these queries. hidden: (last - first, m, A), the spans' side of
 * the scorer, overwritten with its neurons; null if the attention is given. */
void span_attend(const Layer *l, integer first, integer last, const void *spans, void *hidden) {
    integer R = l->size, A = l->scorer, m = l->maximum;
#pragma omp parallel for num_threads(l->threads) schedule(static) if (l->threads > 1)
    for (integer query = first; query < last; query++) {
        integer row = l->rows[query], at = (query - first) * m;
        float *scores = l->scores + row * m, *weights = l->attentions + row * m, copy[R];
        if (hidden) {
            float token_copy[A], hidden_copy[A], made[A];
            const float *token = block_of(l->features, l->half, (row + 1) * l->width - A, A, token_copy);
            for (integer k = 0; k < m; k++) {
                const float *product = block_of(hidden, l->half, (at + k) * A, A, hidden_copy);
                float score = 0;
                for (integer j = 0; j < A; j++) made[j] = fine_tanh(product[j] + token[j]);
                for (integer j = 0; j < A; j++) score += l->score_weight[j] * made[j];
                put_block(hidden, l->half, (at + k) * A, A, made);
                scores[k] = score;
            }
            softmax(scores, m, weights);
        }
        float *restrict context = l->contexts + row * R;
        memset(context, 0, R * sizeof(float));
        for (integer k = 0; k < m; k++) {
            const float *span = block_of(spans, l->half, (at + k) * R, R, copy);
            float weight = weights[k];
            for (integer j = 0; j < R; j++) context[j] += weight * span[j];
        }
    }
}

/* Backward of scores, attention and context. hidden: as left by span_attend. Writes the total gradients of the scores,
 * (last - first, m), and those of the scorer's neurons before their tanh, (last - first, m, A), input of products. */
void span_attend_backward(const Layer *l, integer first, integer last, const void *spans, const void *hidden,
                          float *total_grads, void *hidden_grads) {
    integer R = l->size, A = l->scorer, m = l->maximum;
#pragma omp parallel for num_threads(l->threads) schedule(static) if (l->threads > 1)
    for (integer query = first; query < last; query++) {
        integer row = l->rows[query], at = (query - first) * m;
        const float *context_grad = l->context_grads + row * R, *weights = l->attentions + row * m;
        float *restrict grads = total_grads + at, mean = 0, copy[R];
        for (integer k = 0; k < m; k++) {
            const float *span = block_of(spans, l->half, (at + k) * R, R, copy);
            float sum = l->attention_grads ? l->attention_grads[row * m + k] : 0;
            for (integer j = 0; j < R; j++) sum += span[j] * context_grad[j];
            grads[k] = sum;
            mean += sum * weights[k];
        }
        for (integer k = 0; k < m; k++) {
            grads[k] = weights[k] * (grads[k] - mean);
            if (l->score_grads) grads[k] += l->score_grads[row * m + k];
        }
        float hidden_copy[A], made[A], token[A];
        memset(token, 0, sizeof(token));
        for (integer k = 0; k < m; k++) {
            const float *neurons = block_of(hidden, l->half, (at + k) * A, A, hidden_copy);
            for (integer j = 0; j < A; j++) {
                made[j] = grads[k] * l->score_weight[j] * (1 - neurons[j] * neurons[j]);
                token[j] += made[j];
            }
            put_block(hidden_grads, l->half, (at + k) * A, A, made);
        }
        put_block(l->feature_grads, l->half, (row + 1) * l->width - A, A, token);
    }
}

#define UNITS 128      /* most features of a span that are processed for all lengths at a time, so that buffers are in cache */
#define KEPT (1 << 15) /* most entries of each buffer, which is on the stack */

/* From the gradients of one query's spans to those of the tape and of its gate, for features from, from + 1, ..., all of
 * one run. product: the scorer's side of the spans' gradients, or null. */
static inline void represent_backward(const Layer *l, integer query, integer at, const void *spans, const void *product,
                                      integer from, integer count, int forward) {
    integer R = l->size, m = l->maximum, row = l->rows[query], place = l->places[query];
    float gate[UNITS], gate_grad[UNITS], one[UNITS], other[UNITS];
    float grads[m][count], runs[m + 1][count], kept[m + 1][count];
    const float *context_grad = l->context_grads + row * R + from, *weights = l->attentions + row * m;
    const float *restrict u = l->tape + (place - 1) * 2 * R + from, *restrict f = u + R;
    integer back = 2 * R; /* offset from a token to the previous one */
    for (integer j = 0; j < count; j++) {
        gate[j] = 1;
        gate_grad[j] = 0;
        runs[0][j] = 0;
        kept[0][j] = 1;
    }
    if (l->released) {
        const float *logits = block_of(l->features, l->half, row * l->width + 2 * R + from, count, one);
        for (integer j = 0; j < count; j++) gate[j] = sigmoid(logits[j]);
    }
    for (integer k = 0; k < m; k++) {
        if (forward)
            for (integer j = 0; j < count; j++) {
                runs[k + 1][j] = runs[k][j] + kept[k][j] * u[j - k * back];
                kept[k + 1][j] = kept[k][j] * f[j - k * back];
            }
        else
            for (integer j = 0; j < count; j++) runs[k + 1][j] = f[j - k * back] * runs[k][j] + u[j - k * back];
        float weight = weights[k];
        if (product) {
            const float *through = block_of(product, l->half, (at + k) * R + from, count, one);
            for (integer j = 0; j < count; j++) grads[k][j] = through[j] + weight * context_grad[j];
        } else
            for (integer j = 0; j < count; j++) grads[k][j] = weight * context_grad[j];
        if (l->released) {
            const float *span = block_of(spans, l->half, (at + k) * R + from, count, other);
            for (integer j = 0; j < count; j++) {
                float before = grads[k][j] * (1 - span[j] * span[j]);
                gate_grad[j] += before * runs[k + 1][j];
                grads[k][j] = before * gate[j];
            }
        }
    }
    float *restrict u_grad = l->tape_grads + (place - 1) * 2 * R + from, *restrict f_grad = u_grad + R;
    float carried[UNITS], sum[UNITS];
    memset(carried, 0, sizeof(carried));
    memset(sum, 0, sizeof(sum));
    for (integer k = m - 1; k >= 0; k--) {
        if (forward) /* carried: gradient of the product of forget gates after token k; sum: of all longer spans */
            for (integer j = 0; j < count; j++) {
                sum[j] += grads[k][j];
                u_grad[j - k * back] += kept[k][j] * sum[j];
                f_grad[j - k * back] += kept[k][j] * carried[j];
                carried[j] = u[j - k * back] * sum[j] + f[j - k * back] * carried[j];
            }
        else
            for (integer j = 0; j < count; j++) {
                sum[j] += grads[k][j];
                u_grad[j - k * back] += sum[j];
                f_grad[j - k * back] += sum[j] * runs[k][j];
                sum[j] *= f[j - k * back];
            }
    }
    if (!l->released) return;
    for (integer j = 0; j < count; j++) gate_grad[j] *= gate[j] - gate[j] * gate[j];
    put_block(l->feature_grads, l->half, row * l->width + 2 * R + from, count, gate_grad);
}

/* Backward of span_represent. Threads divide the features, not the queries: a token is in spans of many queries. */
void span_represent_backward(const Layer *l, integer first, integer last, const void *spans, const void *product) {
    integer R = l->size, H = R / 2, m = l->maximum, most = m * UNITS > KEPT ? KEPT / m + 1 : UNITS;
    integer blocks = (H + most - 1) / most;
    if (2 * blocks < l->threads) blocks = (l->threads + 1) / 2;
    integer units = (H + blocks - 1) / blocks;
#pragma omp parallel for num_threads(l->threads) schedule(static) if (l->threads > 1)
    for (integer block = 0; block < 2 * blocks; block++) {
        int forward = block < blocks;
        integer from = (forward ? block : block - blocks) * units, count = H - from < units ? H - from : units;
        if (count <= 0) continue;
        if (!forward) from += H;
        for (integer query = first; query < last; query++)
            represent_backward(l, query, (query - first) * m, spans, product, from, count, forward);
    }
}
