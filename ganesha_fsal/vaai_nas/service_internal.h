/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include <pthread.h>
#include <time.h>

#include "file_calls.h"
#include "jobs.h"
#include "service.h"

/* Shared by service.c, service_clone.c, service_files.c and service_jobs.c. */

struct vaai_nas_service {
    const struct vaai_nas_adapter *adapter;
    struct vaai_nas_counters *counters;
    struct vaai_nas_jobs *jobs;
    struct file_calls file_calls;
    pthread_mutex_t lock;
    char problem[VAAI_NAS_REASON_SIZE]; /* guarded by `lock` */
};

/* An operation of a host, counted when it ends. */
struct counted {
    struct timespec began;
    enum vaai_nas_operation operation;
};

struct counted service_begin(enum vaai_nas_operation operation);
void service_end(struct vaai_nas_service *service, const struct counted *counted, const struct vaai_nas_caller *caller,
                 const char *export_path, enum vaai_nas_status status);

/* If the open fails, `file` is closed and its path is empty. */
enum vaai_nas_status service_open(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                  const struct vaai_nas_handle *handle, enum vaai_nas_access access, struct vaai_nas_file *file);

/* Closing twice is allowed. */
void service_close(struct vaai_nas_service *service, struct vaai_nas_file *file);
