/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Calls of NFSv3 procedure 22 as bytes, one after the other. */
#include <string.h>

#include "../vaai_nas/procedure22.h"
#include "fake_server.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

/* A decoded call encodes to the same bytes. */
static void check_request(const struct procedure22_request *request)
{
    uint8_t bytes[PROCEDURE22_ENCODED_ARGUMENTS_MAX];
    struct procedure22_request again;
    size_t length = procedure22_encode_request(request, bytes);

    must(length <= sizeof(bytes), "a request has a bound");
    must(procedure22_decode_request(bytes, length, &again) == PROCEDURE22_GOOD, "an encoded request can be decoded");
    must(memcmp(&again, request, sizeof(again)) == 0, "a decoded request is equal");
}

static bool is_directory(const struct procedure22_handle *handle)
{
    return handle->length == 1 && handle->bytes[0] >= 200;
}

static void check_result(const struct procedure22_request *request, const struct procedure22_result *result)
{
    uint8_t bytes[PROCEDURE22_ENCODED_RESULT_SIZE];
    struct procedure22_result again;

    procedure22_encode_result(result, bytes);
    must(procedure22_decode_result(bytes, sizeof(bytes), &again), "a result has the form that plug-ins expect");
    must(memcmp(&again, result, sizeof(again)) == 0, "a decoded result is equal");
    must(result->version == PROCEDURE22_VERSION && result->command == request->command, "the result belongs to the command");
    must(result->status == 0 || result->result != PROCEDURE22_NOT_SUPPORTED, "\"not supported\" is not a failure");
}

/* Forbidden values in the result of a valid call. */
static void check_values(const struct procedure22_request *request, const struct procedure22_result *result)
{
    if (request->command == PROCEDURE22_RESERVE_SUPPORTED && result->status == 0)
        must(result->result == 0, "reservations are always supported");
    if (request->command == PROCEDURE22_RESERVE_SPACE)
        must(result->status != 10004, "a reservation is never refused with NFS3ERR_NOTSUPP");
    if (request->command == PROCEDURE22_CLONE_FILE && result->status == 0 && is_directory(&request->destination))
        must(result->clone_flag == PROCEDURE22_COMPLETE, "a clone by name is complete when that is said");
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct vaai_nas_service *service = fake_service_begin();
    struct procedure22_request request;
    struct procedure22_result result;
    const uint8_t *call;
    size_t length;

    while (next_call(&input, &size, &call, &length)) {
        enum procedure22_fault fault = procedure22_decode_request(call, length, &request);
        if (fault == PROCEDURE22_NO_XDR) /* GARBAGE_ARGS: the service is not called */
            continue;
        if (fault == PROCEDURE22_GOOD)
            check_request(&request);
        vaai_nas_procedure22_serve(service, &fake_caller, &request, fault, &result);
        check_result(&request, &result);
        if (fault == PROCEDURE22_GOOD)
            check_values(&request, &result);
    }
    fake_service_end(service);
    return 0;
}
