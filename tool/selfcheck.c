/* SPDX-License-Identifier: Apache-2.0 */
/* selfcheck.c - `touchstone judge --selfcheck`: prints the guarantees of machine and device. */
#include "selfcheck.h"
#include "keeper.h"
#include "tool.h"

static void print(FILE *f, const ts_guarantees *g, const ts_survey *device)
{
    if (device)
        fprintf(f, "device: %s; copy %.0f GB/s; empty kernel %.1f us\n", device->text,
                device->copy_gbs, device->probe_ns / 1e3);
    fprintf(f, "badge: %s\n", g->badge);
    for (int i = 0; i < g->n; i++)
        fprintf(f, "  %-4s %-24s %s\n", g->g[i].held ? "yes" : "NO", g->g[i].name, g->g[i].text);
    fprintf(f, "empty call: median %.0f ns, p95 %.0f ns; process start: %.1f ms\n", g->empty_ns,
            g->empty_p95_ns, g->start_ms);
    fprintf(f,
            "wake-up allowance: %.0f us, cold %.0f us; %d threads %.0f us, cold %.0f us; time "
            "beyond the allowance counts\n",
            g->honest.lead_ns[0] / 1e3, g->honest.lead_ns[TS_LEADS - 1] / 1e3, g->honest.many,
            g->honest.many_ns[0] / 1e3, g->honest.many_ns[TS_LEADS - 1] / 1e3);
}

static void to_json(ts_json *root, const ts_guarantees *g, const ts_survey *device)
{
    if (device) {
        ts_json *o = ts_json_object(root, "device");
        ts_json_text(o, "text", device->text);
        ts_json_number(o, "copy_gbs", device->copy_gbs);
        ts_json_number(o, "empty_kernel_ns", device->probe_ns);
    }
    ts_json_text(root, "badge", g->badge);
    ts_json_number(root, "call_ns", g->empty_ns);
    ts_json_number(root, "start_ms", g->start_ms);
    ts_json *all = ts_json_array(root, "guarantees");
    for (int i = 0; i < g->n; i++) {
        ts_json *o = ts_json_object(all, NULL);
        ts_json_text(o, "name", g->g[i].name);
        ts_json_bool(o, "held", g->g[i].held);
        ts_json_bool(o, "needed", g->g[i].needed);
        ts_json_text(o, "text", g->g[i].text);
    }
}

int ts_selfcheck(const ts_survey *device, const char *json)
{
    static ts_guarantees g;
    ts_json             *root;
    if (!ts_json_open(json, &root)) return TS_EXIT_BROKEN;
    const bool works = ts_guarantee_all(&g);
    if (device) ts_guarantee_device(&g);
    if (device) ts_fact_all(&g);
    /* Text goes to standard error if JSON goes to standard output. */
    print(json && *json == '-' && !json[1] ? stderr : stdout, &g, device);
    to_json(root, &g, device);
    if (!ts_json_close(json, root)) return TS_EXIT_BROKEN;
    return works ? TS_EXIT_PASSED : TS_EXIT_BROKEN;
}
