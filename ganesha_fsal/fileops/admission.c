/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "admission.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_BUCKETS 1024u /* a power of two; doubled as files come */

struct admitted_file {
    struct admitted_file *next;
    uint64_t inode;
    uint64_t size;        /* admitted */
    uint64_t highest;     /* largest end of the running changes */
    uint64_t begun;       /* changes, counted up */
    unsigned int changes; /* running */
};

int admission_init(struct admission *admission, uint64_t record_size)
{
    *admission = (struct admission){.buckets = FIRST_BUCKETS, .record_size = record_size};
    admission->files = calloc(FIRST_BUCKETS, sizeof(*admission->files));
    if (admission->files == NULL)
        return ENOMEM;
    pthread_mutex_init(&admission->lock, NULL);
    return 0;
}

static void admission_forget_all(struct admission *admission)
{
    for (size_t i = 0; i < admission->buckets; i++)
        for (struct admitted_file *file = admission->files[i], *next; file != NULL; file = next) {
            next = file->next;
            free(file);
        }
    for (size_t i = 0; i < admission->buckets; i++)
        admission->files[i] = NULL;
    admission->count = 0;
    admission->admitted = 0;
}

void admission_destroy(struct admission *admission)
{
    admission_forget_all(admission);
    free(admission->files);
    pthread_mutex_destroy(&admission->lock);
}

static struct admitted_file **admission_place_of(const struct admission *admission, uint64_t inode)
{
    const uint64_t mixed = inode * UINT64_C(0x9E3779B97F4A7C15);

    return &admission->files[(mixed >> 32) & (admission->buckets - 1)];
}

static struct admitted_file **admission_find(const struct admission *admission, uint64_t inode)
{
    struct admitted_file **link = admission_place_of(admission, inode);

    while (*link != NULL && (*link)->inode != inode)
        link = &(*link)->next;
    return link;
}

/* Twice the buckets; without memory the table does not change. */
static void admission_grow_table(struct admission *admission)
{
    const size_t before = admission->buckets;
    struct admitted_file **old = admission->files, **larger = calloc(2 * before, sizeof(*larger));

    if (larger == NULL)
        return;
    admission->files = larger;
    admission->buckets = 2 * before;
    for (size_t i = 0; i < before; i++)
        for (struct admitted_file *file = old[i], *next; file != NULL; file = next) {
            struct admitted_file **place = admission_place_of(admission, file->inode);
            next = file->next;
            file->next = *place;
            *place = file;
        }
    free(old);
}

/* Counted bytes of a file of this size. */
static uint64_t admission_cost(const struct admission *admission, uint64_t size)
{
    const uint64_t most = UINT64_MAX / 2;

    if (size > most)
        return most;
    return (size + admission->record_size - 1) / admission->record_size * admission->record_size + ADMISSION_FILE_BYTES;
}

static void admission_resize(struct admission *admission, struct admitted_file *file, uint64_t size)
{
    admission->admitted += admission_cost(admission, size) - admission_cost(admission, file->size);
    file->size = size;
}

void admission_set_limit(struct admission *admission, uint64_t limit)
{
    pthread_mutex_lock(&admission->lock);
    if (limit == 0 || admission->limit == 0) {
        admission_forget_all(admission);
        admission->counting = limit != 0;
    }
    admission->limit = limit;
    pthread_mutex_unlock(&admission->lock);
}

int admission_count(struct admission *admission, uint64_t inode, uint64_t size)
{
    int error = 0;

    pthread_mutex_lock(&admission->lock);
    struct admitted_file **link = admission_find(admission, inode);
    if (admission->limit != 0 && *link == NULL) {
        struct admitted_file *file = calloc(1, sizeof(*file));
        if (file != NULL) {
            *file = (struct admitted_file){.inode = inode, .size = size};
            *link = file;
            admission->admitted += admission_cost(admission, size);
            if (++admission->count > 2 * admission->buckets)
                admission_grow_table(admission);
        } else {
            error = ENOMEM;
        }
    }
    pthread_mutex_unlock(&admission->lock);
    return error;
}

void admission_counted(struct admission *admission)
{
    pthread_mutex_lock(&admission->lock);
    admission->counting = false;
    pthread_mutex_unlock(&admission->lock);
}

static int admission_admit(const struct admission *admission, const struct admitted_file *file, uint64_t end)
{
    if (end <= file->size)
        return 0;
    if (admission->counting && end - file->size > ADMISSION_WHILE_COUNTING)
        return EAGAIN;
    const uint64_t more = admission_cost(admission, end) - admission_cost(admission, file->size);
    /* Within a counted record nothing more is needed. */
    return more == 0 || (admission->admitted <= admission->limit && more <= admission->limit - admission->admitted) ? 0 : ENOSPC;
}

int admission_begin(struct admission *admission, uint64_t inode, uint64_t end, struct admission_change *change)
{
    int error = 0;

    *change = (struct admission_change){.inode = inode};
    pthread_mutex_lock(&admission->lock);
    struct admitted_file *file = admission->limit == 0 ? NULL : *admission_find(admission, inode);
    if (admission->limit != 0)
        error = file == NULL ? ENODATA : admission_admit(admission, file, end);
    if (error == 0 && file != NULL) {
        if (end > file->size)
            admission_resize(admission, file, end);
        file->highest = end > file->highest ? end : file->highest;
        change->alone = file->changes++ == 0;
        change->number = ++file->begun;
        change->entered = true;
    }
    pthread_mutex_unlock(&admission->lock);
    return error;
}

void admission_end(struct admission *admission, const struct admission_change *change, uint64_t size)
{
    if (!change->entered)
        return;
    pthread_mutex_lock(&admission->lock);
    struct admitted_file *file = *admission_find(admission, change->inode);
    /* NULL: the dataset became thin, or the file was removed. If it became thick again, the file has no changes. */
    if (file != NULL && file->changes != 0) {
        file->changes--;
        /* Concurrent or later changes may have made the file as large as admitted. */
        const uint64_t least = change->alone && file->begun == change->number ? 0 : file->highest;
        const uint64_t now = size > least ? size : least;
        if (now < file->size)
            admission_resize(admission, file, now);
        if (file->changes == 0)
            file->highest = 0;
    }
    pthread_mutex_unlock(&admission->lock);
}

void admission_forget(struct admission *admission, uint64_t inode)
{
    pthread_mutex_lock(&admission->lock);
    struct admitted_file **link = admission_find(admission, inode), *file = *link;
    if (file != NULL) {
        *link = file->next;
        admission->admitted -= admission_cost(admission, file->size);
        admission->count--;
        free(file);
    }
    pthread_mutex_unlock(&admission->lock);
}
