/* SPDX-License-Identifier: Apache-2.0 */
/* The way to a program of the server: by its portmapper, or to a port that was given. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "session.h"

#define CONNECT_SECONDS 10

/* A connected socket that blocks from then on; -1 with errno. */
static int connect_within(const struct addrinfo *address)
{
    int descriptor = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd waiting = {.fd = descriptor, .events = POLLOUT};
    int error = 0;
    socklen_t length = sizeof(error);

    if (descriptor < 0)
        return -1;
    if (connect(descriptor, address->ai_addr, address->ai_addrlen) != 0) {
        if (errno != EINPROGRESS)
            error = errno;
        else if (poll(&waiting, 1, CONNECT_SECONDS * 1000) != 1)
            error = ETIMEDOUT;
        else
            getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length);
    }
    if (error == 0 && fcntl(descriptor, F_SETFL, 0) != 0)
        error = errno;
    if (error == 0)
        return descriptor;
    close(descriptor);
    errno = error;
    return -1;
}

static CLIENT *at_port(const char *host, uint16_t port, unsigned long program, unsigned long version,
                       struct vaainas_failure *failure)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *addresses = NULL;
    char service[6];
    CLIENT *client = NULL;

    snprintf(service, sizeof(service), "%u", (unsigned int)port);
    int error = getaddrinfo(host, service, &hints, &addresses);
    if (error != 0) {
        fail(failure, VAAINAS_UNREACHABLE, "%s: %s", host, gai_strerror(error));
        return NULL;
    }
    for (const struct addrinfo *address = addresses; client == NULL && address != NULL; address = address->ai_next) {
        int descriptor = connect_within(address);
        if (descriptor < 0) {
            fail(failure, VAAINAS_UNREACHABLE, "%s, port %s: %s", host, service, strerror(errno));
            continue;
        }
        const struct netbuf peer = {.maxlen = address->ai_addrlen, .len = address->ai_addrlen, .buf = address->ai_addr};
        client = clnt_vc_create(descriptor, &peer, (rpcprog_t)program, (rpcvers_t)version, 0, 0);
        if (client == NULL) {
            fail(failure, VAAINAS_UNREACHABLE, "%s, port %s: %s", host, service, clnt_sperrno(rpc_createerr.cf_stat));
            close(descriptor);
        } else {
            clnt_control(client, CLSET_FD_CLOSE, NULL);
        }
    }
    freeaddrinfo(addresses);
    return client;
}

static CLIENT *by_portmapper(const char *host, unsigned long program, unsigned long version, struct vaainas_failure *failure)
{
    const struct timeval timeout = {.tv_sec = CONNECT_SECONDS};
    CLIENT *client = clnt_create_timed(host, (rpcprog_t)program, (rpcvers_t)version, "tcp", &timeout);

    if (client == NULL) {
        bool absent = rpc_createerr.cf_stat == RPC_PROGNOTREGISTERED;
        if (!absent)
            client = clnt_create_timed(host, (rpcprog_t)program, (rpcvers_t)version, "tcp6", &timeout);
        if (client == NULL)
            fail(failure, absent ? VAAINAS_NO_SERVICE : VAAINAS_UNREACHABLE, "%s: %s", host,
                 absent ? "the server's portmapper does not know the program" : clnt_sperrno(rpc_createerr.cf_stat));
    }
    return client;
}

CLIENT *connect_to(const char *host, uint16_t port, unsigned long program, unsigned long version, struct vaainas_failure *failure)
{
    CLIENT *client = port != 0 ? at_port(host, port, program, version, failure) : by_portmapper(host, program, version, failure);

    if (client == NULL)
        return NULL;
    auth_destroy(client->cl_auth);
    client->cl_auth = authunix_create_default();
    if (client->cl_auth == NULL) {
        client->cl_auth = authnone_create();
        fail(failure, VAAINAS_NO_MEMORY, "there is no memory for credentials");
        clnt_destroy(client);
        return NULL;
    }
    return client;
}

void disconnect(CLIENT *client)
{
    if (client == NULL)
        return;
    auth_destroy(client->cl_auth);
    clnt_destroy(client);
}
