/* One step of PRPN's reading layer, forward and backward, except its two matrix products (see memory_reader.py).
 *
 * Rows are real tokens, time-major: step t has the first counts[t] columns. H hidden size, N memory slots.
 * history (B, N + T, 2H): [h ; c] of the N steps before the chunk, then of the chunk; step t's window starts at t.
 * Matrix products are computed in float32 or bfloat16: their inputs and outputs have that type (`half`).
 */

#include "lanes.h"
#include "norm.h"

#define EPSILON 1e-8f /* of the attention, for a memory whose gates are all 0 */
#define MAX_SLOTS 64

typedef struct {
    integer hidden, slots, columns, length;  /* H, N, B, N + T */
    int half, threads;
    const integer *starts;  /* (T + 1,): the first row of each step */
    float *history;
    /* stored for backward, one row per token */
    float *keys, *attentions, *exponentials, *totals;
    integer *largest;
    float *cell_reads;       /* (n, H): attended c */
    void *befores, *attended; /* (n, H): inputs of the two products, of h of the step before and attended h */
    float *activations;      /* (n, 4H) */
    float *input_means, *input_scales, *input_factors;
    float *means, *scales, *factors, *cell_means, *cell_scales, *cell_factors, *cell_tanhs, *states;
    const float *gates;      /* (n, N), oldest first */
    const float *input_gain, *gain, *bias, *cell_gain, *cell_bias, *key_input_mask, *key_output_mask;
    const float *input_keys; /* (n, H) */
    const void *inputs;      /* (n, 4H): the product of the gates' input side */
    /* used in backward */
    const float *output_grads;
    float *key_grads, *slot_grads, *score_grads, *read_grads;
    void *input_grads, *recurrent_grads, *key_grads_half;  /* (n, 4H), (n, 4H), (n, H): inputs of products */
    float *carried;          /* (B, 2H): a step's gradient of [h ; c], passed between its two functions */
    float *history_grads, *state_grads; /* (B, N + T, H), (n, H): of the predict network's attention */
    float *sums;             /* (threads, 18H): gradients of the columns' weights, as in memory_tensors.py */
} Layer;

static inline integer count_of(const Layer *l, integer t) { return l->starts[t + 1] - l->starts[t]; }

/* Adds weights_k rows_k to `out`, and all rows together, so that `out` is read and written once. */
static inline void add_rows(const float *const *rows, const float *weights, integer count, integer size, float *out) {
    integer j = 0;
    for (; j + BLOCK <= size; j += BLOCK) {
        lanes sums[4];
        load_block(out, 0, j, sums);
        for (integer k = 0; k < count; k++)
            for (int q = 0; q < 4; q++) sums[q] += weights[k] * *(const lanes *)(rows[k] + j + 16 * q);
        store_block(out, 0, j, sums);
    }
    for (; j < size; j++)
        for (integer k = 0; k < count; k++) out[j] += weights[k] * rows[k][j];
}

static inline float dot(const float *one, const float *other, integer size) {
    lanes sums[4] = {{0}};  /* independent, because an addition takes several cycles */
    integer j = 0;
    for (; j + BLOCK <= size; j += BLOCK)
        for (int q = 0; q < 4; q++)
            sums[q] += *(const lanes *)(one + j + 16 * q) * *(const lanes *)(other + j + 16 * q);
    float sum = sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; j < size; j++) sum += one[j] * other[j];
    return sum;
}

/* Structured attention of a row from its scores: kept, and returned with the attended states in `read`. The states of
   the window, of `size` entries, are `stride` apart. */
static inline void attend_row(const Layer *l, integer row, const float *window, integer size, integer stride,
                              float *read) {
    integer H = l->hidden, N = l->slots, top = 0, open = 0;
    float scores[MAX_SLOTS], root = 1.0f / sqrtf((float)H), total = EPSILON;
    for (integer k = 0; k < N; k++) {
        scores[k] = dot(window + k * stride, l->keys + row * H, H) * root;
        if (scores[k] > scores[top]) top = k;
    }
    float *e = l->exponentials + row * N, *a = l->attentions + row * N, largest = scores[top];
    for (integer k = 0; k < N; k++) {
        e[k] = expf(scores[k] - largest);
        a[k] = e[k] * l->gates[row * N + k];
        total += a[k];
    }
    l->totals[row] = total;
    l->largest[row] = top;
    const float *states[MAX_SLOTS];
    for (integer k = 0; k < N; k++)
        if ((a[k] /= total) != 0) {  /* 0: a closed gate */
            states[open] = window + k * stride;
            scores[open++] = a[k];
        }
    memset(read, 0, size * sizeof(float));
    add_rows(states, scores, open, size, read);
}

/* Backward of attend_row from the gradient of its result, except to the states; writes those of gates and key, and of
   the scores before their scaling. */
static inline void attend_row_backward(const Layer *l, integer row, const float *window, integer size, integer stride,
                                       const float *read_grad, float *score_grad) {
    integer H = l->hidden, N = l->slots, open = 0;
    const float *a = l->attentions + row * N, *e = l->exponentials + row * N;
    float grads[MAX_SLOTS], mean = 0, total = l->totals[row], root = 1.0f / sqrtf((float)H);
    for (integer k = 0; k < N; k++) {
        grads[k] = dot(window + k * stride, read_grad, size);
        mean += grads[k] * a[k];
    }
    for (integer k = 0; k < N; k++) {
        float slot_grad = l->slot_grads[row * N + k] = (grads[k] - mean) / total * e[k];
        score_grad[k] = slot_grad * l->gates[row * N + k] * root;
    }
    score_grad[l->largest[row]] -= mean * EPSILON / total * root;
    const float *states[MAX_SLOTS];
    for (integer k = 0; k < N; k++)
        if (score_grad[k] != 0) {
            states[open] = window + k * stride;
            grads[open++] = score_grad[k];
        }
    memset(l->key_grads + row * H, 0, H * sizeof(float));
    add_rows(states, grads, open, H, l->key_grads + row * H);
}

/* Attention of step t over its window. product: the key's recurrent side. */
void read_attend(const Layer *l, integer t, const void *product) {
    integer H = l->hidden, count = count_of(l, t);
#pragma omp parallel for num_threads(l->threads) schedule(static) if (l->threads > 1)
    for (integer b = 0; b < count; b++) {
        integer row = l->starts[t] + b;
        float copy[2 * H];
        const float *recurrent = block_of(product, l->half, b * H, H, copy);
        const float *window = l->history + (b * l->length + t) * 2 * H;
        const float *input = l->input_keys + row * H;
        float *restrict key = l->keys + row * H;
        if (l->key_output_mask) {
            const float *mask = l->key_output_mask + row * H;
            for (integer j = 0; j < H; j++) key[j] = (input[j] + recurrent[j]) * mask[j];
        } else
            for (integer j = 0; j < H; j++) key[j] = input[j] + recurrent[j];
        attend_row(l, row, window, 2 * H, 2 * H, copy);
        put_block(l->attended, l->half, row * H, H, copy);
        memcpy(l->cell_reads + row * H, copy + H, H * sizeof(float));
    }
}

/* The LSTM of step t. product: the gates' recurrent side. */
void read_cell(const Layer *l, integer t, integer steps, const void *product) {
    integer H = l->hidden, count = count_of(l, t), next = t + 1 < steps ? count_of(l, t + 1) : 0;
#pragma omp parallel for num_threads(l->threads) schedule(static) if (l->threads > 1)
    for (integer b = 0; b < count; b++) {
        integer row = l->starts[t] + b;
        float *restrict gate = l->activations + row * 4 * H;
        const float *restrict input_gain = l->input_gain, *restrict gain = l->gain, *restrict bias = l->bias;
        const float *restrict cell_gain = l->cell_gain, *restrict cell_bias = l->cell_bias;
        float copy[4 * H], input_copy[4 * H];
        const float *input = block_of(l->inputs, l->half, row * 4 * H, 4 * H, input_copy);
        spread_of(input, 4 * H, l->input_means + row, l->input_scales + row, l->input_factors + row);
        float input_mean = l->input_means[row], input_scale = l->input_scales[row];
        const float *recurrent = block_of(product, l->half, b * 4 * H, 4 * H, copy);
        spread_of(recurrent, 4 * H, l->means + row, l->scales + row, l->factors + row);
        float mean = l->means[row], scale = l->scales[row];
        for (integer j = 0; j < 4 * H; j++)
            gate[j] = bias[j] + (input[j] - input_mean) * input_scale * input_gain[j]
                + (recurrent[j] - mean) * scale * gain[j];
        for (integer j = 0; j < 2 * H; j++) gate[j] = sigmoid(gate[j]);
        for (integer j = 2 * H; j < 3 * H; j++) gate[j] = fast_tanh(gate[j]);
        for (integer j = 3 * H; j < 4 * H; j++) gate[j] = sigmoid(gate[j]);
        float *restrict h = l->history + (b * l->length + t + l->slots) * 2 * H, *restrict c = h + H;
        float *restrict tanhs = l->cell_tanhs + row * H, *restrict state = l->states + row * H;
        const float *restrict cell_read = l->cell_reads + row * H;
        for (integer j = 0; j < H; j++) c[j] = gate[H + j] * cell_read[j] + gate[j] * gate[2 * H + j];
        spread_of(c, H, l->cell_means + row, l->cell_scales + row, l->cell_factors + row);
        mean = l->cell_means[row], scale = l->cell_scales[row];
        for (integer j = 0; j < H; j++) {
            float tanh = fast_tanh((c[j] - mean) * scale * cell_gain[j] + cell_bias[j]);
            tanhs[j] = tanh;
            state[j] = gate[3 * H + j] * tanh;
        }
        memcpy(h, state, H * sizeof(float));
        if (b < next) {
            integer after = (l->starts[t + 1] + b) * H;
            const float *read = state;
            if (l->key_input_mask) {
                const float *mask = l->key_input_mask + after;
                for (integer j = 0; j < H; j++) copy[j] = state[j] * mask[j];
                read = copy;
            }
            put_block(l->befores, l->half, after, H, read);
        }
    }
}

/* Gradient of [h ; c] at history position p of column b, from the attention of all later steps of the chunk. */
static inline void memory_grad(const Layer *l, integer steps, integer p, integer b, float *restrict grad) {
    integer H = l->hidden, N = l->slots, reads = 0, keys = 0;
    const float *read[MAX_SLOTS], *key[MAX_SLOTS];
    float weights[MAX_SLOTS], key_weights[MAX_SLOTS];
    /* Step t reads position p at index p - t of its window. */
    for (integer t = p < N ? 0 : p - N + 1; t < steps && t <= p; t++) {
        if (b >= count_of(l, t)) break;
        integer row = l->starts[t] + b, place = row * N + p - t;
        if (l->attentions[place] != 0) {
            read[reads] = l->read_grads + row * 2 * H;
            weights[reads++] = l->attentions[place];
        }
        if (l->score_grads[place] != 0) {
            key[keys] = l->keys + row * H;
            key_weights[keys++] = l->score_grads[place];
        }
    }
    memset(grad, 0, 2 * H * sizeof(float));
    add_rows(read, weights, reads, 2 * H, grad);
    add_rows(key, key_weights, keys, H, grad);
}

/* Backward of read_cell. recurrent: its product; product: the gradient of the input of the next step's key product. */
void read_cell_backward(const Layer *l, integer t, integer steps, const void *recurrent, const void *product) {
    integer H = l->hidden, count = count_of(l, t), next = t + 1 < steps ? count_of(l, t + 1) : 0;
#pragma omp parallel for num_threads(l->threads) schedule(static) if (l->threads > 1)
    for (int thread = 0; thread < l->threads; thread++) {
        float *restrict input_gain_sum = l->sums + thread * 18 * H, *restrict gain_sum = input_gain_sum + 4 * H;
        float *restrict bias_sum = gain_sum + 4 * H;
        float *restrict recurrent_sum = bias_sum + 4 * H;
        float *restrict cell_gain_sum = recurrent_sum + 4 * H, *restrict cell_bias_sum = cell_gain_sum + H;
        const float *restrict input_gain = l->input_gain, *restrict gain = l->gain, *restrict cell_gain = l->cell_gain;
        float copy[4 * H], input_copy[4 * H], input_normal[4 * H], normal[4 * H], gate_grad[4 * H];
        float cell[H], cell_normal[H];
        for (integer b = count * thread / l->threads; b < count * (thread + 1) / l->threads; b++) {
            integer row = l->starts[t] + b;
            float *restrict grad = l->carried + b * 2 * H;
            memory_grad(l, steps, t + l->slots, b, grad);
            const float *output = l->output_grads + row * H;
            for (integer j = 0; j < H; j++) grad[j] += output[j];
            if (b < next) {
                const float *before = block_of(product, l->half, b * H, H, copy);
                if (l->key_input_mask) {
                    const float *mask = l->key_input_mask + (l->starts[t + 1] + b) * H;
                    for (integer j = 0; j < H; j++) grad[j] += before[j] * mask[j];
                } else
                    for (integer j = 0; j < H; j++) grad[j] += before[j];
            }
            const float *restrict gates = l->activations + row * 4 * H, *restrict read = l->cell_reads + row * H;
            const float *restrict tanhs = l->cell_tanhs + row * H;
            const float *x = block_of(recurrent, l->half, b * 4 * H, 4 * H, copy), mean = l->means[row];
            const float *input = block_of(l->inputs, l->half, row * 4 * H, 4 * H, input_copy);
            const float *c = l->history + (b * l->length + t + l->slots) * 2 * H + H, cell_mean = l->cell_means[row];
            for (integer j = 0; j < 4 * H; j++) {
                normal[j] = (x[j] - mean) * l->scales[row];
                input_normal[j] = (input[j] - l->input_means[row]) * l->input_scales[row];
            }
            for (integer j = 0; j < H; j++) cell_normal[j] = (c[j] - cell_mean) * l->cell_scales[row];
#pragma omp simd
            for (integer j = 0; j < H; j++) {
                float o = gates[3 * H + j], norm_grad = grad[j] * o * (1 - tanhs[j] * tanhs[j]);
                gate_grad[3 * H + j] = grad[j] * tanhs[j] * (o - o * o);
                cell_gain_sum[j] += norm_grad * cell_normal[j];
                cell_bias_sum[j] += norm_grad;
                cell[j] = norm_grad * cell_gain[j];
            }
            normalise_backward(cell, cell_normal, H, l->cell_scales[row], l->cell_factors[row]);
#pragma omp simd
            for (integer j = 0; j < H; j++) {
                float i = gates[j], f = gates[H + j], g = gates[2 * H + j], d = cell[j] + grad[H + j];
                gate_grad[j] = d * g * (i - i * i);
                gate_grad[H + j] = d * read[j] * (f - f * f);
                gate_grad[2 * H + j] = d * i * (1 - g * g);
                grad[H + j] = d * f;  /* of the attended cell */
            }
#pragma omp simd
            for (integer j = 0; j < 4 * H; j++) {
                input_gain_sum[j] += gate_grad[j] * input_normal[j];
                input_copy[j] = gate_grad[j] * input_gain[j];
                gain_sum[j] += gate_grad[j] * normal[j];
                bias_sum[j] += gate_grad[j];
                copy[j] = gate_grad[j] * gain[j];
            }
            normalise_backward(input_copy, input_normal, 4 * H, l->input_scales[row], l->input_factors[row]);
            put_block(l->input_grads, l->half, row * 4 * H, 4 * H, input_copy);
            normalise_backward(copy, normal, 4 * H, l->scales[row], l->factors[row]);
            for (integer j = 0; j < 4 * H; j++) recurrent_sum[j] += copy[j];
            put_block(l->recurrent_grads, l->half, row * 4 * H, 4 * H, copy);
        }
    }
}

/* Backward of read_attend. product: the gradient of h~. */
void read_attend_backward(const Layer *l, integer t, const void *product) {
    integer H = l->hidden, N = l->slots, count = count_of(l, t);
#pragma omp parallel for num_threads(l->threads) schedule(static) if (l->threads > 1)
    for (integer b = 0; b < count; b++) {
        integer row = l->starts[t] + b;
        float copy[H];
        float *restrict read_grad = l->read_grads + row * 2 * H;
        memcpy(read_grad, block_of(product, l->half, b * H, H, copy), H * sizeof(float));
        memcpy(read_grad + H, l->carried + b * 2 * H + H, H * sizeof(float));
        const float *window = l->history + (b * l->length + t) * 2 * H;
        attend_row_backward(l, row, window, 2 * H, 2 * H, read_grad, l->score_grads + row * N);
        float *restrict key_grad = l->key_grads + row * H;
        if (l->key_output_mask) {
            const float *mask = l->key_output_mask + row * H;
            for (integer j = 0; j < H; j++) key_grad[j] *= mask[j];
        }
        put_block(l->key_grads_half, l->half, row * H, H, key_grad);
    }
}

/* The gradient of the tape (B, N, 2H), the memory before the chunk. */
void read_tape_backward(const Layer *l, integer steps, float *grads) {
    integer size = 2 * l->hidden;
    for (integer b = 0; b < l->columns; b++)
        for (integer p = 0; p < l->slots; p++) memory_grad(l, steps, p, b, grads + (b * l->slots + p) * size);
}

/* The predict network's attention, of all steps: column by column, so that windows stay in cache. states -> attended.
   history (B, N + T, H) has the N steps before the chunk; the states are appended here. */
void predict_attend(const Layer *l, integer steps) {
    integer H = l->hidden;
#pragma omp parallel for num_threads(l->threads) schedule(dynamic) if (l->threads > 1)
    for (integer b = 0; b < l->columns; b++)
        for (integer t = 0; t < steps && b < count_of(l, t); t++) {
            integer row = l->starts[t] + b;
            float *window = l->history + (b * l->length + t) * H;
            attend_row(l, row, window, H, H, (float *)l->attended + row * H);
            memcpy(window + l->slots * H, l->states + row * H, H * sizeof(float));
        }
}

/* history_grads: zeros. */
void predict_attend_backward(const Layer *l, integer steps) {
    integer H = l->hidden, N = l->slots;
#pragma omp parallel for num_threads(l->threads) schedule(dynamic) if (l->threads > 1)
    for (integer b = 0; b < l->columns; b++) {
        float score_grad[MAX_SLOTS];
        integer t = 0;
        for (; t < steps && b < count_of(l, t); t++) {
            integer row = l->starts[t] + b;
            const float *restrict grad = l->output_grads + row * H, *restrict key = l->keys + row * H;
            attend_row_backward(l, row, l->history + (b * l->length + t) * H, H, H, grad, score_grad);
            for (integer k = 0; k < N; k++) {
                float weight = l->attentions[row * N + k], key_weight = score_grad[k];
                float *restrict sum = l->history_grads + (b * l->length + t + k) * H;
                if (weight == 0 && key_weight == 0) continue;
                for (integer j = 0; j < H; j++) sum[j] += weight * grad[j] + key_weight * key[j];
            }
        }
        while (t-- > 0)
            memcpy(l->state_grads + (l->starts[t] + b) * H, l->history_grads + (b * l->length + t + N) * H,
                   H * sizeof(float));
    }
}
