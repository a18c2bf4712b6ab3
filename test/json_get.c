/* SPDX-License-Identifier: Apache-2.0 */
/* json_get.c - prints the value at each dotted path (A.0: an array's first) of the JSON on standard
 * input.
 *
 *     json_get A.B...
 *
 * Fails if the input is not one strict JSON document, or a path does not exist. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    json_error_t  error;
    json_t *const root = json_loadf(stdin, JSON_REJECT_DUPLICATES, &error);
    if (!root) return fprintf(stderr, "json_get: line %d: %s\n", error.line, error.text), 1;
    for (int i = 1; i < argc; i++) {
        json_t *at = root;
        for (char *key = strtok(argv[i], "."); key && at; key = strtok(NULL, "."))
            at = json_is_array(at) ? json_array_get(at, (size_t)atoi(key))
                                   : json_object_get(at, key);
        if (!at) return fprintf(stderr, "json_get: no %s\n", argv[i]), 1;
        if (json_dumpf(at, stdout, JSON_ENCODE_ANY | JSON_COMPACT) || putchar('\n') < 0) return 1;
    }
    json_decref(root);
    return 0;
}
