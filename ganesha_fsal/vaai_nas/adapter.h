/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "status.h"

/*
 * Interface to an NFS server. adapter_ganesha.c implements it; unit tests have a fake. Nothing else
 * in the service knows ganesha.
 */

#define VAAI_NAS_HANDLE_SIZE 128 /* NFS4_FHSIZE, RFC 7530 2.1; a handle of NFSv3 has 64 bytes at most (NFS3_FHSIZE) */
#define VAAI_NAS_NAME_SIZE 255   /* bytes of one name, without NUL */
#define VAAI_NAS_HOST_SIZE 64    /* text of an address with NUL */
#define VAAI_NAS_PATH_SIZE 4096  /* with NUL */
#define VAAI_NAS_POOL_SIZE 64    /* with NUL */

struct fileops_dataset;

/* A received file handle. `length` is at most VAAI_NAS_HANDLE_SIZE. */
struct vaai_nas_handle {
    size_t length;
    uint8_t bytes[VAAI_NAS_HANDLE_SIZE];
};

/* The caller. `request` belongs to the adapter (ganesha: struct svc_req of a call of NFSv3) and is valid during the call. */
struct vaai_nas_caller {
    void *request;
    bool local;                    /* by the control socket: root in every export, without `request` */
    char host[VAAI_NAS_HOST_SIZE]; /* address without port */
};

enum vaai_nas_access {
    VAAI_NAS_INSPECT,        /* attributes and statistics: the rights of GETATTR */
    VAAI_NAS_READ,           /* the rights of READ; the descriptor is open for reading */
    VAAI_NAS_WRITE,          /* the rights of WRITE, in an export that is not read-only; open for reading and writing */
    VAAI_NAS_MAY_WRITE,      /* the rights of WRITE are checked; nothing is opened, so that no share reservation conflicts */
    VAAI_NAS_CREATE,         /* a directory in which the caller may create a file */
    VAAI_NAS_WRITE_OR_CREATE /* as VAAI_NAS_CREATE for a directory, as VAAI_NAS_WRITE for others */
};

/*
 * A file or directory that a caller may use with the requested access. The service owns it from a successful open() or create() to
 * close(), on any thread, also after the response to the call that opened it.
 */
struct vaai_nas_file {
    int fd;
    bool is_directory;
    bool read_only; /* the export is, for this caller */
    dev_t device;
    ino_t inode;
    uint16_t export_id;
    char export_path[VAAI_NAS_PATH_SIZE];      /* as clients mount it */
    char export_directory[VAAI_NAS_PATH_SIZE]; /* the exported directory */
    char pool[VAAI_NAS_POOL_SIZE];             /* ZFS pool or device: a hang affects all its files */
    uid_t owner;                               /* user of the caller, squashed as the export says; owner of a new file */
    gid_t group;
    struct fileops_dataset *dataset; /* valid until close() */
    void *of_adapter;
};

struct vaai_nas_adapter {
    /*
     * Opens the object of `handle`, after all checks of NFS: the export, the caller's address, flavour, port and squashed
     * credentials, the file's permissions. Errors: BAD_HANDLE, STALE, ACCESS, READ_ONLY, IS_DIRECTORY and NOT_DIRECTORY where
     * `access` needs the other, NOT_SUPPORTED for an export of another FSAL, INVALID for other kinds of objects. BUSY:
     * a client's share reservation (RFC 7530 9.9) is in the way, or `access` writes and the grace period is not over.
     */
    enum vaai_nas_status (*open)(const struct vaai_nas_caller *caller, const struct vaai_nas_handle *handle,
                                 enum vaai_nas_access access, struct vaai_nas_file *file);

    /*
     * Contents, size or space of the file, or names in the directory, were changed without the server: drops the
     * server's cache of them before this returns. On any thread.
     */
    void (*changed)(const struct vaai_nas_file *file);

    void (*close)(struct vaai_nas_file *file);

    /* Whether the file's export is being removed. It is set before the service cancels the export's clones, and never cleared. */
    bool (*is_ending)(const struct vaai_nas_file *file);

    /*
     * The handle of `path` in an export: names with one slash between, none of them "." or ".."; "" is the export
     * itself. Follows no symbolic link, enters no other file system, and shows nothing that is hidden from clients. Errors: STALE without
     * such export or it is being removed, NOT_FOUND, NOT_DIRECTORY, NAME_TOO_LONG, NOT_SUPPORTED for an export of another FSAL and for another file system.
     */
    enum vaai_nas_status (*find)(uint16_t export_id, const char *path, struct vaai_nas_handle *handle);
};
