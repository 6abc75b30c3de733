/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

/*
 * Status of a response. procedure22.c converts it to an nfsstat3 (RFC 1813 2.6) and a result of the private structure, control.c
 * to a name.
 */
enum vaai_nas_status {
    VAAI_NAS_OK = 0,
    VAAI_NAS_NOT_FOUND,  /* no such file, or no such job */
    VAAI_NAS_ACCESS,     /* the export, the client's address, or the file's permissions refuse the caller */
    VAAI_NAS_BAD_HANDLE, /* not a handle of this server */
    VAAI_NAS_STALE,      /* the file or its export was removed */
    VAAI_NAS_EXISTS,     /* the destination exists or holds data; or the request id belongs to another request */
    VAAI_NAS_NOT_DIRECTORY,
    VAAI_NAS_IS_DIRECTORY,
    VAAI_NAS_READ_ONLY, /* the export or the file system */
    VAAI_NAS_NO_SPACE,  /* also: a reservation is impossible */
    VAAI_NAS_FILE_TOO_LARGE,
    VAAI_NAS_NAME_TOO_LONG,
    VAAI_NAS_INVALID, /* the request is inconsistent: ranges, names, lengths */
    VAAI_NAS_BUSY,    /* the source changed all the time, another clone writes the destination, or too many jobs wait */
    VAAI_NAS_CANCELLED,
    VAAI_NAS_NOT_SUPPORTED, /* by this export's file system */
    VAAI_NAS_INPUT_OUTPUT,
    VAAI_NAS_INTERRUPTED, /* the daemon ended while the job ran; the destination's content is undefined */
    VAAI_NAS_FAULT,       /* an error of the daemon; see its log */
    VAAI_NAS_STATUS_COUNT
};

/* A short name for statistics, never NULL. */
const char *vaai_nas_status_name(enum vaai_nas_status status);

/* Converts an errno to a status. */
enum vaai_nas_status vaai_nas_status_of_errno(int error);
