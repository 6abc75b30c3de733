/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Lines of the control socket. An @ in a line is replaced by the number of the first job. */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../vaai_nas/control.h"
#include "fake_server.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

/* A copy of exact size: the sanitizer detects reads past the end. */
static char *line_of(const uint8_t *call, size_t *length, uint64_t job)
{
    const uint8_t *place = memchr(call, '@', *length);
    char digits[24] = "";
    const size_t before = place == NULL ? *length : (size_t)(place - call), skipped = place != NULL;

    if (place != NULL)
        snprintf(digits, sizeof(digits), "%llu", (unsigned long long)job);
    char *line = malloc(*length - skipped + strlen(digits));
    must(line != NULL || *length == 0, "no memory");
    if (*length != 0) {
        memcpy(line, call, before);
        memcpy(line + before, digits, strlen(digits));
        memcpy(line + before + strlen(digits), call + before + skipped, *length - before - skipped);
    }
    *length += strlen(digits) - skipped;
    return line;
}

static void check(struct json_object *response, uint64_t *job)
{
    struct json_object *result = NULL, *error = NULL, *number, *version;
    const bool has_result = json_object_object_get_ex(response, "result", &result);
    const bool has_error = json_object_object_get_ex(response, "error", &error);
    const char *text = json_object_to_json_string_ext(response, JSON_C_TO_STRING_PLAIN);

    must(has_result != has_error, "a response has a result or an error");
    must(json_object_object_get_ex(response, "jsonrpc", &version) && json_object_object_get_ex(response, "id", NULL),
         "the text is a response");
    must(!has_error || json_object_object_get_ex(error, "message", NULL), "an error has a message");
    must(strchr(text, '\n') == NULL, "an answer is one line");
    if (*job == 0 && has_result && json_object_object_get_ex(result, "job", &number))
        *job = json_object_get_uint64(number);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct vaai_nas_service *service = fake_service_begin();
    const uint8_t *call;
    uint64_t job = 0;
    size_t length;

    while (next_call(&input, &size, &call, &length)) {
        char *line = line_of(call, &length, job);
        struct json_object *response = vaai_nas_control_answer(service, line, length);
        check(response, &job);
        json_object_put(response);
        free(line);
    }
    fake_service_end(service);
    return 0;
}
