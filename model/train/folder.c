/* SPDX-License-Identifier: Apache-2.0 */
/* folder.c - locks a folder for one run at a time, and rejects a new run in a folder that has a
 * model. The lock is on the folder itself, leaves no file behind and ends with the process. */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train_impl.h"

static const char state_name[] = "checkpoint.bin";

/* What a run writes, and what a model has. */
static const char *const taken[] = { "config.json",         "model.safetensors",
                                     "tokenizer.json",      "tokenizer_config.json",
                                     "ternary.safetensors", "model.safetensors.index.json",
                                     "log.jsonl",           "pytorch_model.bin",
                                     "model.gguf" };

static bool is_there(int folder, const char *name)
{
    struct stat is;
    return !fstatat(folder, name, &is, 0);
}

static bool may_begin(int folder, char why[TS_MODEL_WHY])
{
    if (is_there(folder, state_name))
        return ts_say(why, "a checkpoint exists; continue with --resume or choose another folder");
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (is_there(folder, taken[i]))
            return ts_say(why, "the folder holds %s; choose another one", taken[i]);
    return true;
}

bool ts_folder_claim(ts_folder *f, const char *path, bool resume, char why[TS_MODEL_WHY])
{
    *f = (ts_folder) { .fd = -1, .path = path };
    f->made = !resume && !mkdir(path, 0777);
    f->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->fd < 0) return ts_say(why, "cannot open the folder: %s", strerror(errno));
    if (flock(f->fd, LOCK_EX | LOCK_NB))
        return ts_say(why, "%s",
                      errno == EWOULDBLOCK ? "another run writes into this folder"
                                           : "the folder cannot be locked");
    if (!resume) return may_begin(f->fd, why);
    return is_there(f->fd, state_name) ||
           ts_say(why, "no checkpoint to continue from; leave --resume out to begin a run");
}

void ts_folder_leave(ts_folder *f, bool well)
{
    if (f->fd >= 0) close(f->fd);
    if (f->made && !well) rmdir(f->path); /* succeeds only if the run wrote nothing */
    f->fd = -1;
}
