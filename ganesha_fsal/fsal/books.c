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
    const struct fsal_filesystem *file_system;
    struct fileops_space *space; /* NULL: read-only */
    struct user *users;
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct books *all; /* few: one for each exported dataset */

static struct books *find(const struct fsal_filesystem *file_system)
{
    struct books *books = all;

    while (books != NULL && books->file_system != file_system)
        books = books->next;
    return books;
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
    struct fileops_space_holder holder;
    struct fileops_space_options options = { 0 };
    int error = 0;

    *space = NULL;
    if (strcmp(file_system->type, "zfs") == 0) {
        error = fileops_zfs_holder(file_system->path, &holder);
        if (error != 0)
            LogWarn(COMPONENT_FSAL, "%s: zfs(8) can't be asked (%s): nothing can be reserved here", file_system->path,
                    strerror(error));
        else
            options.holder = &holder;
    }
    error = fileops_space_open(file_system->path, &options, space);
    switch (error) {
    case 0:
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

/* With the lock held for writing. */
static int use_locked(const struct fsal_export *export, const struct fsal_filesystem *file_system, struct fileops_space **space)
{
    struct books *books = find(file_system);
    struct user *user = NULL;
    int error = 0;

    if (books == NULL) {
        books = calloc(1, sizeof(*books));
        error = books == NULL ? ENOMEM : open_space(file_system, &books->space);
        if (error != 0) {
            free(books);
            goto exit;
        }
        books->file_system = file_system;
        books->next = all;
        all = books;
    }
    if (!uses(books, export)) {
        user = calloc(1, sizeof(*user));
        if (user == NULL) {
            error = ENOMEM;
            goto exit;
        }
        user->export = export;
        user->next = books->users;
        books->users = user;
    }
    *space = books->space;
exit:
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
        pthread_rwlock_wrlock(&lock);
        error = use_locked(export, file_system, space);
        pthread_rwlock_unlock(&lock);
    }
    return error;
}

void books_leave(const struct fsal_export *export)
{
    struct books **link, *books;
    struct user **user_link, *user;

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
        if (books->users == NULL) {
            *link = books->next;
            if (books->space != NULL)
                fileops_space_close(books->space);
            free(books);
        } else {
            link = &books->next;
        }
    }
    pthread_rwlock_unlock(&lock);
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
