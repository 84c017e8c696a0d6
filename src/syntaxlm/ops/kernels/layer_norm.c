/* PRPN's layer norm over rows of float32 or bfloat16 (see layer_norm.py). */

#include "norm.h"

void layer_norm_forward(const void *rows, int half, integer count, integer size, const float *gain, const float *bias,
                        float *results, float *means, float *scales, float *factors, integer threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (integer row = 0; row < count; row++) {
        float copy[size], *restrict result = results + row * size;
        const float *x = block_of(rows, half, row * size, size, copy);
        float mean = 0;
        spread_of(x, size, &mean, scales + row, factors + row);
        means[row] = mean;
        float scale = scales[row];
        for (integer j = 0; j < size; j++) result[j] = (x[j] - mean) * scale * gain[j] + bias[j];
    }
}

/* sums (threads, 2, size): each thread adds up the gradients of gain and bias over its rows. */
void layer_norm_backward(const void *rows, int half, integer count, integer size, const float *gain,
                         const float *grads, const float *means, const float *scales, const float *factors,
                         void *rows_grads, float *sums, integer threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int thread = 0; thread < threads; thread++) {
        float *restrict gain_grad = sums + 2 * thread * size, *restrict bias_grad = gain_grad + size;
        float copy[size], normal[size], inner[size];
        for (integer row = count * thread / threads; row < count * (thread + 1) / threads; row++) {
            const float *x = block_of(rows, half, row * size, size, copy), *grad = grads + row * size;
            float mean = means[row], scale = scales[row];
            for (integer j = 0; j < size; j++) {
                normal[j] = (x[j] - mean) * scale;
                inner[j] = grad[j] * gain[j];
                gain_grad[j] += grad[j] * normal[j];
                bias_grad[j] += grad[j];
            }
            normalise_backward(inner, normal, size, scale, factors[row]);
            put_block(rows_grads, half, row * size, size, inner);
        }
    }
}
