/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Growth of files in a thick dataset, admitted by one counter: the sum over its files of the size, rounded up to the record size, and
 * ADMISSION_FILE_BYTES. Sparse files count in full, because they can be filled. It is raised before a file grows and lowered after it shrank, so that it
 * is never less than files can take.
 *
 * A server that changes files for clients calls admission_begin() before and admission_end() after. Changes by local programs are not seen until files
 * are counted again; the dataset's refquota bounds those.
 *
 * Thread-safe: one mutex, held for no system call. The caller needs no lock. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file's dnode, its name and the indirect blocks of a small one. */
#define ADMISSION_FILE_BYTES (UINT64_C(16) << 10)
/* Largest growth of a file while files are counted, so that lock files and heartbeats continue. */
#define ADMISSION_WHILE_COUNTING (UINT64_C(1) << 20)

struct admitted_file;

struct admission {
    pthread_mutex_t lock;
    struct admitted_file **files; /* buckets by inode */
    size_t buckets, count;
    uint64_t record_size; /* bytes, a power of two */
    uint64_t limit;       /* bytes; 0: thin, nothing is counted */
    uint64_t admitted;    /* bytes */
    bool counting;
};

/* 0 or ENOMEM. */
int admission_init(struct admission *admission, uint64_t record_size);
void admission_destroy(struct admission *admission);

/* Sets the limit. Raising it from 0 starts a count: admission_count() for each file, then admission_counted(). 0 clears all counts. */
void admission_set_limit(struct admission *admission, uint64_t limit);
/* Counts a file of this size, unless it is known. ENOMEM. */
int admission_count(struct admission *admission, uint64_t inode, uint64_t size);
void admission_counted(struct admission *admission);

/* A running change. On the caller's stack. */
struct admission_change {
    uint64_t inode, number;
    bool entered, alone;
};

/* Before a change that may make the file `end` bytes large. ENODATA: the file is unknown; the caller passes its size to admission_count() and calls again.
 * ENOSPC: above the limit. EAGAIN: files are still being counted. On an error nothing is recorded. */
int admission_begin(struct admission *admission, uint64_t inode, uint64_t end, struct admission_change *change);

/* After a change, with the new size of the file; UINT64_MAX: as admitted. With concurrent changes of the file, the admitted size may stay
 * as large as those requested. */
void admission_end(struct admission *admission, const struct admission_change *change, uint64_t size);

/* The file has no name left, and no client has it open. */
void admission_forget(struct admission *admission, uint64_t inode);
