/* SPDX-License-Identifier: Apache-2.0 */
/* api_metrics.c - the batcher's counts in Prometheus' text format. */
#include "api_metrics.h"

#include <stdarg.h>
#include <stdio.h>

static void line(ts_text *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void line(ts_text *out, const char *format, ...)
{
    char    text[512];
    va_list v;
    va_start(v, format);
    const int n = vsnprintf(text, sizeof text, format, v);
    va_end(v);
    if (n > 0)
        ts_text_add(out, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1, NULL, 0);
}

static void one(ts_text *out, const char *name, const char *type, const char *help, int64_t value)
{
    line(out, "# HELP touchstone_%s %s\n# TYPE touchstone_%s %s\ntouchstone_%s %lld\n", name, help,
         name, type, name, (long long)value);
}

typedef struct labelled {
    const char *value;
    int64_t     n;
} labelled;

static void several(ts_text *out, const char *name, const char *type, const char *help,
                    const char *label, const labelled *l, int n)
{
    line(out, "# HELP touchstone_%s %s\n# TYPE touchstone_%s %s\n", name, help, name, type);
    for (int i = 0; i < n; i++)
        line(out, "touchstone_%s{%s=\"%s\"} %lld\n", name, label, l[i].value, (long long)l[i].n);
}

static void histogram(ts_text *out, const char *name, const char *help, const ts_api_histogram *h)
{
    line(out, "# HELP touchstone_%s %s\n# TYPE touchstone_%s histogram\n", name, help, name);
    for (int i = 0; i < TS_API_BUCKETS; i++)
        line(out, "touchstone_%s_bucket{le=\"%g\"} %lld\n", name, ts_api_bucket_bounds[i],
             (long long)h->count[i]);
    line(out,
         "touchstone_%s_bucket{le=\"+Inf\"} %lld\ntouchstone_%s_sum %.6f\ntouchstone_%s_count "
         "%lld\n",
         name, (long long)h->n, name, h->sum, name, (long long)h->n);
}

void ts_api_metrics(const ts_api_counts *c, const ts_api_http_counts *h, ts_text *out)
{
    const labelled status[] = { { "2xx", h->n_status[2] },
                                { "4xx", h->n_status[4] },
                                { "5xx", h->n_status[5] } };
    const labelled finish[] = { { "stop", c->n_stop },
                                { "length", c->n_length },
                                { "cancelled", c->n_cancelled },
                                { "error", c->n_error } };
    const labelled pages[] = { { "free", c->cache.n_free },
                               { "live", c->cache.n_page - c->cache.n_free } };
    several(out, "http_requests_total", "counter", "HTTP requests by status.", "status", status, 3);
    several(out, "choices_total", "counter", "Choices that ended, by reason.", "finish", finish, 4);
    one(out, "rejected_total", "counter", "Requests rejected because the queue was full.",
        c->n_rejected);
    one(out, "prompt_tokens_total", "counter", "Prompt tokens of choices that ended.", c->n_prompt);
    one(out, "shared_tokens_total", "counter", "Prompt tokens found in the cache.",
        c->engine.n_shared);
    one(out, "generated_tokens_total", "counter", "Tokens generated.", c->n_token);
    one(out, "steps_total", "counter", "Forward passes.", c->engine.n_step);
    one(out, "preempted_total", "counter",
        "Sequences preempted: pages freed, to be computed again.", c->engine.n_preempted);
    one(out, "running", "gauge", "Choices in the batch.", c->engine.n_running);
    one(out, "waiting", "gauge", "Choices waiting for a slot in the batch.", c->engine.n_waiting);
    one(out, "kept_sequences", "gauge", "Finished sequences kept for reuse of their prefixes.",
        c->engine.n_kept);
    several(out, "cache_pages", "gauge", "Pages of the KV cache; kept sequences have live ones.",
            "state", pages, 2);
    one(out, "cache_bytes", "gauge", "Bytes of the KV cache.", (int64_t)c->cache.bytes_reserved);
    histogram(out, "first_token_seconds", "From the arrival of a request to its first token.",
              &c->first_s);
    histogram(out, "request_seconds", "From the arrival of a request to its end.", &c->total_s);
}
