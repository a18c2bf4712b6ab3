/* SPDX-License-Identifier: Apache-2.0 */
/* api_metrics.h - the text of /metrics. */
#ifndef TS_SERVE_API_METRICS_H
#define TS_SERVE_API_METRICS_H

#include "batcher.h"

typedef struct ts_api_http_counts {
    int64_t n_request;
    int64_t n_status[6]; /* by hundreds */
} ts_api_http_counts;

void ts_api_metrics(const ts_api_counts *c, const ts_api_http_counts *h, ts_text *out);

#endif
