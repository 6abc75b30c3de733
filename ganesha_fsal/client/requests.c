/* SPDX-License-Identifier: Apache-2.0 */
/* The functions for the command: check arguments, resolve paths, call the server. */
#include <string.h>

#include "session.h"

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

static enum vaainas_error requests_find_file(struct vaainas_session *session, const char *path, struct resolved *resolved,
                                            struct vaainas_failure *failure)
{
    enum vaainas_error error = session_resolve(session, path, resolved, failure);

    if (error == VAAINAS_OK && !resolved->exists)
        error = session_fail(failure, VAAINAS_NOT_FOUND, "%s does not exist; nothing was changed", path);
    if (error == VAAINAS_OK && resolved->is_directory)
        error = session_fail(failure, VAAINAS_IS_DIRECTORY, "%s is a directory; nothing was changed", path);
    return error;
}

enum vaainas_error vaainas_clone_file(struct vaainas_session *session, const struct vaainas_clone *clone, uint64_t *done,
                                      struct vaainas_failure *failure)
{
    struct resolved source, destination;
    enum vaainas_error error = requests_find_file(session, clone->source, &source, failure);

    *done = 0;
    if (error == VAAINAS_OK)
        error = session_resolve(session, clone->destination, &destination, failure);
    if (error != VAAINAS_OK)
        return error;
    if (!destination.parent_exists)
        return session_fail(failure, VAAINAS_NOT_FOUND, "the directory of %s does not exist; nothing was changed",
                            clone->destination);
    if (destination.exists && destination.is_directory)
        return session_fail(failure, VAAINAS_IS_DIRECTORY, "%s is a directory; nothing was changed: name the file",
                            clone->destination);
    if (destination.exists)
        return session_fail(failure, VAAINAS_EXISTS, "%s exists; nothing was changed", clone->destination);
    return session_clone(session, clone, &source, &destination, done, failure);
}

enum vaainas_error vaainas_stat(struct vaainas_session *session, const char *path, struct vaainas_statistics *statistics,
                                struct vaainas_failure *failure)
{
    struct resolved resolved;
    enum vaainas_error error = requests_find_file(session, path, &resolved, failure);

    return error != VAAINAS_OK ? error : session_get_statistics(session, &resolved.object, statistics, failure);
}

enum vaainas_error vaainas_reserve(struct vaainas_session *session, const char *path, struct vaainas_failure *failure)
{
    struct resolved resolved;
    enum vaainas_error error = requests_find_file(session, path, &resolved, failure);

    return error != VAAINAS_OK ? error : session_reserve(session, &resolved.object, failure);
}
