/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "control_socket.h"

#include "control.h"
#include "file_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define REQUEST_BYTES_MAX (64u * 1024u)
#define THREADS                                                                                                                  \
    (FILE_CALLS_MAX + 8u) /* one per connection; while FILE_CALLS_MAX hang in pools, the others serve counters and jobs */
#define IDLE_SECONDS 10   /* of silence; then the thread serves another connection */
#define BACKLOG 16

struct listener {
    struct vaai_nas_service *service;
    struct vaai_nas_control_socket socket; /* without its path */
    int fd;
};

static bool control_socket_send_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = TEMP_FAILURE_RETRY(send(fd, bytes, length, MSG_NOSIGNAL));
        if (sent <= 0)
            return false;
        bytes += sent;
        length -= (size_t)sent;
    }
    return true;
}

/* Whether the peer has closed the connection in both directions: no response can be delivered, and the caller may repeat the request. */
static bool control_socket_is_closed(int fd)
{
    struct pollfd connection = {.fd = fd};

    return poll(&connection, 1, 0) > 0 && (connection.revents & (POLLHUP | POLLERR)) != 0;
}

static bool control_socket_answer_line(const struct listener *listener, int fd, const char *line, size_t length)
{
    size_t text_length;

    if (control_socket_is_closed(fd) || listener->socket.is_ending())
        return false;
    struct json_object *response = vaai_nas_control_answer(listener->service, line, length);
    const char *text = json_object_to_json_string_length(response, JSON_C_TO_STRING_PLAIN, &text_length);
    /* A response made during the removal of exports may be wrong. */
    bool sent =
        !listener->socket.is_ending() && control_socket_send_all(fd, text, text_length) && control_socket_send_all(fd, "\n", 1);

    json_object_put(response);
    return sent;
}

static bool control_socket_is_allowed(int fd, uid_t user)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid() || peer.uid == user);
}

/* One message a line. */
static void control_socket_serve_connection(const struct listener *listener, int fd, char *buffer)
{
    size_t used = 0;

    while (used < REQUEST_BYTES_MAX) {
        ssize_t received = TEMP_FAILURE_RETRY(recv(fd, buffer + used, REQUEST_BYTES_MAX - used, 0));
        if (received <= 0)
            return;
        used += (size_t)received;
        char *end;
        while ((end = memchr(buffer, '\n', used)) != NULL) {
            if (!control_socket_answer_line(listener, fd, buffer, (size_t)(end - buffer)))
                return;
            used -= (size_t)(end + 1 - buffer);
            memmove(buffer, end + 1, used);
        }
    }
}

static void *control_socket_serve(void *argument)
{
    const struct listener *listener = argument;
    const struct timeval idle = {.tv_sec = IDLE_SECONDS};
    char *buffer = malloc(REQUEST_BYTES_MAX);

    listener->socket.wait_until_up();
    while (buffer != NULL) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno != EINTR && errno != ECONNABORTED)
                sleep(1); /* for instance no descriptors */
            continue;
        }
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof(idle));
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &idle, sizeof(idle));
        if (control_socket_is_allowed(fd, listener->socket.user))
            control_socket_serve_connection(listener, fd, buffer);
        close(fd);
    }
    return NULL;
}

/* Whether only root and this process can create names in it. In a folder with an access control list the group's rights are its mask (acl(5)). */
static bool control_socket_is_ours_alone(int folder)
{
    struct stat status;

    return fstat(folder, &status) == 0 && (status.st_uid == 0 || status.st_uid == geteuid()) &&
           (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* A socket that listens at `path`, in the checked folder, even if that folder is renamed. 0 or an errno value. */
static int control_socket_listen_at(const char *path, uid_t user, int *listening)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    char folder_path[PATH_MAX] = ".";
    int error = 0;

    if (slash != NULL && (size_t)(slash - path) + 1 >= sizeof(folder_path))
        return ENAMETOOLONG;
    if (slash != NULL)
        snprintf(folder_path, sizeof(folder_path), "%.*s/", (int)(slash - path), path);
    const int folder = open(folder_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return errno;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int length = snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", folder, name);
    if (!control_socket_is_ours_alone(folder))
        error = EPERM;
    else if (length < 0 || (size_t)length >= sizeof(address.sun_path))
        error = ENAMETOOLONG;
    /* The mode is set before the name exists. A name that another process has created is not followed. */
    else if (fd < 0 || (unlinkat(folder, name, 0) != 0 && errno != ENOENT) || fchmod(fd, 0600) != 0 ||
             bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
             (user != geteuid() && fchownat(folder, name, user, (gid_t)-1, AT_SYMLINK_NOFOLLOW) != 0) || listen(fd, BACKLOG) != 0)
        error = errno;
    close(folder);
    if (error != 0 && fd >= 0)
        close(fd);
    else
        *listening = fd;
    return error;
}

int vaai_nas_control_socket_start(struct vaai_nas_service *service, const struct vaai_nas_control_socket *options)
{
    struct listener *listener = calloc(1, sizeof(*listener));
    pthread_attr_t detached;
    pthread_t thread;
    unsigned int threads = 0;
    int error;

    if (listener == NULL)
        return ENOMEM;
    listener->service = service;
    listener->socket = *options;
    listener->socket.path = NULL;
    error = control_socket_listen_at(options->path, options->user, &listener->fd);
    if (error != 0) {
        free(listener);
        return error;
    }
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    do
        error = pthread_create(&thread, &detached, control_socket_serve, listener);
    while (error == 0 && ++threads < THREADS);
    pthread_attr_destroy(&detached);
    if (threads > 0)
        return 0;
    close(listener->fd);
    free(listener);
    return error;
}
