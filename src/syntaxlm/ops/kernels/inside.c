/* The pointwise parts of the inside and outside algorithms: sums over the splits of spans, between matrix products.

   One row per span, ordered by width, then sentence (longest first), then first word; see `Layout`. R factors of a span,
   padded to a multiple of 64. Charts are float32 or bfloat16 (`half`), sums float32, log-scales float64. */

#include <float.h>

#include "lanes.h"

#define LONGEST 4096 /* most words of a sentence */
#define TINY 1e-22f  /* smaller probabilities and gradients become 0: their products with rules would be subnormal,
                        and float32 matrix products of subnormal numbers take ten times as long */

typedef struct {
    integer size;            /* R, padded */
    int half, threads;
    const integer *lengths;  /* number of words of each sentence */
    const integer *begins;   /* index of each sentence's first word among all words */
    const integer *starts;   /* the first row of each width */
    const integer *counts;   /* number of sentences that have spans of each width */
    void *inside;            /* (rows, R): o, scaled */
    void *children;          /* (rows, 2R): a and b, inside probabilities as a left and as a right child */
    double *scales;          /* (rows,): logarithm of the divisor of o, a and b */
    const double *weights;   /* (rows,) or null: log-weights of spans, included in the scales */
    void *inside_grads;      /* (rows, R): G */
    void *children_grads;    /* (rows, 2R): H */
    float *marginals;        /* (rows,) or null */
} Chart;

static inline integer row_of(const Chart *c, integer sentence, integer first, integer width) {
    return c->starts[width] + c->begins[sentence] - sentence * (width - 1) + first;
}

/* NaN stays NaN. */
static inline void clear_tiny(lanes values[4]) {
    lanes most = (lanes){0} + TINY;
    for (int j = 0; j < 4; j++) {
        bits32 tiny = (bits32)((values[j] <= most) & (values[j] >= -most));
        values[j] = (lanes)((bits32)values[j] & ~tiny);
    }
}

/* sums of factor * left * right over terms, for 64 entries; rows are given by their addresses. */
static inline __attribute__((always_inline)) void block_sums(const void *left, const void *right, int half,
                                                             const integer *left_at, const integer *right_at,
                                                             const float *factors, integer terms, integer at,
                                                             lanes sums[4]) {
    lanes s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    for (integer k = 0; k < terms; k++) {
        lanes l[4], r[4];
        load_block(left, half, left_at[k] + at, l);
        load_block(right, half, right_at[k] + at, r);
        float f = factors[k];
        s0 += f * (l[0] * r[0]);
        s1 += f * (l[1] * r[1]);
        s2 += f * (l[2] * r[2]);
        s3 += f * (l[3] * r[3]);
    }
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

/* Scaled by exp(greatest), the largest of the children's scales. Terms far below it are left out, unless the sums are so
   small that one of these terms may be larger: children of probable spans may fit no rule. Then the scale is lowered. */
static inline __attribute__((always_inline)) void span_forward(const Chart *c, int half, integer b, integer first,
                                                               integer width, float *values) {
    integer R = c->size, row = row_of(c, b, first, width), left_at[LONGEST], right_at[LONGEST];
    double logs[LONGEST], greatest = -DBL_MAX, level = -INFINITY, below;
    float factors[LONGEST], most;
    for (integer k = 1; k < width; k++) {
        logs[k - 1] = c->scales[row_of(c, b, first, k)] + c->scales[row_of(c, b, first + k, width - k)];
        if (logs[k - 1] > greatest) greatest = logs[k - 1];
    }
    for (;; greatest = below > level ? below : level) {
        integer terms = 0;
        below = -INFINITY; /* the largest term that is left out */
        for (integer k = 1; k < width; k++) {
            float difference = (float)(logs[k - 1] - greatest);
            if (difference <= -40.0f) {
                if (logs[k - 1] > below) below = logs[k - 1];
                continue;
            }
            factors[terms] = fast_exp(difference);
            left_at[terms] = row_of(c, b, first, k) * 2 * R;
            right_at[terms++] = row_of(c, b, first + k, width - k) * 2 * R + R;
        }
        lanes top = {0}, total = {0};
        for (integer at = 0; at < R; at += BLOCK) {
            lanes sums[4];
            block_sums(c->children, c->children, half, left_at, right_at, factors, terms, at, sums);
            for (int j = 0; j < 4; j++) {
                top = greater(sums[j], top);
                total += sums[j];
                *(lanes *)(values + at + 16 * j) = sums[j];
            }
        }
        most = sum_of(total);
        if (most == most) most = greatest_of(top); /* NaN stays NaN */
        level = most < FLT_MIN ? -INFINITY : greatest + log(most);
        if (!(below > level - 20)) break;
    }
    float scale = most < FLT_MIN ? 0 : 1 / most; /* the inverse of a subnormal number may be infinite */
    for (integer at = 0; at < R; at += BLOCK) {
        lanes scaled[4];
        for (int j = 0; j < 4; j++) scaled[j] = *(lanes *)(values + at + 16 * j) * scale;
        clear_tiny(scaled);
        store_block(c->inside, half, row * R + at, scaled);
    }
    c->scales[row] = level + (c->weights ? c->weights[row] : 0);
}

/* o and the scales of all spans of a width in sentences from .. to, computed from a and b of shorter spans. */
void inside_width(const Chart *c, integer width, integer from, integer to) {
    integer last = c->counts[width] < to ? c->counts[width] : to;
#pragma omp parallel for num_threads(c->threads) schedule(dynamic, 1) if (c->threads > 1)
    for (integer b = from; b < last; b++) {
        unsigned mode = flush_subnormal();
        float values[c->size] __attribute__((aligned(64)));
        for (integer first = 0; first + width <= c->lengths[b]; first++)
            if (c->half)
                span_forward(c, 1, b, first, width, values);
            else
                span_forward(c, 0, b, first, width, values);
        restore_mode(mode);
    }
}

/* The gradient of one child of a span: sum over its parents of factor * G of the parent * inside of its sibling. */
static inline __attribute__((always_inline)) void child_backward(const Chart *c, int half, const integer *parents,
                                                                 const integer *siblings, integer terms, double scale,
                                                                 integer side, integer to) {
    integer R = c->size, kept = 0, parent_at[LONGEST], sibling_at[LONGEST];
    float factors[LONGEST];
    for (integer k = 0; k < terms; k++) {
        double difference = scale + c->scales[siblings[k]] - c->scales[parents[k]];
        if (c->weights) difference += c->weights[parents[k]];
        if (difference <= -60.0) continue; /* negligible */
        /* 0 for a parent without derivations: NaN stays NaN. */
        factors[kept] = c->scales[parents[k]] > -INFINITY ? fast_exp((float)difference) : 0;
        parent_at[kept] = parents[k] * R;
        sibling_at[kept++] = siblings[k] * 2 * R + side;
    }
    for (integer at = 0; at < R; at += BLOCK) {
        lanes sums[4];
        block_sums(c->inside_grads, c->children, half, parent_at, sibling_at, factors, kept, at, sums);
        clear_tiny(sums);
        store_block(c->children_grads, half, to + at, sums);
    }
}

/* H of all spans of a width in sentences from .. to, computed from G of longer spans. */
void outside_width(const Chart *c, integer width, integer from, integer to) {
    integer last = c->counts[width] < to ? c->counts[width] : to, R = c->size;
#pragma omp parallel for num_threads(c->threads) schedule(dynamic, 1) if (c->threads > 1)
    for (integer b = from; b < last; b++) {
        unsigned mode = flush_subnormal();
        integer n = c->lengths[b], parents[LONGEST], siblings[LONGEST];
        for (integer first = 0; first + width <= n; first++) {
            integer row = row_of(c, b, first, width), at = row * 2 * R, terms = 0;
            double scale = c->scales[row];
            for (integer k = 1; first + width + k <= n; k++, terms++) { /* as a left child; the right child has width k */
                parents[terms] = row_of(c, b, first, width + k);
                siblings[terms] = row_of(c, b, first + width, k);
            }
            if (c->half)
                child_backward(c, 1, parents, siblings, terms, scale, R, at);
            else
                child_backward(c, 0, parents, siblings, terms, scale, R, at);
            terms = 0;
            for (integer k = 1; k <= first; k++, terms++) { /* as a right child; the left child has width k */
                parents[terms] = row_of(c, b, first - k, width + k);
                siblings[terms] = row_of(c, b, first - k, k);
            }
            if (c->half)
                child_backward(c, 1, parents, siblings, terms, scale, 0, at + R);
            else
                child_backward(c, 0, parents, siblings, terms, scale, 0, at + R);
        }
        restore_mode(mode);
    }
}

/* The marginals of rows: the sums over factors of o G. */
void inside_marginals(const Chart *c, integer from, integer to) {
#pragma omp parallel for num_threads(c->threads) schedule(static) if (c->threads > 1)
    for (integer row = from; row < to; row++) {
        lanes sums = {0};
        for (integer at = row * c->size; at < (row + 1) * c->size; at += BLOCK) {
            lanes o[4], g[4];
            load_block(c->inside, c->half, at, o);
            load_block(c->inside_grads, c->half, at, g);
            for (int j = 0; j < 4; j++) sums += o[j] * g[j];
        }
        c->marginals[row] = sum_of(sums);
    }
}
