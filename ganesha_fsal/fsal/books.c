/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "config.h"

#include "books.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../fileops/space.h"
#include "FSAL/fsal_localfs.h"

struct user {
    struct user *next;
    const struct fsal_export *export;
};

struct books {
    struct books *next;
    /* The file system. ganesha lets go of its own structure when no export claims it; while the books are open it stays mounted, so that
     * nothing else has this number. */
    struct fsal_dev__ device;
    struct fsal_fsid__ id;
    enum fsid_type id_type;
    struct fileops_space *space; /* NULL: read-only */
    struct user *users;
};

/* Opening and closing books runs zfs(8), which may take its time: who only looks for them waits for `lock` alone, never for that. */
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct books *all; /* few: one for each exported dataset */

static struct books *find(const struct fsal_filesystem *file_system)
{
    struct books *books = all;

    while (books != NULL && (books->device.major != file_system->dev.major || books->device.minor != file_system->dev.minor))
        books = books->next;
    return books;
}

/*
 * Whether an export other than this one reaches the file system. It may never have said so to us: MDCACHE gives it objects that were
 * made for another export, and with them the pointer to the books.
 */
static bool claimed_by_another(const struct books *books, const struct fsal_export *export)
{
    struct fsal_fsid__ id = books->id;
    struct fsal_filesystem *file_system;
    struct glist_head *node;
    bool claimed = false;

    PTHREAD_RWLOCK_rdlock(&fs_lock);
    file_system = lookup_fsid_locked(&id, books->id_type);
    if (file_system != NULL)
        glist_for_each(node, &file_system->exports)
            claimed = claimed || glist_entry(node, struct fsal_filesystem_export_map, on_exports)->exp != export;
    PTHREAD_RWLOCK_unlock(&fs_lock);
    return claimed;
}

static bool uses(const struct books *books, const struct fsal_export *export)
{
    const struct user *user = books->users;

    while (user != NULL && user->export != export)
        user = user->next;
    return user != NULL;
}

static int open_space(const struct fsal_filesystem *file_system, struct fileops_space **space)
{
    const struct fileops_space_options options = {
        .find_holder = strcmp(file_system->type, "zfs") == 0 ? fileops_zfs_holder : NULL,
    };
    struct fileops_space_status status;
    int error;

    *space = NULL;
    error = fileops_space_open(file_system->path, &options, space);
    switch (error) {
    case 0:
        fileops_space_status(*space, &status);
        if (status.problem[0] != 0)
            LogWarn(COMPONENT_FSAL, "%s: %s", file_system->path, status.problem);
        break;
    case EROFS: /* nothing to write down, nothing that could be written */
        error = 0;
        break;
    case EBUSY:
        LogCrit(COMPONENT_FSAL, "%s: another process has %s open; only one daemon may export a dataset", file_system->path,
                FILEOPS_FOLDER);
        break;
    default:
        LogCrit(COMPONENT_FSAL, "%s: the ledger in %s can't be opened: %s", file_system->path, FILEOPS_FOLDER, strerror(error));
    }
    return error;
}

/* With `changing` held: the list is read without `lock`, as nobody else changes it. */
static int use_more(const struct fsal_export *export, const struct fsal_filesystem *file_system, struct fileops_space **space)
{
    struct books *books = find(file_system), *opened = NULL;
    struct user *user = NULL;
    int error = 0;

    if (books == NULL) {
        opened = calloc(1, sizeof(*opened));
        error = opened == NULL ? ENOMEM : open_space(file_system, &opened->space);
        if (error != 0)
            goto exit;
        opened->device = file_system->dev;
        opened->id = file_system->fsid;
        opened->id_type = file_system->fsid_type;
        books = opened;
    }
    if (!uses(books, export)) {
        user = calloc(1, sizeof(*user));
        if (user == NULL) {
            error = ENOMEM;
            goto exit;
        }
        user->export = export;
    }
    pthread_rwlock_wrlock(&lock);
    if (opened != NULL) {
        opened->next = all;
        all = opened;
        opened = NULL;
    }
    if (user != NULL) {
        user->next = books->users;
        books->users = user;
    }
    pthread_rwlock_unlock(&lock);
    *space = books->space;
exit:
    if (opened != NULL && opened->space != NULL)
        fileops_space_close(opened->space);
    free(opened);
    return error;
}

int books_use(const struct fsal_export *export, const struct fsal_filesystem *file_system, struct fileops_space **space)
{
    const struct books *books;
    bool used;
    int error = 0;

    pthread_rwlock_rdlock(&lock);
    books = find(file_system);
    used = books != NULL && uses(books, export);
    *space = used ? books->space : NULL;
    pthread_rwlock_unlock(&lock);
    if (!used) {
        pthread_mutex_lock(&changing);
        error = use_more(export, file_system, space);
        pthread_mutex_unlock(&changing);
    }
    return error;
}

void books_leave(const struct fsal_export *export)
{
    struct books **link, *books, *unused = NULL;
    struct user **user_link, *user;

    pthread_mutex_lock(&changing);
    pthread_rwlock_wrlock(&lock);
    for (link = &all; (books = *link) != NULL;) {
        for (user_link = &books->users; (user = *user_link) != NULL;) {
            if (user->export == export) {
                *user_link = user->next;
                free(user);
            } else {
                user_link = &user->next;
            }
        }
        if (books->users == NULL && !claimed_by_another(books, export)) {
            *link = books->next;
            books->next = unused;
            unused = books;
        } else {
            link = &books->next;
        }
    }
    pthread_rwlock_unlock(&lock);
    while ((books = unused) != NULL) {
        unused = books->next;
        if (books->space != NULL)
            fileops_space_close(books->space);
        free(books);
    }
    pthread_mutex_unlock(&changing);
}

void books_file_closed(const struct fileops_space *space, uint64_t inode)
{
    const struct books *books;

    pthread_rwlock_rdlock(&lock); /* MDCACHE may let go of objects after their export has gone */
    for (books = all; books != NULL && books->space != space; books = books->next)
        ;
    if (books != NULL)
        fileops_file_closed(books->space, inode);
    pthread_rwlock_unlock(&lock);
}
