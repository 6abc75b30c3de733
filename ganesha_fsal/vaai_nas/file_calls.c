/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "file_calls.h"

void file_calls_init(struct file_calls *calls)
{
    pthread_condattr_t monotonic;

    calls->count = 0;
    pthread_mutex_init(&calls->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&calls->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void file_calls_destroy(struct file_calls *calls)
{
    pthread_cond_destroy(&calls->ended);
    pthread_mutex_destroy(&calls->lock);
}

/* With the lock held. */
static size_t file_calls_of_export(const struct file_calls *calls, uint16_t export_id)
{
    size_t count = 0;

    for (size_t i = 0; i < calls->count; i++)
        count += calls->export_id[i] == export_id;
    return count;
}

bool file_calls_begin(struct file_calls *calls, uint16_t export_id)
{
    pthread_mutex_lock(&calls->lock);
    const bool fits = calls->count < FILE_CALLS_MAX && file_calls_of_export(calls, export_id) < FILE_CALLS_EXPORT_MAX;
    if (fits)
        calls->export_id[calls->count++] = export_id;
    pthread_mutex_unlock(&calls->lock);
    return fits;
}

void file_calls_end(struct file_calls *calls, uint16_t export_id)
{
    size_t place = 0;

    pthread_mutex_lock(&calls->lock);
    while (calls->export_id[place] != export_id)
        place++;
    calls->export_id[place] = calls->export_id[--calls->count];
    pthread_cond_broadcast(&calls->ended);
    pthread_mutex_unlock(&calls->lock);
}

bool file_calls_wait(struct file_calls *calls, uint16_t export_id, const struct timespec *until)
{
    bool in_time = true;

    pthread_mutex_lock(&calls->lock);
    while (in_time && file_calls_of_export(calls, export_id) > 0)
        in_time = pthread_cond_timedwait(&calls->ended, &calls->lock, until) == 0;
    const bool none = file_calls_of_export(calls, export_id) == 0;
    pthread_mutex_unlock(&calls->lock);
    return none;
}
