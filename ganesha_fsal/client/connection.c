/* SPDX-License-Identifier: Apache-2.0 */
/* Connection to a program of the server, by its portmapper or a given port; reconnects after a break. */
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

/* A connected, blocking socket; -1 with errno. */
static int connection_connect_within(const struct addrinfo *address)
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
        else if (TEMP_FAILURE_RETRY(poll(&waiting, 1, CONNECT_SECONDS * 1000)) != 1)
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

static CLIENT *connection_at_port(const char *host, uint16_t port, unsigned long program, unsigned long version,
                                  struct vaainas_failure *failure)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *addresses = NULL;
    char service[6];
    CLIENT *client = NULL;

    snprintf(service, sizeof(service), "%u", (unsigned int)port);
    int error = getaddrinfo(host, service, &hints, &addresses);
    if (error != 0) {
        session_fail(failure, VAAINAS_UNREACHABLE, "%s: %s", host, gai_strerror(error));
        return NULL;
    }
    for (const struct addrinfo *address = addresses; client == NULL && address != NULL; address = address->ai_next) {
        int descriptor = connection_connect_within(address);
        if (descriptor < 0) {
            session_fail(failure, VAAINAS_UNREACHABLE, "%s, port %s: %s", host, service, strerror(errno));
            continue;
        }
        const struct netbuf peer = {.maxlen = address->ai_addrlen, .len = address->ai_addrlen, .buf = address->ai_addr};
        client = clnt_vc_create(descriptor, &peer, (rpcprog_t)program, (rpcvers_t)version, 0, 0);
        if (client == NULL) {
            session_fail(failure, VAAINAS_UNREACHABLE, "%s, port %s: %s", host, service, clnt_sperrno(rpc_createerr.cf_stat));
            close(descriptor);
        } else {
            clnt_control(client, CLSET_FD_CLOSE, NULL);
        }
    }
    freeaddrinfo(addresses);
    return client;
}

static CLIENT *connection_by_portmapper(const char *host, unsigned long program, unsigned long version,
                                        struct vaainas_failure *failure)
{
    const struct timeval timeout = {.tv_sec = CONNECT_SECONDS};
    CLIENT *client = clnt_create_timed(host, (rpcprog_t)program, (rpcvers_t)version, "tcp", &timeout); /* IPv4 and IPv6 */

    if (client != NULL)
        return client;
    switch (rpc_createerr.cf_stat) {
    case RPC_PROGNOTREGISTERED:
        session_fail(failure, VAAINAS_NO_SERVICE, "%s: the server's portmapper does not know the program", host);
        break;
    case RPC_SYSTEMERROR: /* the portmapper's port is closed: the server has stopped, or is starting */
        session_fail(failure, VAAINAS_UNREACHABLE, "%s: %s", host, strerror(rpc_createerr.cf_error.re_errno));
        break;
    default:
        session_fail(failure, VAAINAS_UNREACHABLE, "%s: %s", host, clnt_sperrno(rpc_createerr.cf_stat));
    }
    return NULL;
}

static CLIENT *connection_with_credentials(CLIENT *client, struct vaainas_failure *failure)
{
    if (client == NULL)
        return NULL;
    auth_destroy(client->cl_auth);
    client->cl_auth = authunix_create_default();
    if (client->cl_auth == NULL) {
        client->cl_auth = authnone_create();
        session_fail(failure, VAAINAS_NO_MEMORY, "no memory for credentials");
        clnt_destroy(client);
        return NULL;
    }
    return client;
}

void session_disconnect(struct connection *connection)
{
    if (connection->client == NULL)
        return;
    auth_destroy(connection->client->cl_auth);
    clnt_destroy(connection->client);
    connection->client = NULL;
}

static bool connection_connect_to(struct connection *connection, struct vaainas_failure *failure)
{
    CLIENT *client =
        connection->port != 0
            ? connection_at_port(connection->host, connection->port, connection->program, connection->version, failure)
            : connection_by_portmapper(connection->host, connection->program, connection->version, failure);

    connection->client = connection_with_credentials(client, failure);
    return connection->client != NULL;
}

static enum vaainas_error connection_error_of_state(enum clnt_stat state, struct vaainas_failure *failure)
{
    switch (state) {
    case RPC_SUCCESS:
        return VAAINAS_OK;
    case RPC_PROCUNAVAIL:
    case RPC_PROGUNAVAIL:
    case RPC_PROGVERSMISMATCH:
        return session_fail(failure, VAAINAS_NO_SERVICE, "the server does not offer this: %s", clnt_sperrno(state));
    case RPC_AUTHERROR:
        return session_fail(failure, VAAINAS_ACCESS,
                            "the server refuses this host or these credentials; nothing was changed: see the export's clients");
    case RPC_CANTDECODERES:
    case RPC_CANTDECODEARGS:
    case RPC_CANTENCODEARGS:
        return session_fail(failure, VAAINAS_PROTOCOL, "client and server do not understand each other: %s", clnt_sperrno(state));
    default:
        return session_fail(failure, VAAINAS_UNREACHABLE,
                            "the connection to the server failed: %s; the outcome of the request is unknown: repeat the command",
                            clnt_sperrno(state));
    }
}

enum vaainas_error session_call(struct connection *connection, unsigned long procedure, xdrproc_t encode, const void *arguments,
                                xdrproc_t decode, void *results, size_t size, struct vaainas_failure *failure)
{
    const struct timeval timeout = {.tv_sec = CALL_SECONDS};

    if (connection->client == NULL && !connection_connect_to(connection, failure))
        return failure->error;
    enum clnt_stat state =
        clnt_call(connection->client, (rpcproc_t)procedure, encode, (caddr_t)(uintptr_t)arguments, decode, results, timeout);
    if (state == RPC_SUCCESS)
        return VAAINAS_OK;
    xdr_free(decode, results); /* partly decoded */
    memset(results, 0, size);
    enum vaainas_error error = connection_error_of_state(state, failure);
    if (error == VAAINAS_UNREACHABLE)
        session_disconnect(connection); /* the next call connects again */
    return error;
}
