/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "statistics_socket.h"

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
#define REQUEST_DEPTH_MAX 8
#define IDLE_SECONDS 10 /* one connection is served at a time: nobody keeps it from others for long */
#define BACKLOG 16

/* JSON-RPC 2.0, 5.1. */
enum { NO_JSON = -32700, NO_REQUEST = -32600, NO_METHOD = -32601, WRONG_PARAMETERS = -32602 };

struct listener {
    struct vaai_nas_service *service;
    uid_t user;
    int fd;
};

static struct json_object *number(uint64_t value)
{
    return json_object_new_uint64(value);
}

static struct json_object *latency(const struct vaai_nas_operation_counters *of)
{
    struct json_object *object = json_object_new_object(), *counts = json_object_new_array();
    size_t used = VAAI_NAS_LATENCY_BUCKETS;

    while (used > 0 && of->latency[used - 1] == 0)
        used--;
    for (size_t i = 0; i < used; i++)
        json_object_array_add(counts, number(of->latency[i]));
    json_object_object_add(object, "total_microseconds", number(of->total_microseconds));
    json_object_object_add(object, "counts", counts);
    return object;
}

struct lists {
    struct json_object *exports, *hosts;
};

static void add_row(void *context, const char *host, const char *export_path, const struct vaai_nas_counter_set *set)
{
    struct lists *lists = context;
    struct json_object *row = json_object_new_object(), *bytes = json_object_new_object(), *fallback = json_object_new_object();

    if (host != NULL)
        json_object_object_add(row, "host", json_object_new_string(host));
    else
        json_object_object_add(row, "export", json_object_new_string(export_path));
    for (size_t i = 0; i < VAAI_NAS_OPERATION_COUNT; i++) {
        const struct vaai_nas_operation_counters *of = &set->operation[i];
        struct json_object *operation = json_object_new_object();
        json_object_object_add(operation, "operations", number(of->operations));
        json_object_object_add(operation, "errors", number(of->errors));
        json_object_object_add(operation, "refused", number(of->refused));
        json_object_object_add(operation, "latency", latency(of));
        json_object_object_add(row, vaai_nas_operation_name((enum vaai_nas_operation)i), operation);
    }
    json_object_object_add(bytes, "cloned_bytes", number(set->cloned_bytes));
    json_object_object_add(bytes, "copied_bytes", number(set->copied_bytes));
    json_object_object_add(bytes, "hole_bytes", number(set->hole_bytes));
    json_object_object_add(bytes, "reserved_bytes", number(set->reserved_bytes));
    for (size_t i = 0; i < FILEOPS_FALLBACK_COUNT; i++)
        json_object_object_add(fallback, fileops_fallback_name((enum fileops_fallback)i), number(set->fallback_bytes[i]));
    json_object_object_add(bytes, "fallback_bytes", fallback);
    json_object_object_add(row, "offload", bytes);
    json_object_array_add(host != NULL ? lists->hosts : lists->exports, row);
}

static struct json_object *statistics_get(struct vaai_nas_service *service)
{
    struct json_object *result = json_object_new_object(), *bounds = json_object_new_array();
    struct lists lists = {json_object_new_array(), json_object_new_array()};

    for (unsigned int i = 0; i + 1 < VAAI_NAS_LATENCY_BUCKETS; i++)
        json_object_array_add(bounds, number(1ull << i));
    vaai_nas_counters_each(vaai_nas_service_counters(service), add_row, &lists);
    json_object_object_add(result, "latency_bounds_microseconds", bounds);
    json_object_object_add(result, "exports", lists.exports);
    json_object_object_add(result, "hosts", lists.hosts);
    return result;
}

static struct json_object *error_response(int code, const char *message)
{
    struct json_object *response = json_object_new_object(), *error = json_object_new_object();

    json_object_object_add(error, "code", json_object_new_int(code));
    json_object_object_add(error, "message", json_object_new_string(message));
    json_object_object_add(response, "error", error);
    return response;
}

static struct json_object *answer(struct vaai_nas_service *service, struct json_object *request)
{
    struct json_object *version, *method, *parameters, *response;

    if (!json_object_is_type(request, json_type_object) || !json_object_object_get_ex(request, "jsonrpc", &version) ||
        !json_object_is_type(version, json_type_string) || strcmp(json_object_get_string(version), "2.0") != 0 || !json_object_object_get_ex(request, "method", &method) ||
        !json_object_is_type(method, json_type_string))
        return error_response(NO_REQUEST, "this is no request of JSON-RPC 2.0");
    if (strcmp(json_object_get_string(method), "statistics.get") != 0)
        return error_response(NO_METHOD, "the one method is statistics.get");
    if (json_object_object_get_ex(request, "params", &parameters) &&
        (!json_object_is_type(parameters, json_type_object) || json_object_object_length(parameters) != 0))
        return error_response(WRONG_PARAMETERS, "statistics.get has no parameters");
    response = json_object_new_object();
    json_object_object_add(response, "result", statistics_get(service));
    return response;
}

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
    struct json_tokener *tokener = json_tokener_new_ex(REQUEST_DEPTH_MAX);
    struct json_object *request = tokener == NULL ? NULL : json_tokener_parse_ex(tokener, line, (int)length);
    bool parsed = tokener != NULL && json_tokener_get_error(tokener) == json_tokener_success;
    struct json_object *response = parsed ? answer(service, request) : error_response(NO_JSON, "the message is no JSON");
    struct json_object *id = NULL;

    if (parsed && json_object_is_type(request, json_type_object))
        json_object_object_get_ex(request, "id", &id);
    json_object_object_add(response, "jsonrpc", json_object_new_string("2.0"));
    json_object_object_add(response, "id", json_object_get(id));
    size_t text_length;
    const char *text = json_object_to_json_string_length(response, JSON_C_TO_STRING_PLAIN, &text_length);
    bool sent = send_all(fd, text, text_length) && send_all(fd, "\n", 1);
    json_object_put(response);
    json_object_put(request);
    if (tokener != NULL)
        json_tokener_free(tokener);
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

int vaai_nas_statistics_socket_start(struct vaai_nas_service *service, const char *path, uid_t user)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct listener *listener = calloc(1, sizeof(*listener));
    pthread_attr_t detached;
    pthread_t thread;
    int error;

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
    error = pthread_create(&thread, &detached, serve, listener);
    pthread_attr_destroy(&detached);
    if (error == 0)
        return 0;
fail:
    if (listener->fd >= 0)
        close(listener->fd);
    free(listener);
    return error;
}
