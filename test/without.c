/* SPDX-License-Identifier: Apache-2.0 */
/* without.c - runs a program without one of the kernel's features, as on a machine that lacks it.
 *
 *     without FEATURE PROGRAM [ARGUMENT...]
 *
 * forbid.h lists the features. The steps of judge/cage/seal.c that no machine lacks are there, too,
 * so that their failure is seen. */
#define _GNU_SOURCE
#include <unistd.h>

#include "forbid.h"

int main(int argc, char **argv)
{
    const int status = argc < 3 ? 2 : forbid(argv[1]);
    if (status) return status;
    execvp(argv[2], argv + 2);
    return 127;
}
