/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions: check, find the paths, go through the session's door. */
#include <stdlib.h>
#include <string.h>

#include "session.h"
#include "structures.h"

static const char *const names[] = {
    [VAAINAS_OK] = "ok",
    [VAAINAS_NOT_FOUND] = "not_found",
    [VAAINAS_ACCESS] = "access",
    [VAAINAS_BAD_HANDLE] = "bad_handle",
    [VAAINAS_STALE] = "stale",
    [VAAINAS_EXISTS] = "exists",
    [VAAINAS_NOT_DIRECTORY] = "not_directory",
    [VAAINAS_IS_DIRECTORY] = "is_directory",
    [VAAINAS_READ_ONLY] = "read_only",
    [VAAINAS_NO_SPACE] = "no_space",
    [VAAINAS_QUOTA] = "quota",
    [VAAINAS_FILE_TOO_LARGE] = "file_too_large",
    [VAAINAS_NAME_TOO_LONG] = "name_too_long",
    [VAAINAS_INVALID] = "invalid",
    [VAAINAS_BUSY] = "busy",
    [VAAINAS_CANCELLED] = "cancelled",
    [VAAINAS_NOT_SUPPORTED] = "not_supported",
    [VAAINAS_INPUT_OUTPUT] = "input_output",
    [VAAINAS_INTERRUPTED] = "interrupted",
    [VAAINAS_FAULT] = "fault",
    [VAAINAS_UNREACHABLE] = "unreachable",
    [VAAINAS_NO_SERVICE] = "no_service",
    [VAAINAS_PROTOCOL] = "protocol",
    [VAAINAS_NO_MEMORY] = "no_memory",
    [VAAINAS_STUCK] = "stuck",
};

const char *vaainas_error_name(enum vaainas_error error)
{
    unsigned int number = (unsigned int)error;

    return number < sizeof(names) / sizeof(names[0]) && names[number] != NULL ? names[number] : "unknown";
}

enum vaainas_door vaainas_session_door(const struct vaainas_session *session)
{
    return session->door;
}

static enum vaainas_error unknown_size(struct vaainas_failure *failure)
{
    return fail(failure, VAAINAS_INVALID, "a structure's size is not set, or it asks for what only a later libvaainas knows");
}

enum vaainas_error vaainas_supported(struct vaainas_session *session, struct vaainas_capabilities *capabilities,
                                     struct vaainas_failure *failure)
{
    struct vaainas_failure ignored;
    struct vaainas_capabilities own;

    failure = failure != NULL ? failure : &ignored;
    if (!STRUCTURE_BEGIN(&own, capabilities, unique_exact))
        return unknown_size(failure);
    enum vaainas_error error = session->functions->supported(session, &own, failure);
    STRUCTURE_GIVE(&own, capabilities);
    return error;
}

static enum vaainas_error find_file(struct vaainas_session *session, const char *path, struct found *found,
                                    struct vaainas_failure *failure)
{
    enum vaainas_error error = walk(session, path, found, failure);

    if (error == VAAINAS_OK && !found->exists)
        error = fail(failure, VAAINAS_NOT_FOUND, "%s is not there; nothing was changed", path);
    if (error == VAAINAS_OK && found->is_directory)
        error = fail(failure, VAAINAS_IS_DIRECTORY, "%s is a directory; nothing was changed", path);
    return error;
}

/*
 * A server may tell a name's file from its cache, and find that it was replaced when it is asked to do something with it
 * (NFS3ERR_STALE, RFC 1813 section 2.6): the second walk tells the file that is there now. A clone that the server has taken is
 * never begun a second time.
 */
#define WALKS 2u

static enum vaainas_error clone_found(struct vaainas_session *session, const struct vaainas_clone *clone,
                                      struct vaainas_clone_result *result, bool *begun, struct vaainas_failure *failure)
{
    struct found source, destination;
    enum vaainas_error error = find_file(session, clone->source, &source, failure);

    if (error == VAAINAS_OK)
        error = walk(session, clone->destination, &destination, failure);
    if (error != VAAINAS_OK)
        return error;
    if (!destination.parent_exists)
        return fail(failure, VAAINAS_NOT_FOUND, "the directory of %s is not there; nothing was changed", clone->destination);
    if (destination.exists && destination.is_directory)
        return fail(failure, VAAINAS_IS_DIRECTORY, "%s is a directory; nothing was changed: name the file", clone->destination);
    if (destination.exists && (clone->flags & VAAINAS_GUARDED) != 0)
        return fail(failure, VAAINAS_EXISTS, "%s is there; nothing was changed", clone->destination);
    if (destination.exists && source.object.length == destination.object.length && !clone->range &&
        memcmp(source.object.bytes, destination.object.bytes, source.object.length) == 0)
        return fail(failure, VAAINAS_INVALID, "source and destination are the same file; nothing was changed");
    if (!destination.exists && clone->range)
        return fail(failure, VAAINAS_NOT_FOUND, "%s is not there; nothing was changed: a range is cloned into a file that is", clone->destination);
    return session->functions->clone(session, clone, &source, &destination, result, begun, failure);
}

enum vaainas_error vaainas_clone_file(struct vaainas_session *session, const struct vaainas_clone *clone,
                                      struct vaainas_clone_result *result, struct vaainas_failure *failure)
{
    struct vaainas_clone_result ignored_result = {.size = sizeof(ignored_result)}, own_result;
    struct vaainas_failure ignored;
    struct vaainas_clone own;

    failure = failure != NULL ? failure : &ignored;
    result = result != NULL ? result : &ignored_result;
    if (!STRUCTURE_TAKE(&own, clone, context) || !STRUCTURE_BEGIN(&own_result, result, reason))
        return unknown_size(failure);
    enum vaainas_error error = VAAINAS_STALE;
    bool begun = false;
    for (unsigned int walks = 0; walks < WALKS && error == VAAINAS_STALE && !begun; walks++)
        error = clone_found(session, &own, &own_result, &begun, failure);
    STRUCTURE_GIVE(&own_result, result);
    return error;
}

static enum vaainas_error file_statistics(struct vaainas_session *session, const char *path, bool reserve,
                                          struct vaainas_statistics *statistics, struct vaainas_failure *failure)
{
    struct vaainas_statistics ignored_statistics = {.size = sizeof(ignored_statistics)}, own;
    struct vaainas_failure ignored;
    struct found found;

    failure = failure != NULL ? failure : &ignored;
    statistics = statistics != NULL ? statistics : &ignored_statistics;
    if (!STRUCTURE_BEGIN(&own, statistics, unique_exact))
        return unknown_size(failure);
    enum vaainas_error error = VAAINAS_STALE;
    for (unsigned int walks = 0; walks < WALKS && error == VAAINAS_STALE; walks++) {
        error = find_file(session, path, &found, failure);
        if (error == VAAINAS_OK)
            error = session->functions->statistics(session, &found.object, reserve, &own, failure);
    }
    STRUCTURE_GIVE(&own, statistics);
    return error;
}

enum vaainas_error vaainas_stat(struct vaainas_session *session, const char *path, struct vaainas_statistics *statistics,
                                struct vaainas_failure *failure)
{
    return file_statistics(session, path, false, statistics, failure);
}

enum vaainas_error vaainas_reserve(struct vaainas_session *session, const char *path, struct vaainas_statistics *statistics,
                                   struct vaainas_failure *failure)
{
    return file_statistics(session, path, true, statistics, failure);
}

enum vaainas_error vaainas_jobs(struct vaainas_session *session, struct vaainas_job *jobs, size_t size, size_t *count,
                                struct vaainas_failure *failure)
{
    struct vaainas_failure ignored;
    struct vaainas_job *own = calloc(*count != 0 ? *count : 1, sizeof(*own));
    enum vaainas_error error;

    failure = failure != NULL ? failure : &ignored;
    if (own == NULL)
        error = fail(failure, VAAINAS_NO_MEMORY, "there is no memory for a list");
    else if (size < STRUCTURE_FIRST(own, reason) || size > STRUCTURE_MOST)
        error = unknown_size(failure);
    else
        error = session->functions->jobs(session, own, count, failure);
    if (error != VAAINAS_OK)
        *count = 0;
    for (size_t i = 0; i < *count; i++) {
        char *job = (char *)jobs + i * size;
        memset(job, 0, size);
        memcpy(job, &own[i], size < sizeof(*own) ? size : sizeof(*own));
    }
    free(own);
    return error;
}

enum vaainas_error vaainas_cancel(struct vaainas_session *session, const char *destination, uint64_t job,
                                  struct vaainas_failure *failure)
{
    struct vaainas_failure ignored;
    struct found found;

    failure = failure != NULL ? failure : &ignored;
    enum vaainas_error error = walk(session, destination, &found, failure);
    if (error == VAAINAS_OK && !found.exists)
        error = fail(failure, VAAINAS_NOT_FOUND, "%s is not there: for a clone that makes a file name the directory", destination);
    return error != VAAINAS_OK ? error : session->functions->cancel(session, &found.object, job, failure);
}
