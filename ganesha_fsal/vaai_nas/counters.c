/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "counters.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct row {
    char *name;
    uint64_t last_use; /* number of the use, of the table's */
    struct vaai_nas_counter_set set;
};

/* Rows are in order of first use. In a full table a new name gets the row that was unused for longest. */
struct table {
    struct row *rows[VAAI_NAS_COUNTED];
    size_t used;
    uint64_t uses;
};

struct vaai_nas_counters {
    pthread_mutex_t lock;
    struct table exports, hosts;
};

static const char *const names[VAAI_NAS_OPERATION_COUNT] = {
    [VAAI_NAS_OPERATION_CAPABILITIES] = "capabilities", [VAAI_NAS_OPERATION_CLONE] = "clone",
    [VAAI_NAS_OPERATION_FAST_CLONE] = "fast_clone",     [VAAI_NAS_OPERATION_RESERVE] = "reserve",
    [VAAI_NAS_OPERATION_STATISTICS] = "statistics",     [VAAI_NAS_OPERATION_JOB] = "job",
    [VAAI_NAS_OPERATION_READ] = "read",                 [VAAI_NAS_OPERATION_WRITE] = "write",
};

const char *vaai_nas_operation_name(enum vaai_nas_operation operation)
{
    return names[operation];
}

struct vaai_nas_counters *vaai_nas_counters_new(void)
{
    struct vaai_nas_counters *counters = calloc(1, sizeof(*counters));

    if (counters != NULL)
        pthread_mutex_init(&counters->lock, NULL);
    return counters;
}

static void counters_free_table(struct table *table)
{
    for (size_t i = 0; i < table->used; i++) {
        free(table->rows[i]->name);
        free(table->rows[i]);
    }
}

void vaai_nas_counters_free(struct vaai_nas_counters *counters)
{
    if (counters == NULL)
        return;
    counters_free_table(&counters->exports);
    counters_free_table(&counters->hosts);
    pthread_mutex_destroy(&counters->lock);
    free(counters);
}

/* NULL without memory: then nothing is counted. */
static struct vaai_nas_counter_set *counters_find(struct table *table, const char *name)
{
    struct row *row = NULL;

    table->uses++;
    for (size_t i = 0; i < table->used; i++) {
        if (strcmp(table->rows[i]->name, name) == 0) {
            table->rows[i]->last_use = table->uses;
            return &table->rows[i]->set;
        }
        if (row == NULL || table->rows[i]->last_use < row->last_use)
            row = table->rows[i];
    }
    char *copy = strdup(name);
    if (copy == NULL)
        return NULL;
    if (table->used < VAAI_NAS_COUNTED) {
        row = calloc(1, sizeof(*row));
        if (row == NULL) {
            free(copy);
            return NULL;
        }
        table->rows[table->used++] = row;
    }
    free(row->name);
    *row = (struct row){.name = copy, .last_use = table->uses};
    return &row->set;
}

static size_t counters_bucket(uint64_t microseconds)
{
    size_t index = microseconds == 0 ? 0 : (size_t)(64 - __builtin_clzll(microseconds));

    return index < VAAI_NAS_LATENCY_BUCKETS ? index : VAAI_NAS_LATENCY_BUCKETS - 1;
}

static bool counters_is_refusal(enum vaai_nas_status status)
{
    switch (status) {
    case VAAI_NAS_ACCESS:
    case VAAI_NAS_READ_ONLY:
    case VAAI_NAS_NO_SPACE:
    case VAAI_NAS_NOT_SUPPORTED:
        return true;
    default:
        return false;
    }
}

/* Runs `body` for the set of the export and that of the host, under the lock. */
#define FOR_BOTH(set, counters, host, export_path, body)                                                                         \
    do {                                                                                                                         \
        pthread_mutex_lock(&(counters)->lock);                                                                                   \
        struct vaai_nas_counter_set *both[2] = {(export_path)[0] == 0 ? NULL : counters_find(&(counters)->exports, export_path), \
                                                counters_find(&(counters)->hosts, host)};                                        \
        for (size_t which = 0; which < 2; which++) {                                                                             \
            struct vaai_nas_counter_set *set = both[which];                                                                      \
            if (set != NULL) {                                                                                                   \
                body                                                                                                             \
            }                                                                                                                    \
        }                                                                                                                        \
        pthread_mutex_unlock(&(counters)->lock);                                                                                 \
    } while (0)

void vaai_nas_count(struct vaai_nas_counters *counters, const char *host, const char *export_path,
                    enum vaai_nas_operation operation, enum vaai_nas_status status, uint64_t bytes, const struct timespec *began)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t microseconds = (uint64_t)((now.tv_sec - began->tv_sec) * 1000000 + (now.tv_nsec - began->tv_nsec) / 1000);
    FOR_BOTH(set, counters, host, export_path, {
        struct vaai_nas_operation_counters *of = &set->operation[operation];
        of->operations++;
        of->errors += status != VAAI_NAS_OK;
        of->refused += counters_is_refusal(status);
        of->bytes += bytes;
        of->total_microseconds += microseconds;
        of->latency[counters_bucket(microseconds)]++;
    });
}

void vaai_nas_count_clone(struct vaai_nas_counters *counters, const char *host, const char *export_path,
                          const struct fileops_clone_result *result)
{
    FOR_BOTH(set, counters, host, export_path, {
        set->cloned_bytes += result->cloned;
        set->copied_bytes += result->copied;
        set->hole_bytes += result->holes;
        for (size_t reason = 0; reason < FILEOPS_FALLBACK_COUNT; reason++)
            set->fallback_bytes[reason] += result->fallback[reason];
    });
}

void vaai_nas_count_reserved(struct vaai_nas_counters *counters, const char *host, const char *export_path, uint64_t bytes)
{
    FOR_BOTH(set, counters, host, export_path, { set->reserved_bytes += bytes; });
}

void vaai_nas_counters_each(const struct vaai_nas_counters *counters,
                            void (*each)(void *context, const char *host, const char *export_path,
                                         const struct vaai_nas_counter_set *set),
                            void *context)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&counters->lock;

    for (size_t which = 0; which < 2; which++) {
        const struct table *table = which == 0 ? &counters->exports : &counters->hosts;
        for (size_t i = 0;; i++) {
            pthread_mutex_lock(lock);
            const bool more = i < table->used;
            struct vaai_nas_counter_set copy;
            char *name = NULL;
            if (more) {
                copy = table->rows[i]->set;
                name = strdup(table->rows[i]->name);
            }
            pthread_mutex_unlock(lock);
            if (!more)
                break;
            if (name != NULL)
                each(context, which == 0 ? NULL : name, which == 0 ? name : NULL, &copy);
            free(name);
        }
    }
}
