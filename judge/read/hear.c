/* SPDX-License-Identifier: Apache-2.0 */
/* hear.c - reads what another process writes: see hear.h. */
#include "hear.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "clock.h"

bool ts_hear(int in, double end_s, bool all, void *to, size_t room, size_t *n)
{
    struct pollfd ready = { .fd = in, .events = POLLIN };
    char          more[4096];
    *n = 0;
    while (all || *n < room) {
        const double left_s = end_s - ts_seconds();
        const bool   keep = *n < room;
        const int    came = left_s > 0 ? poll(&ready, 1, (int)(left_s * 1e3) + 1) : 0;
        if (came < 0 && errno == EINTR) continue;
        if (came <= 0) return false;
        const ssize_t got = read(in, keep ? (char *)to + *n : more, keep ? room - *n : sizeof more);
        if (got <= 0) return true;
        if (keep) *n += (size_t)got;
    }
    return true;
}
