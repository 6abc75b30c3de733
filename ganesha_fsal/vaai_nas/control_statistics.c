/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* The counters as JSON. */
#include "control_internal.h"

static struct json_object *control_latency(const struct vaai_nas_operation_counters *of)
{
    struct json_object *object = json_object_new_object(), *counts = json_object_new_array();
    size_t used = VAAI_NAS_LATENCY_BUCKETS;

    while (used > 0 && of->latency[used - 1] == 0)
        used--;
    for (size_t i = 0; i < used; i++)
        json_object_array_add(counts, json_object_new_uint64(of->latency[i]));
    json_object_object_add(object, "total_microseconds", json_object_new_uint64(of->total_microseconds));
    json_object_object_add(object, "counts", counts);
    return object;
}

struct lists {
    struct json_object *exports, *hosts;
};

static void control_add_row(void *context, const char *host, const char *export_path, const struct vaai_nas_counter_set *set)
{
    struct lists *lists = context;
    struct json_object *row = json_object_new_object(), *bytes = json_object_new_object(), *fallback = json_object_new_object();

    if (host != NULL)
        json_object_object_add(row, "host", json_object_new_string(host));
    else
        json_object_object_add(row, "export", json_object_new_string(export_path));
    for (size_t i = 0; i < VAAI_NAS_OPERATION_COUNT; i++) {
        const struct vaai_nas_operation_counters *of = &set->operation[i];
        struct json_object *operation = json_object_new_object();
        json_object_object_add(operation, "operations", json_object_new_uint64(of->operations));
        json_object_object_add(operation, "errors", json_object_new_uint64(of->errors));
        json_object_object_add(operation, "refused", json_object_new_uint64(of->refused));
        json_object_object_add(operation, "bytes", json_object_new_uint64(of->bytes));
        json_object_object_add(operation, "latency", control_latency(of));
        json_object_object_add(row, vaai_nas_operation_name((enum vaai_nas_operation)i), operation);
    }
    json_object_object_add(bytes, "cloned_bytes", json_object_new_uint64(set->cloned_bytes));
    json_object_object_add(bytes, "copied_bytes", json_object_new_uint64(set->copied_bytes));
    json_object_object_add(bytes, "hole_bytes", json_object_new_uint64(set->hole_bytes));
    json_object_object_add(bytes, "reserved_bytes", json_object_new_uint64(set->reserved_bytes));
    for (size_t i = 0; i < FILEOPS_FALLBACK_COUNT; i++)
        json_object_object_add(fallback, fileops_fallback_name((enum fileops_fallback)i),
                               json_object_new_uint64(set->fallback_bytes[i]));
    json_object_object_add(bytes, "fallback_bytes", fallback);
    json_object_object_add(row, "offload", bytes);
    json_object_array_add(host != NULL ? lists->hosts : lists->exports, row);
}

struct json_object *control_statistics(struct vaai_nas_service *service)
{
    struct json_object *result = json_object_new_object(), *bounds = json_object_new_array();
    struct lists lists = {json_object_new_array(), json_object_new_array()};

    for (unsigned int i = 0; i + 1 < VAAI_NAS_LATENCY_BUCKETS; i++)
        json_object_array_add(bounds, json_object_new_uint64(1ull << i));
    vaai_nas_counters_each(vaai_nas_service_counters(service), control_add_row, &lists);
    json_object_object_add(result, "latency_bounds_microseconds", bounds);
    json_object_object_add(result, "exports", lists.exports);
    json_object_object_add(result, "hosts", lists.hosts);
    return result;
}
