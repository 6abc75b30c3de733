/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* A folder for a test, on the file system of TMPDIR, and helpers for its files. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

static char scratch[256];

static inline void scratch_begin(void)
{
    const char *temporary = getenv("TMPDIR");

    snprintf(scratch, sizeof(scratch), "%s/fileops-XXXXXX", temporary != NULL ? temporary : "/tmp");
    assert_non_null(mkdtemp(scratch));
}

static inline void scratch_end(void)
{
    char command[300];

    snprintf(command, sizeof(command), "rm -rf '%s'", scratch);
    assert_int_equal(system(command), 0);
}

/* Valid until the next call. */
static inline const char *in_scratch(const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/%s", scratch, name);
    return path;
}

/* Opened for reading and writing; created with non-zero bytes of this length. */
static inline int make_file(const char *name, uint64_t size)
{
    char block[4096];
    const int file = open(in_scratch(name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(file >= 0);
    memset(block, 'x', sizeof(block));
    for (uint64_t at = 0; at < size; at += sizeof(block)) {
        const size_t length = size - at < sizeof(block) ? (size_t)(size - at) : sizeof(block);
        assert_int_equal(pwrite(file, block, length, (off_t)at), length);
    }
    return file;
}

static inline bool exists(const char *name)
{
    struct stat status;

    return lstat(in_scratch(name), &status) == 0;
}

static inline void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
}

/* Until its time of change differs. */
static inline void change(int file)
{
    struct stat before, after;

    fstat(file, &before);
    do {
        assert_int_equal(pwrite(file, "y", 1, 0), 1);
        fstat(file, &after);
    } while (memcmp(&before.st_ctim, &after.st_ctim, sizeof(before.st_ctim)) == 0);
}
