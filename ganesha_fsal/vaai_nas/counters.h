/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include <stdint.h>
#include <time.h>

#include "../fileops/clone.h"
#include "adapter.h"
#include "status.h"

/* Requests of VAAI-NAS, reads and writes, and bytes by outcome, per export and per host. Thread-safe. Counted since the start of the daemon. */

enum vaai_nas_operation {
    VAAI_NAS_OPERATION_CAPABILITIES,
    VAAI_NAS_OPERATION_CLONE,
    VAAI_NAS_OPERATION_FAST_CLONE,
    VAAI_NAS_OPERATION_RESERVE,
    VAAI_NAS_OPERATION_STATISTICS,
    VAAI_NAS_OPERATION_JOB, /* status, cancel */
    VAAI_NAS_OPERATION_READ,
    VAAI_NAS_OPERATION_WRITE,
    VAAI_NAS_OPERATION_COUNT
};

#define VAAI_NAS_LATENCY_BUCKETS 28 /* less than 1 us, less than 2 us, ... less than 2^26 us, all beyond */
#define VAAI_NAS_COUNTED 256 /* exports, and hosts; a new name replaces the name that was unused for longest */

struct vaai_nas_operation_counters {
    uint64_t operations; /* ended, with success or without */
    uint64_t errors;     /* unsuccessful operations */
    uint64_t refused;    /* of those: by access checks, or because a guarantee is impossible */
    uint64_t bytes;      /* of reads and writes */
    uint64_t total_microseconds;
    uint64_t latency[VAAI_NAS_LATENCY_BUCKETS];
};

struct vaai_nas_counter_set {
    struct vaai_nas_operation_counters operation[VAAI_NAS_OPERATION_COUNT];
    uint64_t cloned_bytes, copied_bytes, hole_bytes, reserved_bytes;
    uint64_t fallback_bytes[FILEOPS_FALLBACK_COUNT];
};

struct vaai_nas_counters;

struct vaai_nas_counters *vaai_nas_counters_new(void);
void vaai_nas_counters_free(struct vaai_nas_counters *counters);

/* One operation ended. `export_path` is "" if it was refused before its export was known. `bytes`: 0, but for reads and writes. */
void vaai_nas_count(struct vaai_nas_counters *counters, const char *host, const char *export_path,
                    enum vaai_nas_operation operation, enum vaai_nas_status status, uint64_t bytes, const struct timespec *began);

/* Bytes of a clone by method. */
void vaai_nas_count_clone(struct vaai_nas_counters *counters, const char *host, const char *export_path,
                          const struct fileops_clone_result *result);

void vaai_nas_count_reserved(struct vaai_nas_counters *counters, const char *host, const char *export_path, uint64_t bytes);

/* Calls `each` for every export, then for every host, with a copy of the counters. */
void vaai_nas_counters_each(const struct vaai_nas_counters *counters,
                            void (*each)(void *context, const char *host, const char *export_path,
                                         const struct vaai_nas_counter_set *set),
                            void *context);

const char *vaai_nas_operation_name(enum vaai_nas_operation operation);
