/* Softmax over the vocabulary, between its matrix products: log-probabilities of targets, and the logits' gradient. */

#include "kernels.h"

#define BLOCK 1024 /* columns of the gradient per thread: their bias sums stay in cache */

static inline float logit_at(const void *logits, int half, integer at) {
    return half ? of_half(((const uint16_t *)logits)[at]) : ((const float *)logits)[at];
}

/* logits (rows, size), without bias. Writes log sum exp and the target's log-probability of each row. */
void softmax_forward(const void *logits, int half, integer rows, integer size, const float *bias,
                     const integer *targets, float *sums, float *log_probs, integer threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (integer row = 0; row < rows; row++) {
        float copy[BLOCK], largest = -INFINITY, sum = 0;
        for (integer from = 0; from < size; from += BLOCK) {
            integer width = size - from < BLOCK ? size - from : BLOCK;
            const float *x = block_of(logits, half, row * size + from, width, copy);
#pragma omp simd reduction(max : largest)
            for (integer j = 0; j < width; j++) {
                float logit = x[j] + bias[from + j];
                largest = logit > largest ? logit : largest;
            }
        }
        for (integer from = 0; from < size; from += BLOCK) {
            integer width = size - from < BLOCK ? size - from : BLOCK;
            const float *x = block_of(logits, half, row * size + from, width, copy);
            for (integer j = 0; j < width; j++) sum += fast_exp(x[j] + bias[from + j] - largest);
        }
        sums[row] = largest + logf(sum);
        log_probs[row] = logit_at(logits, half, row * size + targets[row]) + bias[targets[row]] - sums[row];
    }
}

/* The gradient of the logits; adds its sum over rows to the gradient of the bias. upstream: gradient of log_probs. */
void softmax_backward(const void *logits, int half, integer rows, integer size, const float *bias,
                      const integer *targets, const float *sums, const float *upstream, void *grads, float *bias_grads,
                      integer threads) {
    integer blocks = (size + BLOCK - 1) / BLOCK;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (integer block = 0; block < blocks; block++) {
        integer from = block * BLOCK, width = size - from < BLOCK ? size - from : BLOCK;
        float copy[BLOCK], grad[BLOCK], *restrict total = bias_grads + from;
        for (integer row = 0; row < rows; row++) {
            const float *x = block_of(logits, half, row * size + from, width, copy);
            float sum = sums[row], scale = -upstream[row];
            for (integer j = 0; j < width; j++) grad[j] = scale * fast_exp(x[j] + bias[from + j] - sum);
            integer target = targets[row] - from;
            if (target >= 0 && target < width) grad[target] -= scale;
            for (integer j = 0; j < width; j++) total[j] += grad[j];
            put_block(grads, half, row * size + from, width, grad);
        }
    }
}
