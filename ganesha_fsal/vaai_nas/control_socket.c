/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "control_socket.h"

#include "control.h"
#include "file_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define REQUEST_BYTES_MAX (64u * 1024u)
#define THREADS (FILE_CALLS_MAX + 8u) /* a connection each; with those that are left counters and jobs are told, whatever hangs */
#define IDLE_SECONDS 10 /* nobody keeps one from others for long */
#define BACKLOG 16

struct listener {
    struct vaai_nas_service *service;
    struct vaai_nas_control_socket socket; /* without its path */
    int fd;
};

static bool send_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        length -= (size_t)sent;
    }
    return true;
}

/* Who has closed, not only said all, will not learn of an answer: what he asked for may by now be asked for anew, or not wanted. */
static bool has_gone(int fd)
{
    struct pollfd connection = {.fd = fd};

    return poll(&connection, 1, 0) > 0 && (connection.revents & (POLLHUP | POLLERR)) != 0;
}

static bool answer_line(const struct listener *listener, int fd, const char *line, size_t length)
{
    size_t text_length;

    if (has_gone(fd) || listener->socket.is_ending())
        return false;
    struct json_object *response = vaai_nas_control_answer(listener->service, line, length);
    const char *text = json_object_to_json_string_length(response, JSON_C_TO_STRING_PLAIN, &text_length);
    /* What was found while exports were let go may be wrong of them. */
    bool sent = !listener->socket.is_ending() && send_all(fd, text, text_length) && send_all(fd, "\n", 1);

    json_object_put(response);
    return sent;
}

static bool is_allowed(int fd, uid_t user)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && (peer.uid == 0 || peer.uid == geteuid() || peer.uid == user);
}

/* One message a line. */
static void serve_connection(const struct listener *listener, int fd, char *buffer)
{
    size_t used = 0;

    while (used < REQUEST_BYTES_MAX) {
        ssize_t received = recv(fd, buffer + used, REQUEST_BYTES_MAX - used, 0);
        if (received <= 0)
            return;
        used += (size_t)received;
        char *end;
        while ((end = memchr(buffer, '\n', used)) != NULL) {
            if (!answer_line(listener, fd, buffer, (size_t)(end - buffer)))
                return;
            used -= (size_t)(end + 1 - buffer);
            memmove(buffer, end + 1, used);
        }
    }
}

static void *serve(void *argument)
{
    const struct listener *listener = argument;
    const struct timeval idle = {.tv_sec = IDLE_SECONDS};
    char *buffer = malloc(REQUEST_BYTES_MAX);

    listener->socket.wait_until_up();
    while (buffer != NULL) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno != EINTR && errno != ECONNABORTED)
                sleep(1); /* no descriptors, say */
            continue;
        }
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof(idle));
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &idle, sizeof(idle));
        if (is_allowed(fd, listener->socket.user))
            serve_connection(listener, fd, buffer);
        close(fd);
    }
    return NULL;
}

int vaai_nas_control_socket_start(struct vaai_nas_service *service, const struct vaai_nas_control_socket *asked)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct listener *listener = calloc(1, sizeof(*listener));
    pthread_attr_t detached;
    pthread_t thread;
    unsigned int threads = 0;
    int error;

    if (listener == NULL)
        return ENOMEM;
    listener->service = service;
    listener->socket = *asked;
    listener->socket.path = NULL;
    listener->fd = -1;
    if (strlen(asked->path) >= sizeof(address.sun_path)) {
        error = ENAMETOOLONG;
        goto fail;
    }
    strcpy(address.sun_path, asked->path);
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* The mode is set before there is a name; the name is not followed, should it be another's by then. */
    if (listener->fd < 0 || (unlink(asked->path) != 0 && errno != ENOENT) || fchmod(listener->fd, 0600) != 0 ||
        bind(listener->fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        (asked->user != geteuid() && fchownat(AT_FDCWD, asked->path, asked->user, (gid_t)-1, AT_SYMLINK_NOFOLLOW) != 0) ||
        listen(listener->fd, BACKLOG) != 0) {
        error = errno;
        goto fail;
    }
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    do
        error = pthread_create(&thread, &detached, serve, listener);
    while (error == 0 && ++threads < THREADS);
    pthread_attr_destroy(&detached);
    if (threads > 0)
        return 0;
fail:
    if (listener->fd >= 0)
        close(listener->fd);
    free(listener);
    return error;
}
