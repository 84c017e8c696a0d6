/* Softmax over the vocabulary, between its matrix products: exponentials of the logits, in place, and their sums. */

#include <float.h>

#include "lanes.h"

/* logits (rows, size): one row per word; size, the number of preterminals, a multiple of 64. bias (rows,) or null.
   Writes exp(logit + bias - maximum) in place, and the maximal logit and the sum of exponentials of each preterminal, in
   the order in which `load_block` returns entries. */
void exponentials(void *logits, int half, integer rows, integer size, const float *bias, float *greatest, float *sums) {
    lanes values[4], *top = (lanes *)greatest, *sum = (lanes *)sums;
    for (integer j = 0; j < size; j++) greatest[j] = -FLT_MAX, sums[j] = 0;
    for (integer row = 0; row < rows; row++) {
        float more = bias ? bias[row] : 0;
        for (integer at = 0; at < size; at += BLOCK) {
            load_block(logits, half, row * size + at, values);
            for (int j = 0; j < 4; j++) top[at / 16 + j] = greater(values[j] + more, top[at / 16 + j]);
        }
    }
    for (integer row = 0; row < rows; row++) {
        float more = bias ? bias[row] : 0;
        for (integer at = 0; at < size; at += BLOCK) {
            load_block(logits, half, row * size + at, values);
            for (int j = 0; j < 4; j++) {
                values[j] = exp_of_negative(values[j] + more - top[at / 16 + j]);
                sum[at / 16 + j] += values[j];
            }
            store_block(logits, half, row * size + at, values);
        }
    }
}
