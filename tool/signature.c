/* SPDX-License-Identifier: Apache-2.0 */
/* signature.c - signs logs, and verifies their signatures, with ssh-keygen. */
#define _GNU_SOURCE
#include "signature.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool.h"

#define NAMESPACE "touchstone-log"

enum { ABSENT = 127, BYTES = 8192 }; /* a signature with RSA 4096 has 1600 characters */

static const char BEGIN[] = "-----BEGIN SSH SIGNATURE-----";

/* A file in memory, at its beginning; the child opens it by its number. */
static int file_of(const char *text)
{
    const int fd = memfd_create("signature", 0);
    if (fd >= 0 && (write(fd, text, strlen(text)) != (ssize_t)strlen(text) || lseek(fd, 0, 0))) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Runs ssh-keygen with `in` as its input. Returns its exit status; what it wrote to standard output
 * is in `out`, or if that is nothing, its last error line. */
static int keygen(const char *const *argv, const char *in, char out[BYTES])
{
    char      said[BYTES];
    int       status = -1, pipes[2][2] = { { -1, -1 }, { -1, -1 } };
    const int from = file_of(in);
    *out = *said = 0;
    if (from < 0 || pipe2(pipes[0], O_CLOEXEC) || pipe2(pipes[1], O_CLOEXEC)) return -1;
    const pid_t child = fork();
    if (!child) {
        dup2(from, 0), dup2(pipes[0][1], 1), dup2(pipes[1][1], 2);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(ABSENT);
    }
    close(from), close(pipes[0][1]), close(pipes[1][1]);
    struct pollfd wait[2] = { { .fd = pipes[0][0], .events = POLLIN },
                              { .fd = pipes[1][0], .events = POLLIN } };
    size_t        n[2] = { 0, 0 };
    char         *to[2] = { out, said };
    while (child > 0 && (wait[0].fd >= 0 || wait[1].fd >= 0) && poll(wait, 2, -1) > 0)
        for (int i = 0; i < 2; i++) {
            char          rest[512];
            const bool    fits = n[i] + 1 < BYTES;
            const ssize_t got = !wait[i].revents ? 1
                                : fits           ? read(wait[i].fd, to[i] + n[i], BYTES - 1 - n[i])
                                                 : read(wait[i].fd, rest, sizeof rest);
            if (got <= 0) wait[i].fd = -1;
            else if (wait[i].revents && fits) n[i] += (size_t)got;
        }
    out[n[0]] = said[n[1]] = 0;
    close(pipes[0][0]), close(pipes[1][0]);
    if (child < 0 || waitpid(child, &status, 0) != child) return -1;
    if (!*out) {
        said[strcspn(said, "\n")] = 0;
        snprintf(out, BYTES, "%s", said);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Stops at the first control character, and at the end of the line. */
static void plain(char *s)
{
    while (*s && (unsigned char)*s >= ' ' && *s != 127) s++;
    *s = 0;
}

/* ---- signing ---- */

static bool sign(const char *key, const char *hash, char signature[BYTES])
{
    const char *const argv[] = { "ssh-keygen", "-Y", "sign", "-n", NAMESPACE, "-f", key, NULL };
    char              message[80];
    snprintf(message, sizeof message, "%s\n", hash);
    const int status = keygen(argv, message, signature);
    if (!status && !strncmp(signature, BEGIN, strlen(BEGIN))) return true;
    plain(signature);
    if (status == ABSENT)
        return ts_fail("--sign: ssh-keygen was not found; install OpenSSH's client");
    return ts_fail("--sign: %s: cannot sign: %.200s", key, *signature ? signature : "no signature");
}

bool ts_sign_try(const char *key)
{
    char signature[BYTES];
    return sign(key, "a test of the key, before anything is judged", signature);
}

bool ts_sign_log(ts_log *l, const char *key)
{
    char signature[BYTES];
    if (!sign(key, ts_log_last(l), signature)) return false;
    ts_jw_text(ts_log_begin(l, "signature"), "signature", signature);
    return ts_log_commit(l) || ts_fail("--sign: the log cannot be written: %s", strerror(l->error));
}

/* ---- verification ---- */

/* What is known of a signature. */
typedef struct signer {
    char name[128]; /* "": unknown */
    char key[128];  /* its fingerprint */
} signer;

/* "... SHA256:abc" */
static bool take_fingerprint(const char *said, signer *s)
{
    const char  *at = strstr(said, "SHA256:");
    const size_t n = at ? strcspn(at, " \n") : 0;
    if (n < 20 || n >= sizeof s->key) return false;
    memcpy(s->key, at, n);
    s->key[n] = 0;
    return true;
}

/* 0: it matches; ABSENT: there is no ssh-keygen; else it does not match. */
static int verify(const char *hash, const char *text, const char *signers, signer *s)
{
    char file[32], message[80], out[BYTES];
    *s = (signer) { "", "" };
    if (strncmp(text, BEGIN, strlen(BEGIN)) || strlen(text) >= BYTES) return 1;
    const int fd = file_of(text);
    if (fd < 0) return -1;
    snprintf(file, sizeof file, "/proc/self/fd/%d", fd);
    snprintf(message, sizeof message, "%s\n", hash);
    const char *const matches[] = { "ssh-keygen", "-Y", "check-novalidate", "-n", NAMESPACE, "-s",
                                    file,         NULL };
    int               status = keygen(matches, message, out);
    if (!status && !take_fingerprint(out, s)) status = 1;
    if (!status && signers) {
        const char *const who[] = { "ssh-keygen", "-Y", "find-principals", "-s",
                                    file,         "-f", signers,           NULL };
        char              name[BYTES];
        if (!keygen(who, message, name)) {
            plain(name);
            const char *const known[] = { "ssh-keygen", "-Y", "verify", "-n", NAMESPACE, "-s",
                                          file,         "-f", signers,  "-I", name,      NULL };
            if (!keygen(known, message, out)) snprintf(s->name, sizeof s->name, "%.100s", name);
        }
    }
    close(fd);
    return status;
}

/* Appends "signed by NAME KEY, lines 1 to 12". */
static void describe(char *text, const signer *s, size_t from, size_t to, bool whole)
{
    const size_t at = strlen(text);
    const char  *also = at ? "; " : "";
    if (at + 200 > TS_SIGNED) return;
    snprintf(text + at, TS_SIGNED - at, "%ssigned by %s %s, ", also,
             *s->name ? s->name : "unknown key", s->key);
    const size_t end = strlen(text);
    if (whole) snprintf(text + end, TS_SIGNED - end, "whole log");
    else snprintf(text + end, TS_SIGNED - end, "lines %zu to %zu", from, to);
}

bool ts_signed_by(const ts_records *r, const char *signers, char text[TS_SIGNED], bool *trusted,
                  char why[TS_WHY])
{
    size_t from = 1; /* the first line that no signature before is about */
    *text = 0;
    *trusted = true;
    if (signers && access(signers, R_OK))
        return snprintf(why, TS_WHY, "--signers: %.150s: %s", signers, strerror(errno)), false;
    for (size_t i = 0; i < r->n; i++) {
        signer s;
        if (!ts_record_is(&r->at[i], "signature")) continue;
        const ts_jr_node *v = r->at[i].root;
        const int         status =
            verify(ts_jr_text(v, "prev", ""), ts_jr_text(v, "signature", ""), signers, &s);
        if (status == ABSENT && !signers) {
            *trusted = false;
            snprintf(text, TS_SIGNED, "not verified: ssh-keygen was not found");
            return true;
        }
        if (status) {
            if (status == ABSENT) snprintf(why, TS_WHY, "--signers: ssh-keygen was not found");
            else
                snprintf(why, TS_WHY,
                         "line %zu: signature does not match: the log was altered after signing",
                         i + 1);
            return false;
        }
        *trusted = *trusted && *s.name;
        describe(text, &s, from, i, from == 1 && i + 1 == r->n);
        from = i + 2;
    }
    const bool rest = from <= r->n, any = from > 1;
    if (rest) {
        const size_t at = strlen(text);
        if (any) snprintf(text + at, TS_SIGNED - at, "; lines %zu to %zu unsigned", from, r->n);
        else snprintf(text, TS_SIGNED, "unsigned");
    }
    *trusted = *trusted && any && !rest;
    return true;
}
