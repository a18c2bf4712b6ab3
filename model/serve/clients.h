/* SPDX-License-Identifier: Apache-2.0 */
/* clients.h - the connections of a server, and which of them owe a request: from their begin, or
 * the end of an answer, until all of the next request has come. */
#ifndef TS_SERVE_CLIENTS_H
#define TS_SERVE_CLIENTS_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { TS_CLIENTS_OWING = 64 }; /* connections that may owe a request at once */

typedef struct ts_client ts_client;

typedef struct ts_clients {
    pthread_mutex_t lock;
    ts_client      *newest;
} ts_clients;

/* An MHD_NotifyConnectionCallback; user: a ts_clients. If too many owe a request, the oldest of the
 * address that has most of them is closed: no client keeps others out by opening connections. */
void ts_clients_notify(void *user, struct MHD_Connection *c, void **context,
                       enum MHD_ConnectionNotificationCode what);

void    ts_clients_set_owes(ts_clients *all, struct MHD_Connection *c, bool owes);
void    ts_clients_hurry(ts_clients *all, double most_s); /* closes those that have owed longer */
int64_t ts_clients_count(ts_clients *all);

#endif
