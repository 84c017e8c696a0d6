/* One step of the ON-LSTM or of a plain LSTM, forward and backward, except its matrix product (see on_lstm.py).
 *
 * Rows are real tokens, time-major: step t has the first counts[t] columns. D neurons, K master gates of C
 * neurons each (K = 0: a plain LSTM), F gates: input master (K), forget master (K), o, g, i, f; or i, f, g, o.
 * Matrix products are computed in float32 or bfloat16: their inputs and outputs have that type (`half`).
 */

#include "kernels.h"

typedef struct {
    integer size, masters, chunk, columns; /* D, K, C, B */
    int half, threads;
    const integer *starts;   /* (T + 1,): the first row of each step */
    const void *input_gates; /* (n, F), from the product */
    /* stored for backward, one row per token */
    float *gates;            /* (n, F): softmaxes of the master gates, and the other gates after activation */
    float *cells;            /* (B + n, D): cells before the first step, then of every row */
    void *befores;           /* (n, D): h of the previous step, input of the product */
    float *states, *distances, *input_distances;
    /* used in backward */
    const float *output_grads, *last_hidden_grads; /* (n, D), (B, D) or null */
    float *cell_grads;       /* (B, D): of the step's cell, then of the previous cell */
    void *gate_grads;        /* (n, F), input of products */
} Layer;

typedef struct { integer o, g, i, f; } Places; /* offsets in a row of gates */

static inline Places places_of(const Layer *l) {
    integer D = l->size, from = 2 * l->masters;
    Places plain = {3 * D, 2 * D, 0, D}, ordered = {from, from + D, from + 2 * D, from + 3 * D};
    return l->masters ? ordered : plain;
}

static inline integer count_of(const Layer *l, integer t) { return l->starts[t + 1] - l->starts[t]; }

static inline float *cell_of(const Layer *l, integer t, integer b) {
    return l->cells + (t < 0 ? b : l->columns + l->starts[t] + b) * l->size;
}

static inline void softmax(float *x, integer size) {
    float largest = -INFINITY, sum = 0;
#pragma omp simd reduction(max : largest)
    for (integer k = 0; k < size; k++) largest = x[k] > largest ? x[k] : largest;
    for (integer k = 0; k < size; k++) x[k] = fast_exp(x[k] - largest);
    for (integer k = 0; k < size; k++) sum += x[k];
    for (integer k = 0; k < size; k++) x[k] /= sum;
}

/* From the two softmaxes: the master gates (K each), and for each neuron w = f~ i~, f~ - w and i~ - w (D each). */
static inline void spread(const Layer *l, const float *softmaxes, float *input, float *forget, float *restrict overlap,
                          float *restrict keep, float *restrict take) {
    integer K = l->masters, C = l->chunk;
    float inputs = 0, forgets = 0;
    for (integer k = 0; k < K; k++) {
        inputs += softmaxes[k];
        forgets += softmaxes[K + k];
        input[k] = 1 - inputs;
        forget[k] = forgets;
    }
    for (integer k = 0; k < K; k++) {
        float w = input[k] * forget[k], kept = forget[k] - w, taken = input[k] - w;
        for (integer j = k * C; j < (k + 1) * C; j++) {
            overlap[j] = w;
            keep[j] = kept;
            take[j] = taken;
        }
    }
}

static inline float mean(const float *x, integer size) {
    float sum = 0;
    for (integer k = 0; k < size; k++) sum += x[k];
    return sum / size;
}

/* Step t. product: the gates' recurrent side. Writes h to the input of the next step's product. */
void on_lstm_forward(const Layer *l, integer t, integer steps, const void *product) {
    integer D = l->size, K = l->masters, F = 4 * D + 2 * K, count = count_of(l, t);
    integer next = t + 1 < steps ? count_of(l, t + 1) : 0;
    Places at = places_of(l);
#pragma omp parallel for num_threads(l->threads) schedule(static) if (l->threads > 1)
    for (integer b = 0; b < count; b++) {
        integer row = l->starts[t] + b;
        float copy[F], other[F], *restrict gate = l->gates + row * F;
        const float *input = block_of(l->input_gates, l->half, row * F, F, copy);
        const float *recurrent = block_of(product, l->half, b * F, F, other);
        for (integer j = 0; j < F; j++) gate[j] = input[j] + recurrent[j];
        float *restrict o = gate + at.o, *restrict g = gate + at.g, *restrict i = gate + at.i, *restrict f = gate + at.f;
        const float *restrict before = cell_of(l, t - 1, b);
        float *restrict cell = cell_of(l, t, b), *restrict state = l->states + row * D;
        for (integer j = 0; j < D; j++) {
            o[j] = sigmoid(o[j]);
            g[j] = fast_tanh(g[j]);
            i[j] = sigmoid(i[j]);
            f[j] = sigmoid(f[j]);
        }
        if (K) {
            float inputs[K], forgets[K], overlap[D], keep[D], take[D];
            softmax(gate, K);
            softmax(gate + K, K);
            spread(l, gate, inputs, forgets, overlap, keep, take);
            l->distances[row] = 1 - mean(forgets, K);
            l->input_distances[row] = mean(inputs, K);
            for (integer j = 0; j < D; j++)
                cell[j] = (f[j] * overlap[j] + keep[j]) * before[j] + (i[j] * overlap[j] + take[j]) * g[j];
        } else
            for (integer j = 0; j < D; j++) cell[j] = f[j] * before[j] + i[j] * g[j];
        for (integer j = 0; j < D; j++) state[j] = o[j] * fast_tanh(cell[j]);
        if (b < next) put_block(l->befores, l->half, (l->starts[t + 1] + b) * D, D, state);
    }
}

/* The gradient of K logits from that of their cumulative softmax times `sign`. */
static inline void cumax_backward(const float *softmaxes, const float *grads, float sign, integer K, float *result) {
    float later = 0, sum = 0;
    for (integer k = K - 1; k >= 0; k--) {
        later += sign * grads[k];
        result[k] = later;
    }
    for (integer k = 0; k < K; k++) sum += softmaxes[k] * result[k];
    for (integer k = 0; k < K; k++) result[k] = softmaxes[k] * (result[k] - sum);
}

/* Backward of step t. product: the gradient of h through the next step. */
void on_lstm_backward(const Layer *l, integer t, integer steps, const void *product) {
    integer D = l->size, K = l->masters, C = l->chunk, F = 4 * D + 2 * K, count = count_of(l, t);
    integer next = t + 1 < steps ? count_of(l, t + 1) : 0;
    Places at = places_of(l);
#pragma omp parallel for num_threads(l->threads) schedule(static) if (l->threads > 1)
    for (integer b = 0; b < count; b++) {
        integer row = l->starts[t] + b;
        float hidden[D], copy[D], made[F];
        const float *output = l->output_grads + row * D, *through = 0;
        if (b < next)
            through = block_of(product, l->half, b * D, D, copy);
        else if (l->last_hidden_grads)
            through = l->last_hidden_grads + b * D;
        for (integer j = 0; j < D; j++) hidden[j] = output[j] + (through ? through[j] : 0);
        const float *gate = l->gates + row * F, *cell = cell_of(l, t, b), *before = cell_of(l, t - 1, b);
        const float *o = gate + at.o, *g = gate + at.g, *i = gate + at.i, *f = gate + at.f;
        float *restrict o_grad = made + at.o, *restrict g_grad = made + at.g, *restrict i_grad = made + at.i;
        float *restrict f_grad = made + at.f, *restrict cell_grad = l->cell_grads + b * D;
        for (integer j = 0; j < D; j++) {
            float tanhs = fast_tanh(cell[j]);
            o_grad[j] = hidden[j] * tanhs * (o[j] - o[j] * o[j]);
            cell_grad[j] += hidden[j] * o[j] * (1 - tanhs * tanhs);
        }
        if (K) {
            float inputs[K], forgets[K], overlap[D], keep[D], take[D], overlap_grad[D], keep_grad[D], take_grad[D];
            spread(l, gate, inputs, forgets, overlap, keep, take);
            for (integer j = 0; j < D; j++) {
                float d = cell_grad[j], forget_grad = d * before[j], write_grad = d * g[j];
                g_grad[j] = d * (i[j] * overlap[j] + take[j]) * (1 - g[j] * g[j]);
                i_grad[j] = write_grad * overlap[j] * (i[j] - i[j] * i[j]);
                f_grad[j] = forget_grad * overlap[j] * (f[j] - f[j] * f[j]);
                cell_grad[j] = d * (f[j] * overlap[j] + keep[j]);
                overlap_grad[j] = forget_grad * (f[j] - 1) + write_grad * (i[j] - 1);
                keep_grad[j] = forget_grad;
                take_grad[j] = write_grad;
            }
            float input_grads[K], forget_grads[K];
            for (integer k = 0; k < K; k++) {
                float w = 0, kept = 0, taken = 0;
                for (integer j = k * C; j < (k + 1) * C; j++) {
                    w += overlap_grad[j];
                    kept += keep_grad[j];
                    taken += take_grad[j];
                }
                input_grads[k] = taken + w * forgets[k];
                forget_grads[k] = kept + w * inputs[k];
            }
            cumax_backward(gate, input_grads, -1, K, made);
            cumax_backward(gate + K, forget_grads, 1, K, made + K);
        } else
            for (integer j = 0; j < D; j++) {
                float d = cell_grad[j];
                g_grad[j] = d * i[j] * (1 - g[j] * g[j]);
                i_grad[j] = d * g[j] * (i[j] - i[j] * i[j]);
                f_grad[j] = d * before[j] * (f[j] - f[j] * f[j]);
                cell_grad[j] = d * f[j];
            }
        put_block(l->gate_grads, l->half, row * F, F, made);
    }
}
