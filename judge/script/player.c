/* SPDX-License-Identifier: Apache-2.0 */
/* player.c - finds the player of a challenge, and moves bytes on the CPU. */
#include "player.h"

#include <string.h>

#include "challenges.h"

#define NOT(name)
#define DECLARE(name) extern const ts_player ts_player_##name;
TS_CHALLENGES(NOT, DECLARE)

const ts_player *ts_player_of(const char *challenge)
{
#define IF(name)                                                                                   \
    if (!strcmp(challenge, #name)) return &ts_player_##name;
    TS_CHALLENGES(NOT, IF)
    return NULL;
}

static int copy(void *to, const void *from, size_t n)
{
    memcpy(to, from, n);
    return 0;
}

static int fill(void *p, int byte, size_t n)
{
    memset(p, byte, n);
    return 0;
}

const ts_mover ts_on_cpu = { copy, copy, copy, fill, false };
const ts_mover ts_by_value = { copy, copy, copy, fill, true };
