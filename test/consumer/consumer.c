/* SPDX-License-Identifier: Apache-2.0 */
/* consumer.c - a third-party program that uses the library, in C and C++, found by pkg-config and
 * by CMake. */
#include <math.h>
#include <stdio.h>
#include <touchstone/layernorm.h>

int main(void)
{
    const float               in[2] = { 1, 3 }, gamma[2] = { 2, 2 }, beta[2] = { 5, 5 };
    float                     out[2] = { 0, 0 }, mean = 0, rstd = 0;
    ts_layernorm_forward_args a = { TS_F32, 1, 2, 2, 3.0, in, gamma, beta, out, &mean, &rstd };
    ts_exec                   x = { TS_CPU, 1, 1, NULL, NULL, 0 };
    const ts_status           s = ts_layernorm_forward(&a, &x);
    printf("%s: %g %g, mean %g, rstd %g\n", ts_status_text(s), out[0], out[1], mean, rstd);
    /* mean 2, variance 1, eps 3: rstd 1/2, xhat -1/2 and 1/2. */
    return !(s == TS_OK && fabsf(out[0] - 4) < 1e-6f && fabsf(out[1] - 6) < 1e-6f &&
             fabsf(mean - 2) < 1e-6f && fabsf(rstd - 0.5f) < 1e-6f);
}
