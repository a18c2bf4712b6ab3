/* SPDX-License-Identifier: Apache-2.0 */
/* clients.c - counts the connections that owe a request, and closes them. */
#define _GNU_SOURCE
#include "clients.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"

struct ts_client {
    int             fd;
    struct in6_addr from;    /* the address, of either kind */
    double          since_s; /* it owes a request; 0: it has sent it */
    ts_client      *next;
};

static struct in6_addr address_of(const struct sockaddr *a)
{
    struct in6_addr all = { 0 };
    if (a->sa_family == AF_INET6) return ((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    if (a->sa_family == AF_INET)
        memcpy(&all, &((const struct sockaddr_in *)(const void *)a)->sin_addr,
               sizeof(struct in_addr));
    return all;
}

static bool owes(const ts_client *k)
{
    return k->since_s > 0;
}

static int n_owed_by(const ts_clients *all, const struct in6_addr *from)
{
    int n = 0;
    for (const ts_client *k = all->newest; k; k = k->next)
        n += owes(k) && !memcmp(&k->from, from, sizeof *from);
    return n;
}

static void close_one(const ts_clients *all)
{
    ts_client *oldest = NULL;
    int        most = 0, n_owe = 0;
    for (const ts_client *k = all->newest; k; k = k->next) n_owe += owes(k);
    if (n_owe <= TS_CLIENTS_OWING) return;
    for (ts_client *k = all->newest; k; k = k->next) {
        const int n = owes(k) ? n_owed_by(all, &k->from) : 0;
        if (n && n >= most) oldest = k;
        if (n > most) most = n;
    }
    shutdown(oldest->fd, SHUT_RDWR);
    oldest->since_s = 0; /* it is as good as gone */
}

static ts_client *begin(ts_clients *all, struct MHD_Connection *c)
{
    ts_client *k = calloc(1, sizeof *k);
    if (!k) return NULL;
    k->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    k->from =
        address_of(MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr);
    k->since_s = ts_seconds();
    k->next = all->newest;
    all->newest = k;
    close_one(all);
    return k;
}

static void end(ts_clients *all, ts_client *k)
{
    ts_client **at = &all->newest;
    while (*at != k) at = &(*at)->next;
    *at = k->next;
    free(k);
}

void ts_clients_notify(void *user, struct MHD_Connection *c, void **context,
                       enum MHD_ConnectionNotificationCode what)
{
    ts_clients *all = user;
    pthread_mutex_lock(&all->lock);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) *context = begin(all, c);
    else if (*context) {
        end(all, *context);
        *context = NULL;
    }
    pthread_mutex_unlock(&all->lock);
}

void ts_clients_set_owes(ts_clients *all, struct MHD_Connection *c, bool yes)
{
    ts_client *k = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    pthread_mutex_lock(&all->lock);
    if (k) k->since_s = yes ? ts_seconds() : 0;
    pthread_mutex_unlock(&all->lock);
}

void ts_clients_hurry(ts_clients *all, double most_s)
{
    const double before = ts_seconds() - most_s;
    pthread_mutex_lock(&all->lock);
    for (const ts_client *k = all->newest; k; k = k->next)
        if (owes(k) && k->since_s <= before) shutdown(k->fd, SHUT_RDWR);
    pthread_mutex_unlock(&all->lock);
}

int64_t ts_clients_count(ts_clients *all)
{
    int64_t n = 0;
    pthread_mutex_lock(&all->lock);
    for (const ts_client *k = all->newest; k; k = k->next) n++;
    pthread_mutex_unlock(&all->lock);
    return n;
}
