/* SPDX-License-Identifier: Apache-2.0 */
/* Procedure 22, asked for as the public plug-in does. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../vaai_nas/procedure22_codec.h"
#include "session.h"

#define FAILING_POLLS_MAX 60u

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

static enum vaainas_error exchange(struct vaainas_session *session, struct procedure22_request *request,
                                   struct procedure22_result *result, struct vaainas_failure *failure)
{
    uint8_t answer[PROCEDURE22_ENCODED_RESULT_SIZE];
    struct encoded encoded;

    request->version = PROCEDURE22_VERSION;
    encoded.length = procedure22_encode_request(request, encoded.bytes);
    enum vaainas_error error =
        call(session->nfs, PROCEDURE22_NUMBER, (xdrproc_t)xdr_encoded, &encoded, (xdrproc_t)xdr_answer, answer, failure);
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
    return exchange(session, &request, result, failure);
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

/* The file the clone is to be in: what a plug-in makes or removes before it asks. *by_name: the directory, for the server to make it. */
static enum vaainas_error prepare(struct vaainas_session *session, const struct vaainas_clone *clone,
                                  const struct found *destination, struct handle *handle, bool *by_name,
                                  struct vaainas_failure *failure)
{
    bool fast = (clone->flags & VAAINAS_FAST) != 0;
    enum vaainas_error error = VAAINAS_OK;

    *by_name = !destination->exists && fast;
    *handle = destination->exists ? destination->object : destination->parent;
    if (destination->exists && fast)
        error = remove_file(session, destination, failure);
    if (error == VAAINAS_OK && !*by_name && (fast || !destination->exists))
        error = create_file(session, destination, handle, failure);
    return error;
}

static enum vaainas_error abort_clone(struct vaainas_session *session, const struct handle *file, enum vaainas_error error,
                                      const char *why, struct vaainas_failure *failure)
{
    struct procedure22_result result;

    if (command(session, PROCEDURE22_ABORT_CLONE, file, &result, failure) != VAAINAS_OK)
        return fail(failure, error, "%s; the clone could not be aborted, and may be going on", why);
    return fail(failure, error, "%s; the clone was aborted, and the destination is empty", why);
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
        if (error != VAAINAS_OK && ++failing > FAILING_POLLS_MAX)
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
                                     const struct found *destination, struct vaainas_clone_result *result,
                                     struct vaainas_failure *failure)
{
    struct procedure22_request request = {.kind = PROCEDURE22_NEED_SOURCE, .command = PROCEDURE22_CLONE_FILE};
    struct procedure22_result answer;
    struct handle file;
    bool by_name;

    if (clone->range)
        return fail(failure, VAAINAS_NOT_SUPPORTED, "procedure 22 has no clones of ranges; nothing was changed: use the program");
    if (strlen(clone->destination) + 1 > PROCEDURE22_NAME_SIZE)
        return fail(failure, VAAINAS_NAME_TOO_LONG, "procedure 22 has room for paths of 255 bytes; nothing was changed: use the program");
    if ((clone->flags & VAAINAS_DRY_RUN) != 0)
        return VAAINAS_OK;
    enum vaainas_error error = prepare(session, clone, destination, &file, &by_name, failure);
    if (error != VAAINAS_OK)
        return error;
    to_wire(&file, &request.destination);
    to_wire(&source->object, &request.source);
    request.name_length = (uint32_t)strlen(clone->destination) + 1;
    strcpy(request.name, clone->destination);
    error = exchange(session, &request, &answer, failure);
    if (error != VAAINAS_OK)
        return error;
    result->done_bytes = answer.clone_offset;
    if (answer.clone_flag == PROCEDURE22_COMPLETE)
        return VAAINAS_OK;
    if (by_name) /* and no handle to ask with */
        return fail(failure, VAAINAS_PROTOCOL, "the server has not said that the clone is complete: don't use the destination");
    return poll_until_done(session, clone, &file, &result->done_bytes, failure);
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
    return command(session, PROCEDURE22_ABORT_CLONE, destination, &result, failure);
}

const struct door procedure22_door = {supported, clone_file, statistics, jobs, cancel};
