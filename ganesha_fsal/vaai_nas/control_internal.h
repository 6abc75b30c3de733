/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include <json-c/json.h>

#include "control.h"
#include "files.h"

/* Shared by control.c, control_statistics.c and control_files.c. */

/* Why a method has no result. `field` is the refused parameter, or NULL; status OK: the parameters are invalid. */
struct control_failure {
    enum vaai_nas_status status;
    const char *field;
    char reason[VAAI_NAS_REASON_SIZE];
};

struct json_object *control_statistics(struct vaai_nas_service *service);

/* These return NULL with `failure`. `parameters` is an object. */
typedef struct json_object *control_method(struct vaai_nas_service *service, struct json_object *parameters,
                                           struct control_failure *failure);
control_method control_files_list, control_file_statistics, control_space_get, control_space_shared, control_clone_start,
    control_job_get, control_job_cancel;
