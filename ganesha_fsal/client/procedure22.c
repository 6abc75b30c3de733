/* SPDX-License-Identifier: Apache-2.0 */
/* Procedure 22, as the public plug-in for ESXi sends it. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "../vaai_nas/procedure22_codec.h"
#include "session.h"

#define TEMPORARY_NAME_SIZE 32u

/* Encoded XDR bytes. */
struct encoded {
    uint8_t bytes[PROCEDURE22_ENCODED_ARGUMENTS_MAX];
    size_t length;
};

static bool_t client_xdr_encoded(XDR *xdrs, struct encoded *encoded)
{
    return xdrs->x_op != XDR_ENCODE || xdr_opaque(xdrs, (char *)encoded->bytes, (u_int)encoded->length);
}

static bool_t client_xdr_answer(XDR *xdrs, uint8_t *bytes)
{
    return xdrs->x_op != XDR_DECODE || xdr_opaque(xdrs, (char *)bytes, PROCEDURE22_ENCODED_RESULT_SIZE);
}

static void client_to_wire(const struct handle *from, struct procedure22_handle *to)
{
    to->length = from->length;
    memcpy(to->bytes, from->bytes, from->length);
}

/* The error in the response; OK if there is none. */
static enum vaainas_error client_error_of_result(const struct procedure22_result *result)
{
    if (result->status == 0)
        return VAAINAS_OK;
    switch (result->result) {
    case PROCEDURE22_DISK_FULL:
        return VAAINAS_NO_SPACE;
    case PROCEDURE22_BUSY:
        return VAAINAS_BUSY;
    default:
        return session_error_of_nfs(result->status);
    }
}

static enum vaainas_error client_exchange(struct vaainas_session *session, struct procedure22_request *request,
                                          struct procedure22_result *result, struct vaainas_failure *failure)
{
    uint8_t answer[PROCEDURE22_ENCODED_RESULT_SIZE];
    struct encoded encoded;

    request->version = PROCEDURE22_VERSION;
    encoded.length = procedure22_encode_request(request, encoded.bytes);
    enum vaainas_error error = session_call(&session->nfs, PROCEDURE22_NUMBER, (xdrproc_t)client_xdr_encoded, &encoded,
                                            (xdrproc_t)client_xdr_answer, answer, sizeof(answer), failure);
    if (error != VAAINAS_OK)
        return error;
    if (!procedure22_decode_result(answer, sizeof(answer), result))
        return session_fail(failure, VAAINAS_PROTOCOL, "the server's answer is not one of procedure 22");
    error = client_error_of_result(result);
    /* The server may find the name's old file in its cache, and learn only now that it was replaced. */
    if (error == VAAINAS_STALE)
        return session_fail(failure, error, "the file was removed or replaced meanwhile: repeat the command");
    return error == VAAINAS_OK ? error : session_fail(failure, error, "the server answered %s", vaainas_error_name(error));
}

static enum vaainas_error client_command(struct vaainas_session *session, enum procedure22_command number,
                                         const struct handle *handle, struct procedure22_result *result,
                                         struct vaainas_failure *failure)
{
    struct procedure22_request request = {.kind = PROCEDURE22_OTHER, .command = number};

    client_to_wire(handle, &request.destination);
    return client_exchange(session, &request, result, failure);
}

enum vaainas_error vaainas_supported(struct vaainas_session *session, struct vaainas_capabilities *capabilities,
                                     struct vaainas_failure *failure)
{
    static const enum procedure22_command commands[] = {PROCEDURE22_CLONE_SUPPORTED, PROCEDURE22_RESERVE_SUPPORTED,
                                                        PROCEDURE22_STATISTICS_SUPPORTED};
    bool answers[3];

    for (size_t i = 0; i < 3; i++) {
        struct procedure22_result result;
        const enum vaainas_error error = client_command(session, commands[i], &session->root, &result, failure);
        if (error != VAAINAS_OK)
            return error;
        answers[i] = result.result == 0;
    }
    *capabilities = (struct vaainas_capabilities){.clone = answers[0], .reserve = answers[1], .statistics = answers[2]};
    return VAAINAS_OK;
}

/* The destination gets its name when the clone is complete: a fast clone by the server, a full one by LINK to a temporary file. */
struct way {
    struct handle handle;                /* full: the temporary file; fast: the directory that the server makes the file in */
    char temporary[TEMPORARY_NAME_SIZE]; /* in the destination's directory; empty: none */
};

static enum vaainas_error client_choose_way(struct vaainas_session *session, const struct vaainas_clone *clone,
                                            const struct resolved *source, const struct resolved *destination, struct way *way,
                                            struct vaainas_failure *failure)
{
    uint64_t random;

    memset(way, 0, sizeof(*way));
    way->handle = destination->parent;
    if (clone->fast)
        return VAAINAS_OK;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return session_fail(failure, VAAINAS_NO_MEMORY, "the system returned no random number");
    snprintf(way->temporary, sizeof(way->temporary), ".vaai-nas-%016llx", (unsigned long long)random);
    return session_make_file(session, &destination->parent, way->temporary, source->mode, &way->handle, failure);
}

/* Gives the complete clone its name, which fails if another file got it meanwhile. Removes the temporary file. `error` is the
 * result of the clone, with `failure` set. */
static enum vaainas_error client_finish(struct vaainas_session *session, const struct resolved *destination, const struct way *way,
                                        enum vaainas_error error, struct vaainas_failure *failure)
{
    struct vaainas_failure why, ignored;

    if (way->temporary[0] == 0)
        return error;
    if (error == VAAINAS_OK)
        error = session_link_file(session, &way->handle, &destination->parent, destination->name, failure);
    enum vaainas_error left = session_remove_file(session, &destination->parent, way->temporary, &ignored);
    if (error != VAAINAS_OK && left != VAAINAS_OK && left != VAAINAS_NOT_FOUND) {
        why = *failure;
        session_fail(failure, error, "%.400s; remove %s from the destination's folder", why.message, way->temporary);
    }
    return error;
}

static enum vaainas_error client_abort_clone(struct vaainas_session *session, const struct handle *file, enum vaainas_error error,
                                             const char *why, struct vaainas_failure *failure)
{
    struct procedure22_result result;
    enum vaainas_error answer = client_command(session, PROCEDURE22_ABORT_CLONE, file, &result, failure);

    if (answer == VAAINAS_BUSY)
        return session_fail(failure, error, "%s; the clone was cancelled and has not ended yet", why);
    if (answer != VAAINAS_OK)
        return session_fail(failure, error, "%s; the clone could not be aborted, and may continue", why);
    if (result.clone_flag == PROCEDURE22_COMPLETE)
        return session_fail(failure, error, "%s; the clone was already complete", why);
    return session_fail(failure, error, "%s; the clone was aborted; nothing was changed", why);
}

static enum vaainas_error client_poll_until_done(struct vaainas_session *session, const struct vaainas_clone *clone,
                                                 const struct handle *file, uint64_t *done, struct vaainas_failure *failure)
{
    time_t moved = time(NULL);
    unsigned int failing = 0;

    for (;;) {
        struct procedure22_result result;
        enum vaainas_error error = client_command(session, PROCEDURE22_CLONE_PROGRESS, file, &result, failure);
        if (error == VAAINAS_OK && result.clone_flag == PROCEDURE22_COMPLETE) {
            *done = result.clone_offset;
            return VAAINAS_OK;
        }
        if (error != VAAINAS_OK && (error != VAAINAS_UNREACHABLE || ++failing > FAILING_POLLS_MAX))
            return error;
        if (error == VAAINAS_OK) {
            failing = 0;
            /* A clone that waits for its turn has not begun, so it is not stuck. */
            if (result.clone_offset != *done || result.clone_flag == PROCEDURE22_STARTED) {
                *done = result.clone_offset;
                moved = time(NULL);
            }
            if (clone->progress != NULL && !clone->progress(clone->context, *done))
                return client_abort_clone(session, file, VAAINAS_CANCELLED, "cancelled", failure);
        }
        if (time(NULL) - moved > STUCK_SECONDS)
            return client_abort_clone(session, file, VAAINAS_STUCK, "the clone made no progress for 300 s", failure);
        sleep(1);
    }
}

enum vaainas_error session_clone(struct vaainas_session *session, const struct vaainas_clone *clone,
                                 const struct resolved *source, const struct resolved *destination, uint64_t *done,
                                 struct vaainas_failure *failure)
{
    struct procedure22_request request = {.kind = PROCEDURE22_NEED_SOURCE, .command = PROCEDURE22_CLONE_FILE};
    struct procedure22_result answer;
    struct way way;
    enum vaainas_error error = client_choose_way(session, clone, source, destination, &way, failure);

    if (error != VAAINAS_OK)
        return client_finish(session, destination, &way, error, failure);
    if (clone->fast) {
        request.name_length = (uint32_t)strlen(clone->destination) + 1;
        if (request.name_length > PROCEDURE22_NAME_SIZE)
            return session_fail(failure, VAAINAS_NAME_TOO_LONG,
                                "a fast clone's path has at most 255 bytes; nothing was changed: use a shorter path");
        memcpy(request.name, clone->destination, request.name_length);
    }
    client_to_wire(&way.handle, &request.destination);
    client_to_wire(&source->object, &request.source);
    error = client_exchange(session, &request, &answer, failure);
    if (error == VAAINAS_OK) {
        *done = answer.clone_offset;
        if (answer.clone_flag != PROCEDURE22_COMPLETE && clone->fast) /* no handle to poll with */
            error = session_fail(failure, VAAINAS_PROTOCOL, "the server did not confirm that the clone is complete: do not use %s",
                                 clone->destination);
        else if (answer.clone_flag != PROCEDURE22_COMPLETE)
            error = client_poll_until_done(session, clone, &way.handle, done, failure);
    }
    return client_finish(session, destination, &way, error, failure);
}

enum vaainas_error session_get_statistics(struct vaainas_session *session, const struct handle *file,
                                          struct vaainas_statistics *statistics, struct vaainas_failure *failure)
{
    struct procedure22_result result;
    const enum vaainas_error error = client_command(session, PROCEDURE22_EXTENDED_STATISTICS, file, &result, failure);

    if (error == VAAINAS_OK)
        *statistics = (struct vaainas_statistics){.total_bytes = result.total,
                                                  .allocated_bytes = result.allocated,
                                                  .unique_bytes = result.unique,
                                                  .unique_exact = result.unique_exact,
                                                  .reserved_bytes = result.reserved,
                                                  .as_of = result.as_of};
    return error;
}

enum vaainas_error session_reserve(struct vaainas_session *session, const struct handle *file, struct vaainas_failure *failure)
{
    struct procedure22_result result;
    const enum vaainas_error error = client_command(session, PROCEDURE22_RESERVE_SPACE, file, &result, failure);

    if (error != VAAINAS_NO_SPACE)
        return error;
    return session_fail(failure, error,
                        "Cannot reserve space: the datastore is thin, or its files need more than its size. Nothing was changed");
}
