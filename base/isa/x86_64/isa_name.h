/* SPDX-License-Identifier: Apache-2.0 */
/* isa_name.h - the name that this CPU reports. */
#ifndef TS_ISA_NAME_H
#define TS_ISA_NAME_H

#include <stdio.h>
#include <string.h>

static void ts_isa_cpu_name(char *text, size_t n)
{
    char  line[256], *name = NULL;
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && !name && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10)) name = strchr(line, ':');
    if (f) fclose(f);
    if (name) name[strcspn(name, "\n")] = 0;
    snprintf(text, n, "%s", name ? name + 2 : "x86-64 CPU");
}

#endif
