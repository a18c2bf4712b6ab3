/* SPDX-License-Identifier: Apache-2.0 */
/* pass.h - sends a descriptor to another process, with a few bytes that say what it is. */
#ifndef TS_PASS_H
#define TS_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

typedef struct ts_parcel {
    struct iovec  part;
    struct msghdr m;
    union {
        char           room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } u;
} ts_parcel;

static inline void ts_parcel_make(ts_parcel *p, void *what, size_t n)
{
    memset(p, 0, sizeof *p);
    p->part = (struct iovec) { what, n };
    p->m.msg_iov = &p->part, p->m.msg_iovlen = 1;
    p->m.msg_control = p->u.room, p->m.msg_controllen = sizeof p->u.room;
}

/* False: the receiver is gone. */
static inline bool ts_pass(int socket, int fd, void *what, size_t n)
{
    ts_parcel p;
    ts_parcel_make(&p, what, n);
    struct cmsghdr *c = CMSG_FIRSTHDR(&p.m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    return sendmsg(socket, &p.m, MSG_NOSIGNAL) == (ssize_t)n;
}

/* Waits for it. False: there is none, or other bytes than these n. */
static inline bool ts_receive(int socket, int *fd, void *what, size_t n)
{
    ts_parcel p;
    ts_parcel_make(&p, what, n);
    if (recvmsg(socket, &p.m, MSG_CMSG_CLOEXEC) != (ssize_t)n) return false;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&p.m);
    if (!c || c->cmsg_type != SCM_RIGHTS) return false;
    memcpy(fd, CMSG_DATA(c), sizeof *fd);
    return true;
}

#endif
