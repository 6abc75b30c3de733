/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "status.h"

#include <errno.h>

static const char *const names[VAAI_NAS_STATUS_COUNT] = {
    [VAAI_NAS_OK] = "ok",
    [VAAI_NAS_NOT_FOUND] = "not_found",
    [VAAI_NAS_ACCESS] = "access",
    [VAAI_NAS_BAD_HANDLE] = "bad_handle",
    [VAAI_NAS_STALE] = "stale",
    [VAAI_NAS_EXISTS] = "exists",
    [VAAI_NAS_NOT_DIRECTORY] = "not_directory",
    [VAAI_NAS_IS_DIRECTORY] = "is_directory",
    [VAAI_NAS_READ_ONLY] = "read_only",
    [VAAI_NAS_NO_SPACE] = "no_space",
    [VAAI_NAS_FILE_TOO_LARGE] = "file_too_large",
    [VAAI_NAS_NAME_TOO_LONG] = "name_too_long",
    [VAAI_NAS_INVALID] = "invalid",
    [VAAI_NAS_BUSY] = "busy",
    [VAAI_NAS_CANCELLED] = "cancelled",
    [VAAI_NAS_NOT_SUPPORTED] = "not_supported",
    [VAAI_NAS_INPUT_OUTPUT] = "input_output",
    [VAAI_NAS_INTERRUPTED] = "interrupted",
    [VAAI_NAS_FAULT] = "fault",
};

const char *vaai_nas_status_name(enum vaai_nas_status status)
{
    return (unsigned int)status < VAAI_NAS_STATUS_COUNT ? names[status] : "fault";
}

enum vaai_nas_status vaai_nas_status_of_errno(int error)
{
    switch (error) {
    case 0:
        return VAAI_NAS_OK;
    case ENOENT:
        return VAAI_NAS_NOT_FOUND;
    case EACCES:
    case EPERM:
        return VAAI_NAS_ACCESS;
    case ESTALE:
        return VAAI_NAS_STALE;
    case EEXIST:
        return VAAI_NAS_EXISTS;
    case ENOTDIR:
        return VAAI_NAS_NOT_DIRECTORY;
    case EISDIR:
        return VAAI_NAS_IS_DIRECTORY;
    case EROFS:
        return VAAI_NAS_READ_ONLY;
    case ENOSPC:
        return VAAI_NAS_NO_SPACE;
    case EFBIG:
        return VAAI_NAS_FILE_TOO_LARGE;
    case ENAMETOOLONG:
        return VAAI_NAS_NAME_TOO_LONG;
    case EINVAL:
    case EOVERFLOW:
        return VAAI_NAS_INVALID;
    case EBUSY:
    case EAGAIN:
    case ETXTBSY:
        return VAAI_NAS_BUSY;
    case ECANCELED:
        return VAAI_NAS_CANCELLED;
    case ENOTSUP:
    case ENOSYS:
        return VAAI_NAS_NOT_SUPPORTED;
    case EIO:
        return VAAI_NAS_INPUT_OUTPUT;
    default:
        return VAAI_NAS_FAULT;
    }
}
