/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Calls by path that touch files, and may hang with a pool. Their number is limited, so that other calls get a response. */

#define FILE_CALLS_MAX 32u        /* at once */
#define FILE_CALLS_EXPORT_MAX 16u /* of them in one export, so that one pool does not take all */

struct file_calls {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    uint16_t export_id[FILE_CALLS_MAX]; /* of the running calls */
    size_t count;
};

void file_calls_init(struct file_calls *calls);
void file_calls_destroy(struct file_calls *calls);

/* false: too many are running. */
bool file_calls_begin(struct file_calls *calls, uint16_t export_id);
void file_calls_end(struct file_calls *calls, uint16_t export_id);

/* Waits until no call of the export is running; false: some are still running at `until` (CLOCK_MONOTONIC). */
bool file_calls_wait(struct file_calls *calls, uint16_t export_id, const struct timespec *until);
