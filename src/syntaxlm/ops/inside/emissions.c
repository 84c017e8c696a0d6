/* The softmax over the vocabulary between its products: exponentials of the logits, in place, and their sums. */

#include "lanes.h"

/* logits (rows, size), size a multiple of 64; bias (size,), minus infinity where there is no word, in the order in which
   `load_block` gives entries. Writes exp(logit + bias - greatest) in place; of each row the greatest and the sum. */
void exponentials(void *logits, int half, integer rows, integer size, const float *bias, float *greatest, float *sums,
                  int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (integer row = 0; row < rows; row++) {
        lanes values[4], top = {0};
        top -= INFINITY;
        for (integer at = 0; at < size; at += BLOCK) {
            load_block(logits, half, row * size + at, values);
            for (int j = 0; j < 4; j++) top = greater(values[j] + *(const lanes *)(bias + at + 16 * j), top);
        }
        float most = greatest_of(top);
        lanes sum = {0};
        for (integer at = 0; at < size; at += BLOCK) {
            load_block(logits, half, row * size + at, values);
            for (int j = 0; j < 4; j++) {
                values[j] = exp_of_negative(values[j] + *(const lanes *)(bias + at + 16 * j) - most);
                sum += values[j];
            }
            store_block(logits, half, row * size + at, values);
        }
        greatest[row] = most;
        sums[row] = sum_of(sum);
    }
}
