/* SPDX-License-Identifier: Apache-2.0 */
/* prompt_list.c - where the parts of prompts are found, and all prompts of a challenge. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "prompt.h"
#include "scope.h"
#include "tool.h"

bool ts_prompt_places_find(ts_prompt_places *p)
{
    static const char *const templates[] = { "../contest/challenge",
                                             "../share/touchstone/challenge", NULL };
    static const char *const contract[] = { "../include/touchstone", NULL };
    *p->templates = *p->headers = 0;
    return ts_find(templates, p->templates, sizeof p->templates) &&
           ts_find(contract, p->headers, sizeof p->headers);
}

static void put(const ts_task *t, const ts_prompt_language *l, const ts_prompt_places *p, ts_jw *w)
{
    char  *text = NULL;
    size_t n;
    FILE  *f = open_memstream(&text, &n);
    bool   ok = f && ts_prompt_write(t, l, p->templates, p->headers, true, f);
    if (f) ok = !fclose(f) && ok;
    if (ok) {
        ts_jw_open(w, NULL, '{');
        ts_jw_text(w, "title", l->title);
        ts_jw_text(w, "text", text);
        ts_jw_close(w, '}');
    }
    free(text);
}

void ts_prompts_of(const char *label, ts_jw *w)
{
    const size_t     n = strcspn(label, "/");
    const ts_device  device = strcmp(label + n, "/cuda") ? TS_CPU : TS_CUDA;
    ts_prompt_places p;
    if (!ts_prompt_places_find(&p)) return;
    for (int i = 0; ts_tasks[i]; i++) {
        const ts_task *t = ts_tasks[i];
        if (strlen(t->name) != n || strncmp(t->name, label, n) || t->no_challenge) continue;
        for (const ts_prompt_language *l = ts_prompt_languages; l->name; l++)
            if (l->device == device && ts_class_enters(t, l->cls)) put(t, l, &p, w);
    }
}
