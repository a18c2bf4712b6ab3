/* SPDX-License-Identifier: Apache-2.0 */
/* unit_fake_memory.c - tests that the fake driver's memory has the bounds of a device's, and is
 * shared like it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit_fake.h"

TEST_APART(a_read_only_mapping_refuses_writes)
{
    size_t        n;
    int64_t       i = 5;
    float         v = 3;
    ts_device_ptr p, to;
    open_device();
    p = place(0, &n);
    to = alloc(sizeof v);
    CHECK(LAUNCH(load("get"), 1, 1, 0, &to, &p, &i), OK);
    CHECK(d->copy_out(&v, to, sizeof v), OK);
    CHECK(v, 0);
    CHECK(d->copy_in(p, &v, sizeof v), INVALID);
    CHECK(LAUNCH(load("put"), 1, 1, 0, &p, &i, &v), OK);
    CHECK(d->sync(), ILLEGAL);
}

TEST_APART(unaligned_sizes_are_refused)
{
    const ts_mem_prop prop = { .type = 1, .handle_types = 1, .location_type = 1 };
    size_t            n, before, after, all;
    uint64_t          handle;
    ts_device_ptr     p, q;
    char              byte;
    open_device();
    CHECK(d->memory_info(&before, &all), OK);
    CHECK(before, all);
    CHECK(all, 8LL << 30);
    CHECK(d->create(&handle, 4096, &prop, 0), INVALID);
    CHECK(d->reserve(&p, 4096, 0, 0, 0), INVALID);
    n = ts_driver_granule(d);
    CHECK(d->create(&handle, 2 * n, &prop, 0), OK);
    CHECK(d->reserve(&p, 4 * n, 0, 0, 0), OK);
    CHECK(d->map(p + 4096, n, 0, handle, 0), INVALID);
    CHECK(d->map(p + 3 * n, 2 * n, 0, handle, 0), INVALID);
    CHECK(d->map(p + n, 2 * n, 0, handle, 0), OK);
    CHECK(d->map(p + 2 * n, n, 0, handle, 0), INVALID); /* taken */
    CHECK(d->copy_out(&byte, p + n, 1), INVALID);       /* no access yet */
    q = alloc(1);
    CHECK(d->memory_info(&after, &all), OK);
    CHECK(before - after, 3 * n);
    CHECK(d->free_(q), OK);
    CHECK(d->unreserve(p, 4 * n), INVALID);
    CHECK(d->release(handle), OK);
    CHECK(d->release(handle), INVALID);
    CHECK(d->unmap(p + n, 2 * n), OK);
    CHECK(d->unreserve(p, 4 * n), OK);
    CHECK(d->memory_info(&after, &all), OK);
    CHECK(before, after);
    CHECK(d->alloc(&q, all + 1), 2);
}

static void send_fd(int socket, int fd)
{
    union {
        struct cmsghdr align;
        char           bytes[CMSG_SPACE(sizeof fd)];
    } u = { 0 };
    struct iovec    v = { "", 1 };
    struct msghdr   m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &u, sizeof u.bytes, 0 };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    CHECK(sendmsg(socket, &m, 0), 1);
}

static int receive_fd(int socket)
{
    union {
        struct cmsghdr align;
        char           bytes[CMSG_SPACE(sizeof(int))];
    } u = { 0 };
    char          byte;
    int           fd;
    struct iovec  v = { &byte, 1 };
    struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &u, sizeof u.bytes, 0 };
    CHECK(recvmsg(socket, &m, 0), 1);
    CHECK(CMSG_FIRSTHDR(&m) != NULL, 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}

TEST_APART(two_processes_share_memory)
{
    int           pair[2], status, fd;
    uint64_t      handle;
    ts_device_ptr p;
    int64_t       i = 7;
    float         v = 42;
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    const pid_t other = fork();
    open_device();
    const size_t n = ts_driver_granule(d);
    if (!other) {
        fd = receive_fd(pair[1]);
        CHECK(d->import_fd(&handle, (void *)(intptr_t)fd, 1), OK);
        close(fd);
        CHECK(ts_driver_place(d, handle, n, 1, &p), OK);
        CHECK(d->release(handle), OK); /* the mapping holds it */
        CHECK(LAUNCH(load("put"), 1, 1, 0, &p, &i, &v), OK);
        CHECK(d->sync(), OK);
        _exit(0);
    }
    CHECK(d->import_fd(&handle, (void *)(intptr_t)pair[0], 1), INVALID);
    CHECK(ts_driver_share(d, n, &handle, &fd), OK);
    CHECK(ts_driver_place(d, handle, n, 0, &p), OK);
    send_fd(pair[0], fd);
    CHECK(waitpid(other, &status, 0), other);
    CHECK(status, 0);
    CHECK(d->copy_out(&v, p + 28, sizeof v), OK);
    CHECK(v, 42);
    CHECK(d->copy_out(&v, p + 24, sizeof v), OK);
    CHECK(v, 0);
}

int main(void)
{
    get_ready();
    return run_group("", compile, clean);
}
