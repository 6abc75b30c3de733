/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* JSON-RPC 2.0: calls the requested method and makes the response. */
#include "control_internal.h"

#include <string.h>

#define REQUEST_DEPTH_MAX 8

/* JSON-RPC 2.0, 5.1; REFUSED is of those that servers define. */
enum { NO_JSON = -32700, NO_REQUEST = -32600, NO_METHOD = -32601, WRONG_PARAMETERS = -32602, REFUSED = -32000 };

static struct json_object *control_statistics_get(struct vaai_nas_service *service, struct json_object *parameters,
                                                  struct control_failure *failure)
{
    if (json_object_object_length(parameters) == 0)
        return control_statistics(service);
    strcpy(failure->reason, "statistics.get has no parameters");
    return NULL;
}

static struct json_object *control_service_get(struct vaai_nas_service *service, struct json_object *parameters,
                                               struct control_failure *failure)
{
    char problem[VAAI_NAS_REASON_SIZE];

    if (json_object_object_length(parameters) != 0) {
        strcpy(failure->reason, "service.get has no parameters");
        return NULL;
    }
    vaai_nas_service_problem(service, problem);
    struct json_object *result = json_object_new_object();
    json_object_object_add(result, "problem", json_object_new_string(problem));
    return result;
}

static const struct method {
    const char *name;
    control_method *serve;
} methods[] = {
    {"service.get", control_service_get}, {"statistics.get", control_statistics_get},
    {"files.list", control_files_list},   {"file.statistics", control_file_statistics},
    {"space.get", control_space_get},     {"space.shared", control_space_shared},
    {"clone.start", control_clone_start}, {"job.get", control_job_get},
    {"job.cancel", control_job_cancel},
};

static struct json_object *control_error_response(int code, const char *message)
{
    struct json_object *response = json_object_new_object(), *error = json_object_new_object();

    json_object_object_add(error, "code", json_object_new_int(code));
    json_object_object_add(error, "message", json_object_new_string(message));
    json_object_object_add(response, "error", error);
    return response;
}

static struct json_object *control_failure_response(const struct control_failure *failure)
{
    const bool wrong = failure->status == VAAI_NAS_OK;
    struct json_object *response = control_error_response(wrong ? WRONG_PARAMETERS : REFUSED, failure->reason);
    struct json_object *data = json_object_new_object();

    json_object_object_add(data, "status",
                           json_object_new_string(vaai_nas_status_name(wrong ? VAAI_NAS_INVALID : failure->status)));
    json_object_object_add(data, "field", failure->field != NULL ? json_object_new_string(failure->field) : NULL);
    json_object_object_add(json_object_object_get(response, "error"), "data", data);
    return response;
}

static const struct method *control_find_method(const char *name)
{
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (strcmp(methods[i].name, name) == 0)
            return &methods[i];
    return NULL;
}

static struct json_object *control_call(struct vaai_nas_service *service, const struct method *method,
                                        struct json_object *parameters)
{
    struct control_failure failure = {.status = VAAI_NAS_OK};
    struct json_object *result = method->serve(service, parameters, &failure);

    if (result == NULL)
        return control_failure_response(&failure);
    struct json_object *response = json_object_new_object();
    json_object_object_add(response, "result", result);
    return response;
}

static struct json_object *control_answer(struct vaai_nas_service *service, struct json_object *request)
{
    struct json_object *version, *name, *parameters;

    if (!json_object_is_type(request, json_type_object) || !json_object_object_get_ex(request, "jsonrpc", &version) ||
        !json_object_is_type(version, json_type_string) || strcmp(json_object_get_string(version), "2.0") != 0 ||
        !json_object_object_get_ex(request, "method", &name) || !json_object_is_type(name, json_type_string))
        return control_error_response(NO_REQUEST, "this is not a request of JSON-RPC 2.0");
    const struct method *method = control_find_method(json_object_get_string(name));
    if (method == NULL)
        return control_error_response(NO_METHOD, "the method does not exist");
    if (!json_object_object_get_ex(request, "params", &parameters)) {
        parameters = json_object_new_object();
        struct json_object *response = control_call(service, method, parameters);
        json_object_put(parameters);
        return response;
    }
    if (!json_object_is_type(parameters, json_type_object))
        return control_error_response(WRONG_PARAMETERS, "parameters must be an object");
    return control_call(service, method, parameters);
}

struct json_object *vaai_nas_control_answer(struct vaai_nas_service *service, const char *line, size_t length)
{
    struct json_tokener *tokener = json_tokener_new_ex(REQUEST_DEPTH_MAX);
    if (tokener != NULL)
        json_tokener_set_flags(tokener, JSON_TOKENER_STRICT); /* also refuses data after the message */
    struct json_object *request = tokener == NULL ? NULL : json_tokener_parse_ex(tokener, line, (int)length);
    bool parsed = tokener != NULL && json_tokener_get_error(tokener) == json_tokener_success;
    struct json_object *response =
        parsed ? control_answer(service, request) : control_error_response(NO_JSON, "the message is not JSON");
    struct json_object *id = NULL;

    if (parsed && json_object_is_type(request, json_type_object))
        json_object_object_get_ex(request, "id", &id);
    json_object_object_add(response, "jsonrpc", json_object_new_string("2.0"));
    json_object_object_add(response, "id", json_object_get(id));
    json_object_put(request);
    if (tokener != NULL)
        json_tokener_free(tokener);
    return response;
}
