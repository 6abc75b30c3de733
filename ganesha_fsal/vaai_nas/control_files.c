/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Methods of files and their clones. */
#include "control_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parameters of all methods. Values of another type are refused. */
struct values {
    const char *path, *after, *source, *destination;
    uint64_t export, job, limit;
    bool fast, restart;
    uint8_t request_id[VAAI_NAS_REQUEST_ID_SIZE];
};

static bool control_take_number(struct json_object *value, uint64_t least, uint64_t most, uint64_t *number)
{
    if (!json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
        return false;
    *number = json_object_get_uint64(value);
    return *number >= least && *number <= most;
}

static bool control_take_text(struct json_object *value, const char **text)
{
    if (!json_object_is_type(value, json_type_string))
        return false;
    *text = json_object_get_string(value);
    return strlen(*text) == (size_t)json_object_get_string_len(value); /* no NUL in it */
}

static bool control_take_flag(struct json_object *value, bool *flag)
{
    *flag = json_object_get_boolean(value);
    return json_object_is_type(value, json_type_boolean);
}

/* 32 hexadecimal digits, not all 0: the service takes zeroes as no id. */
static bool control_take_request_id(struct json_object *value, struct values *values)
{
    static const char digits[] = "0123456789abcdef";
    const char *text;

    if (!control_take_text(value, &text) || strlen(text) != 2 * VAAI_NAS_REQUEST_ID_SIZE ||
        strspn(text, digits) != strlen(text) || strspn(text, "0") == strlen(text))
        return false;
    for (size_t i = 0; i < VAAI_NAS_REQUEST_ID_SIZE; i++)
        values->request_id[i] =
            (uint8_t)((strchr(digits, text[2 * i]) - digits) << 4 | (strchr(digits, text[2 * i + 1]) - digits));
    return true;
}

static bool control_take(const char *name, struct json_object *value, struct values *values)
{
    if (strcmp(name, "export") == 0)
        return control_take_number(value, 0, UINT16_MAX, &values->export);
    if (strcmp(name, "job") == 0)
        return control_take_number(value, 1, INT64_MAX, &values->job);
    if (strcmp(name, "limit") == 0)
        return control_take_number(value, 1, VMDK_LIST_MAX, &values->limit);
    if (strcmp(name, "path") == 0)
        return control_take_text(value, &values->path);
    if (strcmp(name, "after") == 0)
        return control_take_text(value, &values->after);
    if (strcmp(name, "source") == 0)
        return control_take_text(value, &values->source);
    if (strcmp(name, "destination") == 0)
        return control_take_text(value, &values->destination);
    if (strcmp(name, "fast") == 0)
        return control_take_flag(value, &values->fast);
    if (strcmp(name, "restart") == 0)
        return control_take_flag(value, &values->restart);
    return strcmp(name, "request_id") == 0 && control_take_request_id(value, values);
}

/* `names` are a method's parameters, followed by NULL; the first `needed` are required. */
static bool control_read_parameters(struct json_object *parameters, const char *const *names, size_t needed,
                                    struct values *values, struct control_failure *failure)
{
    struct json_object *value;
    int known = 0;

    *values = (struct values){.after = "", .limit = 100};
    for (size_t i = 0; names[i] != NULL; i++) {
        const bool present = json_object_object_get_ex(parameters, names[i], &value);
        known += present;
        if (present ? control_take(names[i], value, values) : i >= needed)
            continue;
        failure->field = names[i];
        snprintf(failure->reason, sizeof(failure->reason), "%s: %s", names[i], present ? "is not valid" : "is missing");
        return false;
    }
    if (json_object_object_length(parameters) == known)
        return true;
    snprintf(failure->reason, sizeof(failure->reason), "the method does not support one of the parameters");
    return false;
}

static void *control_refused(struct control_failure *failure, enum vaai_nas_status status, const char *field)
{
    failure->status = status;
    failure->field = field;
    if (failure->reason[0] == 0 && status == VAAI_NAS_BUSY)
        strcpy(failure->reason, "too many requests wait for files of this datastore: its pool may hang. Try again later");
    if (failure->reason[0] == 0)
        snprintf(failure->reason, sizeof(failure->reason), "%s%s%s", field != NULL ? field : "", field != NULL ? ": " : "",
                 vaai_nas_status_name(status));
    return NULL;
}

static void control_add_bytes(struct json_object *object, const char *name, uint64_t bytes)
{
    json_object_object_add(object, name, json_object_new_uint64(bytes));
}

struct json_object *control_files_list(struct vaai_nas_service *service, struct json_object *parameters,
                                       struct control_failure *failure)
{
    static const char *const names[] = {"export", "after", "limit", NULL};
    struct values values;

    if (!control_read_parameters(parameters, names, 1, &values, failure))
        return NULL;
    struct vmdk_list *list = malloc(sizeof(*list));
    if (list == NULL)
        return control_refused(failure, VAAI_NAS_FAULT, NULL);
    const enum vaai_nas_status status = vaai_nas_list_files(service, (uint16_t)values.export, values.after, values.limit, list);
    struct json_object *result = NULL;
    if (status == VAAI_NAS_OK) {
        struct json_object *files = json_object_new_array();
        for (size_t i = 0; i < list->count; i++) {
            struct json_object *file = json_object_new_object();
            json_object_object_add(file, "path", json_object_new_string(list->file[i].path));
            control_add_bytes(file, "total_bytes", list->file[i].total_bytes);
            control_add_bytes(file, "allocated_bytes", list->file[i].allocated_bytes);
            json_object_array_add(files, file);
        }
        result = json_object_new_object();
        json_object_object_add(result, "files", files);
        json_object_object_add(result, "more", json_object_new_boolean(list->more));
        json_object_object_add(result, "complete", json_object_new_boolean(!list->incomplete));
    } else {
        control_refused(failure, status, "export");
    }
    vmdk_list_free(list);
    free(list);
    return result;
}

struct json_object *control_file_statistics(struct vaai_nas_service *service, struct json_object *parameters,
                                            struct control_failure *failure)
{
    static const char *const names[] = {"export", "path", NULL};
    struct fileops_statistics statistics;
    struct values values;

    if (!control_read_parameters(parameters, names, 2, &values, failure))
        return NULL;
    const enum vaai_nas_status status = vaai_nas_get_file_statistics(service, (uint16_t)values.export, values.path, &statistics);
    if (status != VAAI_NAS_OK)
        return control_refused(failure, status, "path");
    struct json_object *result = json_object_new_object();
    control_add_bytes(result, "total_bytes", statistics.total);
    control_add_bytes(result, "allocated_bytes", statistics.allocated);
    control_add_bytes(result, "unique_bytes", statistics.unique);
    json_object_object_add(result, "unique_exact", json_object_new_boolean(statistics.unique_exact));
    control_add_bytes(result, "snapshot_bytes", statistics.snapshot);
    control_add_bytes(result, "deduplicated_bytes", statistics.deduplicated);
    control_add_bytes(result, "as_of", statistics.as_of);
    return result;
}

struct json_object *control_space_get(struct vaai_nas_service *service, struct json_object *parameters,
                                      struct control_failure *failure)
{
    static const char *const names[] = {"export", NULL};
    struct fileops_dataset_status space;
    struct values values;

    if (!control_read_parameters(parameters, names, 1, &values, failure))
        return NULL;
    const enum vaai_nas_status status = vaai_nas_get_space(service, (uint16_t)values.export, &space);
    if (status != VAAI_NAS_OK)
        return control_refused(failure, status, "export");
    struct json_object *result = json_object_new_object();
    json_object_object_add(result, "thick", json_object_new_boolean(space.thick));
    control_add_bytes(result, "size_bytes", space.size);
    control_add_bytes(result, "admitted_bytes", space.admitted);
    json_object_object_add(result, "counting", json_object_new_boolean(space.counting));
    json_object_object_add(result, "problem", json_object_new_string(space.problem));
    return result;
}

struct json_object *control_space_shared(struct vaai_nas_service *service, struct json_object *parameters,
                                         struct control_failure *failure)
{
    static const char *const names[] = {"export", "restart", NULL};
    struct fileops_dataset_shared shared;
    struct values values;

    if (!control_read_parameters(parameters, names, 2, &values, failure))
        return NULL;
    const enum vaai_nas_status status = vaai_nas_get_shared(service, (uint16_t)values.export, values.restart, &shared);
    if (status == VAAI_NAS_NOT_SUPPORTED)
        strcpy(failure->reason, "the kernel module zvol_clone is not loaded, or does not fit this OpenZFS: "
                                "apt install zvaai-zvol-clone-dkms; systemctl restart zvol_clone");
    if (status != VAAI_NAS_OK)
        return control_refused(failure, status, "export");
    struct json_object *result = json_object_new_object();
    json_object_object_add(result, "complete", json_object_new_boolean(shared.complete));
    control_add_bytes(result, "shared_bytes", shared.shared);
    control_add_bytes(result, "deduplicated_bytes", shared.deduplicated);
    return result;
}

static struct json_object *control_shown_job(const struct vaai_nas_job *job)
{
    static const char *const states[] = {"waiting", "running", "complete", "failed"};
    struct json_object *result = json_object_new_object(), *fallback = json_object_new_object();

    control_add_bytes(result, "job", job->id);
    json_object_object_add(result, "state", json_object_new_string(states[job->state]));
    json_object_object_add(result, "status", json_object_new_string(vaai_nas_status_name(job->status)));
    json_object_object_add(result, "reason", json_object_new_string(job->reason));
    control_add_bytes(result, "total_bytes", job->total_bytes);
    control_add_bytes(result, "done_bytes", job->done_bytes);
    control_add_bytes(result, "cloned_bytes", job->cloned_bytes);
    control_add_bytes(result, "copied_bytes", job->copied_bytes);
    control_add_bytes(result, "hole_bytes", job->hole_bytes);
    for (size_t i = 0; i < FILEOPS_FALLBACK_COUNT; i++)
        control_add_bytes(fallback, fileops_fallback_name((enum fileops_fallback)i), job->fallback_bytes[i]);
    json_object_object_add(result, "fallback_bytes", fallback);
    return result;
}

struct json_object *control_clone_start(struct vaai_nas_service *service, struct json_object *parameters,
                                        struct control_failure *failure)
{
    static const char *const names[] = {"export", "source", "destination", "request_id", "fast", NULL};
    struct vaai_nas_job job;
    struct values values;
    const char *field;

    if (!control_read_parameters(parameters, names, 4, &values, failure))
        return NULL;
    struct vaai_nas_file_clone clone = {
        .export_id = (uint16_t)values.export, .source = values.source, .destination = values.destination, .fast = values.fast};
    memcpy(clone.request_id, values.request_id, sizeof(clone.request_id));
    const enum vaai_nas_status status = vaai_nas_start_file_clone(service, &clone, &job, &field, failure->reason);
    return status == VAAI_NAS_OK ? control_shown_job(&job) : control_refused(failure, status, field);
}

typedef enum vaai_nas_status job_call(struct vaai_nas_service *service, uint16_t export_id, uint64_t id,
                                      struct vaai_nas_job *job);

static struct json_object *control_call_of_job(struct vaai_nas_service *service, struct json_object *parameters, job_call *call,
                                               struct control_failure *failure)
{
    static const char *const names[] = {"export", "job", NULL};
    struct vaai_nas_job job;
    struct values values;

    if (!control_read_parameters(parameters, names, 2, &values, failure))
        return NULL;
    const enum vaai_nas_status status = call(service, (uint16_t)values.export, values.job, &job);
    return status == VAAI_NAS_OK ? control_shown_job(&job) : control_refused(failure, status, "job");
}

struct json_object *control_job_get(struct vaai_nas_service *service, struct json_object *parameters,
                                    struct control_failure *failure)
{
    return control_call_of_job(service, parameters, vaai_nas_get_file_job, failure);
}

struct json_object *control_job_cancel(struct vaai_nas_service *service, struct json_object *parameters,
                                       struct control_failure *failure)
{
    return control_call_of_job(service, parameters, vaai_nas_cancel_file_job, failure);
}
