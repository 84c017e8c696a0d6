/* (x - mean) / (std + 1e-6), std with Bessel's correction, and its gradient, as in layer_norm.py. */

#ifndef SYNTAXLM_NORM
#define SYNTAXLM_NORM

#include "kernels.h"

#define NORM_EPSILON 1e-6f
#define VARIANCE_FLOOR 1e-24f /* avoids division by 0 for a constant row */

/* mean; scale, the factor of x - mean; factor of the projection in backward. */
static inline void spread_of(const float *x, integer size, float *mean, float *scale, float *factor) {
    float sum = 0, squares = 0;
    for (integer j = 0; j < size; j++) sum += x[j];
    float middle = sum / size;
    for (integer j = 0; j < size; j++) { float c = x[j] - middle; squares += c * c; }
    float spread = sqrtf((squares / size + VARIANCE_FLOOR) * size / (size - 1)) + NORM_EPSILON;
    *mean = middle;
    *scale = 1.0f / spread;
    *factor = spread / ((spread - NORM_EPSILON) * (size - 1));
}

/* In place. */
static inline void normalise(float *x, integer size, float *scale, float *factor) {
    float mean = 0;
    spread_of(x, size, &mean, scale, factor);
    float s = *scale;
    for (integer j = 0; j < size; j++) x[j] = (x[j] - mean) * s;
}

/* The gradient of normalise, in place. */
static inline void normalise_backward(float *grad, const float *normal, integer size, float scale, float factor) {
    float sum = 0, projection = 0;
    for (integer j = 0; j < size; j++) { sum += grad[j]; projection += grad[j] * normal[j]; }
    float mean = sum / size;
    projection *= factor;
    for (integer j = 0; j < size; j++) grad[j] = (grad[j] - mean - normal[j] * projection) * scale;
}

#endif
