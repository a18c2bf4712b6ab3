/* SPDX-License-Identifier: Apache-2.0 */
/* isa_name.h - the name of this CPU: the kernel gives numbers; this table names the common ones. */
#ifndef TS_ISA_NAME_H
#define TS_ISA_NAME_H

#include <stdio.h>
#include <string.h>

static void ts_isa_cpu_name(char *text, size_t n)
{
    static const struct {
        unsigned    maker, part;
        const char *name;
    } known[] = {
        { 0x41, 0xd08, "Cortex-A72" },  { 0x41, 0xd0b, "Cortex-A76" },
        { 0x41, 0xd0c, "Neoverse-N1" }, { 0x41, 0xd40, "Neoverse-V1" },
        { 0x41, 0xd49, "Neoverse-N2" }, { 0x41, 0xd4f, "Neoverse-V2" },
        { 0x41, 0xd83, "Neoverse-V3" }, { 0x41, 0xd8e, "Neoverse-N3" },
        { 0xc0, 0xac3, "Ampere-1" },    { 0xc0, 0xac4, "Ampere-1a" },
    };
    char     line[256];
    unsigned maker = 0, part = 0;
    FILE    *f = fopen("/proc/cpuinfo", "r");
    while (f && !part && fgets(line, sizeof line, f))
        if (sscanf(line, "CPU implementer : %x", &maker) != 1) sscanf(line, "CPU part : %x", &part);
    if (f) fclose(f);
    snprintf(text, n, "aarch64 CPU 0x%02x/0x%03x", maker, part);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].maker == maker && known[i].part == part)
            snprintf(text, n, "%s", known[i].name);
}

#endif
