/* Dropout by random bits, forward and backward (see dropout.py). */

#include "kernels.h"

#define PART 1024 /* entries at a time */

/* results = values * mask, of `count` entries; the mask is 65536 / kept where bits + 32768 < kept, elsewhere 0.
   values: null for the mask itself. */
void dropout(const int16_t *bits, integer kept, const void *values, int half, integer count, void *results,
             integer threads) {
    integer parts = (count + PART - 1) / PART;
    int limit = (int)kept - 32768;
    float scale = 65536.0f / (float)kept;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (integer part = 0; part < parts; part++) {
        integer from = part * PART, size = count - from < PART ? count - from : PART;
        float mask[PART], copy[PART];
        for (integer j = 0; j < size; j++) mask[j] = bits[from + j] < limit ? scale : 0.0f;
        if (values) {
            const float *x = block_of(values, half, from, size, copy);
            for (integer j = 0; j < size; j++) mask[j] *= x[j];
        }
        put_block(results, half, from, size, mask);
    }
}
