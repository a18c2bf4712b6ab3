/* SPDX-License-Identifier: Apache-2.0 */
/* signature.h - signatures of logs, by OpenSSH's ssh-keygen: who vouches for a run.
 *
 * A record `signature` signs the hash of the line before it, and with it every line before. Its
 * text is what `ssh-keygen -Y sign -n touchstone-log` writes for the 64 digits of that hash and a
 * line feed. The hash is the record's own `prev`. */
#ifndef TS_TOOL_SIGNATURE_H
#define TS_TOOL_SIGNATURE_H

#include "log.h"

enum { TS_SIGNED = 400 };

/* Whether the key can sign, tried before anything is judged. False, and an error line. */
bool ts_sign_try(const char *key);

/* Appends a record `signature`. False, and an error line. */
bool ts_sign_log(ts_log *l, const char *key);

/* Who signed a log: "unsigned", or "signed by NAME SHA256:..., whole log". `signers` is a file of
 * allowed signers (ssh-keygen(1)); NULL, or without the key: "signed by unknown key SHA256:...".
 * *trusted: the whole log is signed by keys of `signers`. False, and one line in why, if a
 * signature does not match, or if signers are given and cannot be checked. */
bool ts_signed_by(const ts_records *r, const char *signers, char text[TS_SIGNED], bool *trusted,
                  char why[TS_WHY]);

#endif
