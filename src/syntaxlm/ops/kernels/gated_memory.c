/* One step of PRPN's reading layer, forward and backward, except its two matrix products (see gated_memory.py).
 *
 * Rows are real tokens, time-major: step t has the first counts[t] columns. H hidden size, N memory slots.
 * history (B, N + T, 2H): [h ; c] of the N steps before the chunk, then of the chunk; step t's window starts at t.
 * Matrix products are computed in float32 or bfloat16: their inputs and outputs have that type (`half`).
 */

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
    float *reads;            /* (n, 2H): attended [h ; c] */
    float *activations;      /* (n, 4H) */
    float *normals, *scales, *factors, *cell_normals, *cell_scales, *cell_factors, *cell_tanhs, *states;
    const float *gates;      /* (n, N), oldest first */
    const float *gain, *bias, *cell_gain, *cell_bias, *key_input_mask, *key_output_mask;
    const float *input_gates, *input_keys; /* (n, 4H), (n, H) */
    /* used in backward */
    const float *output_grads;
    float *gate_grads, *cell_norm_grads, *key_grads, *slot_grads, *score_grads, *read_grads;
    void *recurrent_grads, *key_grads_half;  /* (n, 4H), (n, H): inputs of products */
    float *carried;          /* (B, 2H): a step's gradient of [h ; c], passed between its two functions */
} Layer;

static inline integer count_of(const Layer *l, integer t) { return l->starts[t + 1] - l->starts[t]; }

/* Attention of step t over its window. product: the key's recurrent side; attended: h~, for the next product. */
void read_attend(const Layer *l, integer t, const void *product, void *attended) {
    integer H = l->hidden, N = l->slots, count = count_of(l, t);
    float root = 1.0f / sqrtf((float)H);
#pragma omp parallel for num_threads(l->threads) schedule(static) if (l->threads > 1)
    for (integer b = 0; b < count; b++) {
        integer row = l->starts[t] + b;
        float copy[H], scores[MAX_SLOTS];
        const float *recurrent = block_of(product, l->half, b * H, H, copy);
        const float *window = l->history + (b * l->length + t) * 2 * H;
        const float *input = l->input_keys + row * H;
        float *restrict key = l->keys + row * H;
        if (l->key_output_mask) {
            const float *mask = l->key_output_mask + row * H;
            for (integer j = 0; j < H; j++) key[j] = (input[j] + recurrent[j]) * mask[j];
        } else
            for (integer j = 0; j < H; j++) key[j] = input[j] + recurrent[j];
        integer top = 0;
        for (integer k = 0; k < N; k++) {
            const float *h = window + k * 2 * H;
            float sum = 0;
            for (integer j = 0; j < H; j++) sum += h[j] * key[j];
            scores[k] = sum * root;
            if (scores[k] > scores[top]) top = k;
        }
        float *e = l->exponentials + row * N, *a = l->attentions + row * N, total = EPSILON;
        const float *gate = l->gates + row * N;
        float largest = scores[top];
        for (integer k = 0; k < N; k++) {
            e[k] = expf(scores[k] - largest);
            a[k] = e[k] * gate[k];
            total += a[k];
        }
        l->totals[row] = total;
        l->largest[row] = top;
        float *restrict read = l->reads + row * 2 * H;
        memset(read, 0, 2 * H * sizeof(float));
        for (integer k = 0; k < N; k++) {
            const float *state = window + k * 2 * H;
            float weight = a[k] /= total;
            if (weight == 0) continue;  /* a closed gate */
            for (integer j = 0; j < 2 * H; j++) read[j] += weight * state[j];
        }
        put_block(attended, l->half, b * H, H, read);
    }
}

/* The LSTM of step t. product: the gates' recurrent side; before: input of the next step's key product, masked h. */
void read_cell(const Layer *l, integer t, integer steps, const void *product, void *before) {
    integer H = l->hidden, count = count_of(l, t), next = t + 1 < steps ? count_of(l, t + 1) : 0;
#pragma omp parallel for num_threads(l->threads) schedule(static) if (l->threads > 1)
    for (integer b = 0; b < count; b++) {
        integer row = l->starts[t] + b;
        float *restrict normal = l->normals + row * 4 * H, *restrict gate = l->activations + row * 4 * H;
        float copy[4 * H];
        memcpy(normal, block_of(product, l->half, b * 4 * H, 4 * H, copy), 4 * H * sizeof(float));
        normalise(normal, 4 * H, l->scales + row, l->factors + row);
        const float *input = l->input_gates + row * 4 * H;
        for (integer j = 0; j < 4 * H; j++) gate[j] = input[j] + l->bias[j] + normal[j] * l->gain[j];
        for (integer j = 0; j < 2 * H; j++) gate[j] = sigmoid(gate[j]);
        for (integer j = 2 * H; j < 3 * H; j++) gate[j] = fast_tanh(gate[j]);
        for (integer j = 3 * H; j < 4 * H; j++) gate[j] = sigmoid(gate[j]);
        float *restrict h = l->history + (b * l->length + t + l->slots) * 2 * H, *restrict c = h + H;
        float *restrict cell_normal = l->cell_normals + row * H, *restrict tanhs = l->cell_tanhs + row * H;
        float *restrict state = l->states + row * H;
        const float *cell_read = l->reads + row * 2 * H + H;
        for (integer j = 0; j < H; j++) c[j] = gate[H + j] * cell_read[j] + gate[j] * gate[2 * H + j];
        memcpy(cell_normal, c, H * sizeof(float));
        normalise(cell_normal, H, l->cell_scales + row, l->cell_factors + row);
        for (integer j = 0; j < H; j++) {
            tanhs[j] = fast_tanh(cell_normal[j] * l->cell_gain[j] + l->cell_bias[j]);
            h[j] = state[j] = gate[3 * H + j] * tanhs[j];
        }
        if (b < next) {
            const float *read = state;
            if (l->key_input_mask) {
                const float *mask = l->key_input_mask + (l->starts[t + 1] + b) * H;
                for (integer j = 0; j < H; j++) copy[j] = state[j] * mask[j];
                read = copy;
            }
            put_block(before, l->half, b * H, H, read);
        }
    }
}

/* Gradient of [h ; c] at history position p of column b, from the attention of all later steps of the chunk. */
static inline void memory_grad(const Layer *l, integer steps, integer p, integer b, float *restrict grad) {
    integer H = l->hidden, N = l->slots;
    memset(grad, 0, 2 * H * sizeof(float));
    /* Step t reads position p at index p - t of its window. */
    for (integer t = p < N ? 0 : p - N + 1; t < steps && t <= p; t++) {
        if (b >= count_of(l, t)) break;
        integer row = l->starts[t] + b, place = p - t;
        float weight = l->attentions[row * N + place], key_weight = l->score_grads[row * N + place];
        const float *read = l->read_grads + row * 2 * H, *key = l->keys + row * H;
        if (weight != 0)
            for (integer j = 0; j < 2 * H; j++) grad[j] += weight * read[j];
        if (key_weight != 0)
            for (integer j = 0; j < H; j++) grad[j] += key_weight * key[j];
    }
}

/* Backward of read_cell. product: the gradient of the input of the next step's key product. */
void read_cell_backward(const Layer *l, integer t, integer steps, const void *product) {
    integer H = l->hidden, count = count_of(l, t), next = t + 1 < steps ? count_of(l, t + 1) : 0;
#pragma omp parallel for num_threads(l->threads) schedule(static) if (l->threads > 1)
    for (integer b = 0; b < count; b++) {
        integer row = l->starts[t] + b;
        float *restrict grad = l->carried + b * 2 * H, copy[4 * H];
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
        const float *i = l->activations + row * 4 * H, *f = i + H, *g = f + H, *o = g + H;
        const float *tanhs = l->cell_tanhs + row * H, *read = l->reads + row * 2 * H + H;
        float *restrict i_grad = l->gate_grads + row * 4 * H, *restrict norm_grad = l->cell_norm_grads + row * H;
        float *restrict f_grad = i_grad + H, *restrict g_grad = f_grad + H, *restrict o_grad = g_grad + H;
        float cell[H];
        for (integer j = 0; j < H; j++) {
            o_grad[j] = grad[j] * tanhs[j] * (o[j] - o[j] * o[j]);
            norm_grad[j] = grad[j] * o[j] * (1 - tanhs[j] * tanhs[j]);
            cell[j] = norm_grad[j] * l->cell_gain[j];
        }
        normalise_backward(cell, l->cell_normals + row * H, H, l->cell_scales[row], l->cell_factors[row]);
        for (integer j = 0; j < H; j++) {
            float d = cell[j] + grad[H + j];
            i_grad[j] = d * g[j] * (i[j] - i[j] * i[j]);
            f_grad[j] = d * read[j] * (f[j] - f[j] * f[j]);
            g_grad[j] = d * i[j] * (1 - g[j] * g[j]);
            grad[H + j] = d * f[j];  /* of the attended cell */
        }
        for (integer j = 0; j < 4 * H; j++) copy[j] = i_grad[j] * l->gain[j];
        normalise_backward(copy, l->normals + row * 4 * H, 4 * H, l->scales[row], l->factors[row]);
        put_block(l->recurrent_grads, l->half, row * 4 * H, 4 * H, copy);
    }
}

/* Backward of read_attend. product: the gradient of h~. */
void read_attend_backward(const Layer *l, integer t, const void *product) {
    integer H = l->hidden, N = l->slots, count = count_of(l, t);
    float root = 1.0f / sqrtf((float)H);
#pragma omp parallel for num_threads(l->threads) schedule(static) if (l->threads > 1)
    for (integer b = 0; b < count; b++) {
        integer row = l->starts[t] + b;
        float copy[H], grads[MAX_SLOTS];
        float *restrict read_grad = l->read_grads + row * 2 * H;
        memcpy(read_grad, block_of(product, l->half, b * H, H, copy), H * sizeof(float));
        memcpy(read_grad + H, l->carried + b * 2 * H + H, H * sizeof(float));
        const float *window = l->history + (b * l->length + t) * 2 * H;
        const float *a = l->attentions + row * N, *e = l->exponentials + row * N, *gate = l->gates + row * N;
        float *slot_grad = l->slot_grads + row * N, *score_grad = l->score_grads + row * N, mean = 0;
        for (integer k = 0; k < N; k++) {
            const float *state = window + k * 2 * H;
            float sum = 0;
            for (integer j = 0; j < 2 * H; j++) sum += state[j] * read_grad[j];
            grads[k] = sum;
            mean += sum * a[k];
        }
        float total = l->totals[row];
        for (integer k = 0; k < N; k++) {
            slot_grad[k] = (grads[k] - mean) / total * e[k];
            score_grad[k] = slot_grad[k] * gate[k] * root;
        }
        score_grad[l->largest[row]] -= mean * EPSILON / total * root;
        float *restrict key_grad = l->key_grads + row * H;
        memset(key_grad, 0, H * sizeof(float));
        for (integer k = 0; k < N; k++) {
            const float *h = window + k * 2 * H;
            float weight = score_grad[k];
            if (weight == 0) continue;
            for (integer j = 0; j < H; j++) key_grad[j] += weight * h[j];
        }
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
