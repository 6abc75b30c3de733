/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "control_socket.h"

#include "control.h"

#include <errno.h>
#include <json-c/json.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define REQUEST_BYTES_MAX (64u * 1024u)
#define THREADS 4       /* a connection each: statistics and the end of a job are waited for */
#define IDLE_SECONDS 10 /* nobody keeps one from others for long */
#define BACKLOG 16

struct listener {
    struct vaai_nas_service *service;
    uid_t user;
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

static bool answer_line(struct vaai_nas_service *service, int fd, const char *line, size_t length)
{
    struct json_object *response = vaai_nas_control_answer(service, line, length);
    size_t text_length;
    const char *text = json_object_to_json_string_length(response, JSON_C_TO_STRING_PLAIN, &text_length);
    bool sent = send_all(fd, text, text_length) && send_all(fd, "\n", 1);

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
static void serve_connection(struct vaai_nas_service *service, int fd, char *buffer)
{
    size_t used = 0;

    while (used < REQUEST_BYTES_MAX) {
        ssize_t received = recv(fd, buffer + used, REQUEST_BYTES_MAX - used, 0);
        if (received <= 0)
            return;
        used += (size_t)received;
        char *end;
        while ((end = memchr(buffer, '\n', used)) != NULL) {
            if (!answer_line(service, fd, buffer, (size_t)(end - buffer)))
                return;
            used -= (size_t)(end + 1 - buffer);
            memmove(buffer, end + 1, used);
        }
    }
}

static void *serve(void *argument)
{
    struct listener *listener = argument;
    const struct timeval idle = {.tv_sec = IDLE_SECONDS};
    char *buffer = malloc(REQUEST_BYTES_MAX);

    while (buffer != NULL) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno != EINTR && errno != ECONNABORTED)
                sleep(1); /* no descriptors, say */
            continue;
        }
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof(idle));
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &idle, sizeof(idle));
        if (is_allowed(fd, listener->user))
            serve_connection(listener->service, fd, buffer);
        close(fd);
    }
    return NULL;
}

int vaai_nas_control_socket_start(struct vaai_nas_service *service, const char *path, uid_t user)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct listener *listener = calloc(1, sizeof(*listener));
    pthread_attr_t detached;
    pthread_t thread;
    int error, threads = 0;

    if (listener == NULL)
        return ENOMEM;
    listener->service = service;
    listener->user = user;
    listener->fd = -1;
    if (strlen(path) >= sizeof(address.sun_path)) {
        error = ENAMETOOLONG;
        goto fail;
    }
    strcpy(address.sun_path, path);
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener->fd < 0 || (unlink(path) != 0 && errno != ENOENT) || fchmod(listener->fd, 0600) != 0 ||
        bind(listener->fd, (struct sockaddr *)&address, sizeof(address)) != 0 || chmod(path, 0600) != 0 ||
        (user != geteuid() && chown(path, user, (gid_t)-1) != 0) || listen(listener->fd, BACKLOG) != 0) {
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
