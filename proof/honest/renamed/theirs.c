/* SPDX-License-Identifier: Apache-2.0 */
/* theirs.c - a third-party function that knows nothing of the challenge: the m most probable of n
 * scores. Returns the log of the sum. */
#include <math.h>

double likeliest(int m, float *p, int *who, int n, const float *score, double beta);

double likeliest(int m, float *p, int *who, int n, const float *score, double beta)
{
    double top = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) top = score[i] > top ? score[i] : top;
    for (int i = 0; i < n; i++) sum += exp(beta * (score[i] - top));
    for (int j = 0; j < m; j++) {
        int best = -1;
        for (int i = 0; i < n; i++) {
            if (j && !(score[i] < score[who[j - 1]] ||
                       (score[i] == score[who[j - 1]] && i > who[j - 1])))
                continue;
            if (best < 0 || score[i] > score[best]) best = i;
        }
        who[j] = best;
        p[j] = (float)(exp(beta * (score[best] - top)) / sum);
    }
    return beta * top + log(sum);
}
