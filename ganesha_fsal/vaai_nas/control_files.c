/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Files and their clones, asked for by the control socket. */
#include "control_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the methods may be asked. Nothing is taken for what it is not. */
struct asked {
    const char *path, *after, *source, *destination;
    uint64_t export, job, limit;
    bool fast, restart;
    uint8_t request_id[VAAI_NAS_REQUEST_ID_SIZE];
};

static bool take_number(struct json_object *value, uint64_t least, uint64_t most, uint64_t *number)
{
    if (!json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
        return false;
    *number = json_object_get_uint64(value);
    return *number >= least && *number <= most;
}

static bool take_text(struct json_object *value, const char **text)
{
    if (!json_object_is_type(value, json_type_string))
        return false;
    *text = json_object_get_string(value);
    return strlen(*text) == (size_t)json_object_get_string_len(value); /* no NUL in it */
}

static bool take_flag(struct json_object *value, bool *flag)
{
    *flag = json_object_get_boolean(value);
    return json_object_is_type(value, json_type_boolean);
}

/* 32 hexadecimal digits, not all of them 0: that is none to the service. */
static bool take_request_id(struct json_object *value, struct asked *asked)
{
    static const char digits[] = "0123456789abcdef";
    const char *text;

    if (!take_text(value, &text) || strlen(text) != 2 * VAAI_NAS_REQUEST_ID_SIZE || strspn(text, digits) != strlen(text) ||
        strspn(text, "0") == strlen(text))
        return false;
    for (size_t i = 0; i < VAAI_NAS_REQUEST_ID_SIZE; i++)
        asked->request_id[i] = (uint8_t)((strchr(digits, text[2 * i]) - digits) << 4 | (strchr(digits, text[2 * i + 1]) - digits));
    return true;
}

static bool take(const char *name, struct json_object *value, struct asked *asked)
{
    if (strcmp(name, "export") == 0)
        return take_number(value, 0, UINT16_MAX, &asked->export);
    if (strcmp(name, "job") == 0)
        return take_number(value, 1, INT64_MAX, &asked->job);
    if (strcmp(name, "limit") == 0)
        return take_number(value, 1, VMDK_LIST_MAX, &asked->limit);
    if (strcmp(name, "path") == 0)
        return take_text(value, &asked->path);
    if (strcmp(name, "after") == 0)
        return take_text(value, &asked->after);
    if (strcmp(name, "source") == 0)
        return take_text(value, &asked->source);
    if (strcmp(name, "destination") == 0)
        return take_text(value, &asked->destination);
    if (strcmp(name, "fast") == 0)
        return take_flag(value, &asked->fast);
    if (strcmp(name, "restart") == 0)
        return take_flag(value, &asked->restart);
    return strcmp(name, "request_id") == 0 && take_request_id(value, asked);
}

/* `names` are those that a method has, NULL behind; the first `needed` have to be there. */
static bool read_parameters(struct json_object *parameters, const char *const *names, size_t needed, struct asked *asked,
                            struct control_failure *failure)
{
    struct json_object *value;
    int known = 0;

    *asked = (struct asked){.after = "", .limit = 100};
    for (size_t i = 0; names[i] != NULL; i++) {
        const bool there = json_object_object_get_ex(parameters, names[i], &value);
        known += there;
        if (there ? take(names[i], value, asked) : i >= needed)
            continue;
        failure->field = names[i];
        snprintf(failure->reason, sizeof(failure->reason), "%s: %s", names[i], there ? "not what it should be" : "is missing");
        return false;
    }
    if (json_object_object_length(parameters) == known)
        return true;
    snprintf(failure->reason, sizeof(failure->reason), "there is a parameter that the method does not have");
    return false;
}

static void *refused(struct control_failure *failure, enum vaai_nas_status status, const char *field)
{
    failure->status = status;
    failure->field = field;
    if (failure->reason[0] == 0)
        snprintf(failure->reason, sizeof(failure->reason), "%s%s%s", field != NULL ? field : "", field != NULL ? ": " : "",
                 vaai_nas_status_name(status));
    return NULL;
}

static void add_bytes(struct json_object *object, const char *name, uint64_t bytes)
{
    json_object_object_add(object, name, json_object_new_uint64(bytes));
}

struct json_object *control_files_list(struct vaai_nas_service *service, struct json_object *parameters,
                                       struct control_failure *failure)
{
    static const char *const names[] = {"export", "after", "limit", NULL};
    struct asked asked;

    if (!read_parameters(parameters, names, 1, &asked, failure))
        return NULL;
    struct vmdk_list *list = malloc(sizeof(*list));
    if (list == NULL)
        return refused(failure, VAAI_NAS_FAULT, NULL);
    const enum vaai_nas_status status = vaai_nas_list_files(service, (uint16_t)asked.export, asked.after, asked.limit, list);
    struct json_object *result = NULL;
    if (status == VAAI_NAS_OK) {
        struct json_object *files = json_object_new_array();
        for (size_t i = 0; i < list->count; i++) {
            struct json_object *file = json_object_new_object();
            json_object_object_add(file, "path", json_object_new_string(list->file[i].path));
            add_bytes(file, "total_bytes", list->file[i].total_bytes);
            add_bytes(file, "allocated_bytes", list->file[i].allocated_bytes);
            json_object_array_add(files, file);
        }
        result = json_object_new_object();
        json_object_object_add(result, "files", files);
        json_object_object_add(result, "more", json_object_new_boolean(list->more));
        json_object_object_add(result, "complete", json_object_new_boolean(!list->incomplete));
    } else {
        refused(failure, status, "export");
    }
    vmdk_list_free(list);
    free(list);
    return result;
}

struct json_object *control_file_statistics(struct vaai_nas_service *service, struct json_object *parameters,
                                            struct control_failure *failure)
{
    static const char *const names[] = {"export", "path", NULL};
    struct vaai_nas_statistics statistics;
    struct asked asked;

    if (!read_parameters(parameters, names, 2, &asked, failure))
        return NULL;
    const enum vaai_nas_status status = vaai_nas_get_file_statistics(service, (uint16_t)asked.export, asked.path, &statistics);
    if (status != VAAI_NAS_OK)
        return refused(failure, status, "path");
    struct json_object *result = json_object_new_object();
    add_bytes(result, "total_bytes", statistics.total_bytes);
    add_bytes(result, "allocated_bytes", statistics.allocated_bytes);
    add_bytes(result, "unique_bytes", statistics.unique_bytes);
    json_object_object_add(result, "unique_exact", json_object_new_boolean(statistics.unique_exact));
    add_bytes(result, "snapshot_bytes", statistics.snapshot_bytes);
    add_bytes(result, "deduplicated_bytes", statistics.deduplicated_bytes);
    add_bytes(result, "reserved_bytes", statistics.reserved_bytes);
    add_bytes(result, "as_of", statistics.as_of);
    return result;
}

struct json_object *control_space_get(struct vaai_nas_service *service, struct json_object *parameters, struct control_failure *failure)
{
    static const char *const names[] = {"export", NULL};
    struct fileops_dataset_status space;
    struct asked asked;

    if (!read_parameters(parameters, names, 1, &asked, failure))
        return NULL;
    const enum vaai_nas_status status = vaai_nas_get_space(service, (uint16_t)asked.export, &space);
    if (status != VAAI_NAS_OK)
        return refused(failure, status, "export");
    struct json_object *result = json_object_new_object();
    json_object_object_add(result, "thick", json_object_new_boolean(space.thick));
    add_bytes(result, "size_bytes", space.size);
    add_bytes(result, "admitted_bytes", space.admitted);
    json_object_object_add(result, "counting", json_object_new_boolean(space.counting));
    json_object_object_add(result, "problem", json_object_new_string(space.problem));
    return result;
}

struct json_object *control_space_shared(struct vaai_nas_service *service, struct json_object *parameters, struct control_failure *failure)
{
    static const char *const names[] = {"export", "restart", NULL};
    struct fileops_dataset_shared shared;
    struct asked asked;

    if (!read_parameters(parameters, names, 2, &asked, failure))
        return NULL;
    const enum vaai_nas_status status = vaai_nas_get_shared(service, (uint16_t)asked.export, asked.restart, &shared);
    if (status != VAAI_NAS_OK)
        return refused(failure, status, "export");
    struct json_object *result = json_object_new_object();
    json_object_object_add(result, "complete", json_object_new_boolean(shared.complete));
    add_bytes(result, "shared_bytes", shared.shared);
    add_bytes(result, "snapshot_bytes", shared.snapshot);
    add_bytes(result, "deduplicated_bytes", shared.deduplicated);
    add_bytes(result, "as_of", shared.as_of);
    return result;
}

static struct json_object *shown_job(const struct vaai_nas_job *job)
{
    static const char *const states[] = {"waiting", "running", "complete", "failed"};
    struct json_object *result = json_object_new_object(), *fallback = json_object_new_object();

    add_bytes(result, "job", job->id);
    json_object_object_add(result, "state", json_object_new_string(states[job->state]));
    json_object_object_add(result, "status", json_object_new_string(vaai_nas_status_name(job->status)));
    json_object_object_add(result, "reason", json_object_new_string(job->reason));
    add_bytes(result, "total_bytes", job->total_bytes);
    add_bytes(result, "done_bytes", job->done_bytes);
    add_bytes(result, "cloned_bytes", job->cloned_bytes);
    add_bytes(result, "copied_bytes", job->copied_bytes);
    add_bytes(result, "hole_bytes", job->hole_bytes);
    for (size_t i = 0; i < FILEOPS_FALLBACK_COUNT; i++)
        add_bytes(fallback, fileops_fallback_name((enum fileops_fallback)i), job->fallback_bytes[i]);
    json_object_object_add(result, "fallback_bytes", fallback);
    add_bytes(result, "elapsed_milliseconds", job->elapsed_milliseconds);
    return result;
}

struct json_object *control_clone_start(struct vaai_nas_service *service, struct json_object *parameters,
                                        struct control_failure *failure)
{
    static const char *const names[] = {"export", "source", "destination", "request_id", "fast", NULL};
    struct vaai_nas_job job;
    struct asked asked;
    const char *field;

    if (!read_parameters(parameters, names, 4, &asked, failure))
        return NULL;
    struct vaai_nas_file_clone clone = {.export_id = (uint16_t)asked.export,
                                        .source = asked.source,
                                        .destination = asked.destination,
                                        .fast = asked.fast};
    memcpy(clone.request_id, asked.request_id, sizeof(clone.request_id));
    const enum vaai_nas_status status = vaai_nas_start_file_clone(service, &clone, &job, &field, failure->reason);
    return status == VAAI_NAS_OK ? shown_job(&job) : refused(failure, status, field);
}

typedef enum vaai_nas_status about_job(struct vaai_nas_service *service, uint16_t export_id, uint64_t id, struct vaai_nas_job *job);

static struct json_object *ask_about_job(struct vaai_nas_service *service, struct json_object *parameters, about_job *ask,
                                         struct control_failure *failure)
{
    static const char *const names[] = {"export", "job", NULL};
    struct vaai_nas_job job;
    struct asked asked;

    if (!read_parameters(parameters, names, 2, &asked, failure))
        return NULL;
    const enum vaai_nas_status status = ask(service, (uint16_t)asked.export, asked.job, &job);
    return status == VAAI_NAS_OK ? shown_job(&job) : refused(failure, status, "job");
}

struct json_object *control_job_get(struct vaai_nas_service *service, struct json_object *parameters, struct control_failure *failure)
{
    return ask_about_job(service, parameters, vaai_nas_get_file_job, failure);
}

struct json_object *control_job_cancel(struct vaai_nas_service *service, struct json_object *parameters,
                                       struct control_failure *failure)
{
    return ask_about_job(service, parameters, vaai_nas_cancel_file_job, failure);
}
