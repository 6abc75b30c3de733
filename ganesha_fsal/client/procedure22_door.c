/* SPDX-License-Identifier: Apache-2.0 */
/* Procedure 22, asked for as the public plug-in does. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "../vaai_nas/procedure22_codec.h"
#include "session.h"

#define TEMPORARY_NAME_SIZE 32u

/* Bytes that are XDR already. */
struct encoded {
    uint8_t bytes[PROCEDURE22_ENCODED_ARGUMENTS_MAX];
    size_t length;
};

static bool_t xdr_encoded(XDR *xdrs, struct encoded *encoded)
{
    return xdrs->x_op != XDR_ENCODE || xdr_opaque(xdrs, (char *)encoded->bytes, (u_int)encoded->length);
}

static bool_t xdr_answer(XDR *xdrs, uint8_t *bytes)
{
    return xdrs->x_op != XDR_DECODE || xdr_opaque(xdrs, (char *)bytes, PROCEDURE22_ENCODED_RESULT_SIZE);
}

static void to_wire(const struct handle *from, struct procedure22_handle *to)
{
    to->length = from->length;
    memcpy(to->bytes, from->bytes, from->length);
}

/* What the answer says went wrong; OK where nothing did. */
static enum vaainas_error error_of_result(const struct procedure22_result *result)
{
    if (result->status == 0)
        return VAAINAS_OK;
    switch (result->result) {
    case PROCEDURE22_DISK_FULL:
        return VAAINAS_NO_SPACE;
    case PROCEDURE22_BUSY:
        return VAAINAS_BUSY;
    case PROCEDURE22_HIERARCHY_TOO_DEEP:
    case PROCEDURE22_TOO_MANY_SNAPSHOTS:
        return VAAINAS_NOT_SUPPORTED;
    default:
        return error_of_nfs(result->status);
    }
}

/* A clone that makes a name would say EXISTS of what it made itself: all else may be said again. */
static enum vaainas_error exchange(struct vaainas_session *session, struct procedure22_request *request, enum repetition repetition,
                                   struct procedure22_result *result, struct vaainas_failure *failure)
{
    uint8_t answer[PROCEDURE22_ENCODED_RESULT_SIZE];
    struct encoded encoded;

    request->version = PROCEDURE22_VERSION;
    encoded.length = procedure22_encode_request(request, encoded.bytes);
    enum vaainas_error error =
        call(&session->nfs, repetition, PROCEDURE22_NUMBER, (xdrproc_t)xdr_encoded, &encoded, (xdrproc_t)xdr_answer, answer,
             sizeof(answer), failure);
    if (error != VAAINAS_OK)
        return error;
    if (!procedure22_decode_result(answer, sizeof(answer), result))
        return fail(failure, VAAINAS_PROTOCOL, "the server's answer has another shape than procedure 22 has");
    error = error_of_result(result);
    return error == VAAINAS_OK ? error : fail(failure, error, "the server answered %s", vaainas_error_name(error));
}

static enum vaainas_error command(struct vaainas_session *session, enum procedure22_command number, const struct handle *handle,
                                  struct procedure22_result *result, struct vaainas_failure *failure)
{
    struct procedure22_request request = {.kind = PROCEDURE22_OTHER, .command = number};

    to_wire(handle, &request.destination);
    return exchange(session, &request, REPEATABLE, result, failure);
}

static enum vaainas_error supported(struct vaainas_session *session, struct vaainas_capabilities *capabilities,
                                    struct vaainas_failure *failure)
{
    static const enum procedure22_command asked[] = {PROCEDURE22_CLONE_SUPPORTED, PROCEDURE22_RESERVE_SUPPORTED,
                                                     PROCEDURE22_STATISTICS_SUPPORTED};
    bool answers[3];

    for (size_t i = 0; i < 3; i++) {
        struct procedure22_result result;
        enum vaainas_error error = command(session, asked[i], &session->root, &result, failure);
        if (error != VAAINAS_OK)
            return error;
        answers[i] = result.result == 0;
    }
    capabilities->clone = capabilities->fast_clone = answers[0];
    capabilities->reserve = answers[1];
    capabilities->statistics = answers[2];
    return VAAINAS_OK;
}

/*
 * How the clone comes to its name. What is there keeps its contents until the server has taken and made the clone:
 *
 *              destination is there                            is not
 *     fast     the server makes a temporary name, that         the server makes the name
 *              then replaces it
 *     full     cloned into the file, as a plug-in does         into a file of a temporary name, that then gets the name
 */
struct way {
    bool by_name;                         /* the server makes a file in `handle` */
    struct handle handle;                 /* the file, or the directory */
    char temporary[TEMPORARY_NAME_SIZE];  /* in the destination's directory; empty: none */
};

static enum vaainas_error choose_way(struct vaainas_session *session, const struct vaainas_clone *clone,
                                     const struct found *source, const struct found *destination, struct way *way, struct vaainas_failure *failure)
{
    bool fast = (clone->flags & VAAINAS_FAST) != 0;
    uint64_t random;

    memset(way, 0, sizeof(*way));
    way->by_name = fast;
    way->handle = destination->exists && !fast ? destination->object : destination->parent;
    if (destination->exists != fast)
        return VAAINAS_OK;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return fail(failure, VAAINAS_NO_MEMORY, "the system gave no random number");
    snprintf(way->temporary, sizeof(way->temporary), ".vaai-nas-%016llx", (unsigned long long)random);
    return fast ? VAAINAS_OK : make_file(session, &destination->parent, way->temporary, source->mode, &way->handle, failure);
}

/* The path that the server is told: the destination's, with the temporary name in the place of the last one. */
static bool name_path(const struct vaainas_clone *clone, const struct way *way, struct procedure22_request *request)
{
    const char *last = strrchr(clone->destination, '/');
    size_t length = way->temporary[0] == 0 ? strlen(clone->destination) : last == NULL ? 0 : (size_t)(last + 1 - clone->destination);

    if (length + strlen(way->temporary) + 1 > PROCEDURE22_NAME_SIZE)
        return false;
    memcpy(request->name, clone->destination, length);
    strcpy(request->name + length, way->temporary);
    request->name_length = (uint32_t)strlen(request->name) + 1;
    return true;
}

/* What replaces a file that space was reserved for has space reserved too. */
static enum vaainas_error keep_reservation(struct vaainas_session *session, const struct found *destination, const struct way *way,
                                           struct vaainas_failure *failure)
{
    struct procedure22_result result;
    struct handle made;
    enum vaainas_error error = command(session, PROCEDURE22_EXTENDED_STATISTICS, &destination->object, &result, failure);

    if (error != VAAINAS_OK || result.reserved == 0)
        return error;
    error = find_name(session, &destination->parent, way->temporary, &made, failure);
    return error != VAAINAS_OK ? error : command(session, PROCEDURE22_RESERVE_SPACE, &made, &result, failure);
}

static enum vaainas_error give_name(struct vaainas_session *session, const struct vaainas_clone *clone,
                                    const struct found *destination, const struct way *way, bool *renamed,
                                    struct vaainas_failure *failure)
{
    enum vaainas_error error = VAAINAS_OK;

    if ((clone->flags & VAAINAS_GUARDED) != 0)
        return link_file(session, &way->handle, &destination->parent, destination->name, failure);
    if (destination->exists)
        error = keep_reservation(session, destination, way, failure);
    if (error == VAAINAS_OK)
        error = rename_file(session, &destination->parent, way->temporary, destination->name, failure);
    *renamed = error == VAAINAS_OK;
    return error;
}

/* Gives the complete clone its name, or removes what a failed one made. `error` is how the clone ended, with `failure` set. */
static enum vaainas_error finish(struct vaainas_session *session, const struct vaainas_clone *clone, const struct found *destination,
                                 const struct way *way, enum vaainas_error error, struct vaainas_failure *failure)
{
    struct vaainas_failure why, ignored;
    bool renamed = false;

    if (way->temporary[0] == 0)
        return error;
    if (error == VAAINAS_OK)
        error = give_name(session, clone, destination, way, &renamed, failure);
    if (renamed)
        return error;
    enum vaainas_error left = remove_file(session, &destination->parent, way->temporary, &ignored);
    if (error != VAAINAS_OK && left != VAAINAS_OK && left != VAAINAS_NOT_FOUND) {
        why = *failure;
        fail(failure, error, "%.400s; %s may be left beside the destination", why.message, way->temporary);
    }
    return error;
}

static enum vaainas_error abort_clone(struct vaainas_session *session, const struct handle *file, enum vaainas_error error,
                                      const char *why, struct vaainas_failure *failure)
{
    struct procedure22_result result;
    enum vaainas_error answer = command(session, PROCEDURE22_ABORT_CLONE, file, &result, failure);

    if (answer == VAAINAS_BUSY)
        return fail(failure, error, "%s; the clone was told to end, and has not yet: don't use the destination before", why);
    if (answer != VAAINAS_OK)
        return fail(failure, error, "%s; the clone could not be aborted, and may be going on", why);
    if (result.clone_flag == PROCEDURE22_COMPLETE)
        return fail(failure, error, "%s; but the clone was complete before", why);
    return fail(failure, error, "%s; the clone was aborted, and has left nothing", why);
}

static enum vaainas_error poll_until_done(struct vaainas_session *session, const struct vaainas_clone *clone,
                                          const struct handle *file, uint64_t *done, struct vaainas_failure *failure)
{
    time_t moved = time(NULL);
    unsigned int failing = 0;

    for (;;) {
        struct procedure22_result result;
        enum vaainas_error error = command(session, PROCEDURE22_CLONE_PROGRESS, file, &result, failure);
        if (error == VAAINAS_OK && result.clone_flag == PROCEDURE22_COMPLETE) {
            *done = result.clone_offset;
            return VAAINAS_OK;
        }
        if (error != VAAINAS_OK && (error != VAAINAS_UNREACHABLE || ++failing > FAILING_POLLS_MAX))
            return error;
        if (error == VAAINAS_OK) {
            failing = 0;
            if (result.clone_offset != *done) {
                *done = result.clone_offset;
                moved = time(NULL);
            }
            if (clone->progress != NULL && !clone->progress(clone->context, *done, 0))
                return abort_clone(session, file, VAAINAS_CANCELLED, "cancelled", failure);
        }
        if (time(NULL) - moved > STUCK_SECONDS)
            return abort_clone(session, file, VAAINAS_STUCK, "nothing moved for 300 s", failure);
        sleep(1);
    }
}

static enum vaainas_error clone_file(struct vaainas_session *session, const struct vaainas_clone *clone, const struct found *source,
                                     const struct found *destination, struct vaainas_clone_result *result, bool *begun,
                                     struct vaainas_failure *failure)
{
    struct procedure22_request request = {.kind = PROCEDURE22_NEED_SOURCE, .command = PROCEDURE22_CLONE_FILE};
    struct procedure22_result answer;
    struct way way;

    if (clone->range)
        return fail(failure, VAAINAS_NOT_SUPPORTED, "procedure 22 has no clones of ranges; nothing was changed: use the program");
    if ((clone->flags & VAAINAS_DRY_RUN) != 0)
        return VAAINAS_OK;
    enum vaainas_error error = choose_way(session, clone, source, destination, &way, failure);
    if (error != VAAINAS_OK)
        return finish(session, clone, destination, &way, error, failure);
    if (!name_path(clone, &way, &request)) {
        error = fail(failure, VAAINAS_NAME_TOO_LONG, "procedure 22 has room for paths of 255 bytes; nothing was changed: use the program");
        return finish(session, clone, destination, &way, error, failure);
    }
    to_wire(&way.handle, &request.destination);
    to_wire(&source->object, &request.source);
    error = exchange(session, &request, way.by_name ? ONCE : REPEATABLE, &answer, failure);
    *begun = error == VAAINAS_OK;
    if (error == VAAINAS_OK) {
        result->done_bytes = answer.clone_offset;
        if (answer.clone_flag != PROCEDURE22_COMPLETE && way.by_name) /* and no handle to ask with */
            error = fail(failure, VAAINAS_PROTOCOL, "the server has not said that the clone is complete: don't use the destination");
        else if (answer.clone_flag != PROCEDURE22_COMPLETE)
            error = poll_until_done(session, clone, &way.handle, &result->done_bytes, failure);
    }
    return finish(session, clone, destination, &way, error, failure);
}

static enum vaainas_error statistics(struct vaainas_session *session, const struct handle *file, bool reserve,
                                     struct vaainas_statistics *statistics, struct vaainas_failure *failure)
{
    struct procedure22_result result;
    enum vaainas_error error =
        command(session, reserve ? PROCEDURE22_RESERVE_SPACE : PROCEDURE22_EXTENDED_STATISTICS, file, &result, failure);

    if (error != VAAINAS_OK)
        return error;
    statistics->total_bytes = result.total;
    statistics->allocated_bytes = result.allocated;
    statistics->unique_bytes = result.unique;
    statistics->reserved_bytes = result.reserved;
    return VAAINAS_OK;
}

static enum vaainas_error jobs(struct vaainas_session *session, struct vaainas_job *list, size_t *count,
                               struct vaainas_failure *failure)
{
    (void)session;
    (void)list;
    *count = 0;
    return fail(failure, VAAINAS_NOT_SUPPORTED, "procedure 22 has no list of jobs: use the program");
}

static enum vaainas_error cancel(struct vaainas_session *session, const struct handle *destination, uint64_t job,
                                 struct vaainas_failure *failure)
{
    struct procedure22_result result;

    if (job != 0)
        return fail(failure, VAAINAS_NOT_SUPPORTED, "procedure 22 knows no job numbers: name the file that is being cloned to, or use the program");
    enum vaainas_error error = command(session, PROCEDURE22_ABORT_CLONE, destination, &result, failure);
    if (error == VAAINAS_BUSY)
        error = fail(failure, error, "the clone was told to end, and has not yet");
    return error;
}

const struct door procedure22_door = {supported, clone_file, statistics, jobs, cancel};
