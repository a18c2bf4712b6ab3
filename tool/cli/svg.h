/* SPDX-License-Identifier: Apache-2.0 */
/* svg.h - private to cli/: the looks of lines and markers, which all plots share. */
#ifndef TS_SVG_H
#define TS_SVG_H

#include "cli.h"

typedef struct ts_look {
    const char *colour, *dash;
    char        marker;
    bool        filled;
} ts_look;

const ts_look *ts_svg_look(int i); /* of series i */

/* A marker; `says` is shown where a reader points at it; NULL: nothing. */
void ts_svg_marker(FILE *f, const ts_look *l, double x, double y, const char *says);

#endif
