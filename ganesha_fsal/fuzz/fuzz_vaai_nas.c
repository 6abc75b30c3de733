/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Door two: calls of vaai_nas.x, each a byte with the procedure and the bytes of its arguments, decoded by ntirpc's XDR as in ganesha. */
#include <stdlib.h>
#include <string.h>

#include "../vaai_nas/program.h"
#include "fake_server.h"

#define MESSAGE_BYTES_MAX (256u * 1024u) /* as program_server.c has it */

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static const struct vaai_nas_program_procedure *decode(const uint8_t *call, size_t length, union vaai_nas_program_arguments *arguments)
{
    const struct vaai_nas_program_procedure *procedure = length == 0 ? NULL : vaai_nas_program_procedure(call[0]);
    XDR stream;

    memset(arguments, 0, sizeof(*arguments));
    if (procedure == NULL)
        return NULL;
    char *bytes = malloc(length); /* of its own, for reading past the end to be seen */
    must(bytes != NULL, "there is memory");
    memcpy(bytes, call + 1, length - 1);
    xdrmem_ncreate(&stream, bytes, (u_int)(length - 1), XDR_DECODE);
    bool good = procedure->decode_arguments(&stream, arguments);
    XDR_DESTROY(&stream);
    free(bytes);
    if (good)
        return procedure;
    xdr_free(procedure->decode_arguments, arguments);
    return NULL;
}

/* Small numbers of jobs are those of this input: others nobody could guess. */
static void number_jobs(uint32_t number, union vaai_nas_program_arguments *arguments, uint64_t first)
{
    if (number == VAAI_NAS_PROC_JOB_STATUS && arguments->job.id < 16) {
        arguments->job.id += first;
        arguments->job.wait_milliseconds %= 10;
    } else if (number == VAAI_NAS_PROC_JOB_CANCEL && arguments->cancel.id != 0 && arguments->cancel.id < 16) {
        arguments->cancel.id += first;
    }
}

static void encode(const struct vaai_nas_program_procedure *procedure, union vaai_nas_program_results *results)
{
    static char bytes[MESSAGE_BYTES_MAX];
    union vaai_nas_program_results again;
    XDR stream;

    xdrmem_ncreate(&stream, bytes, sizeof(bytes), XDR_ENCODE);
    must(procedure->encode_results(&stream, results), "every result can be encoded, and fits into a message");
    u_int length = XDR_GETPOS(&stream);
    XDR_DESTROY(&stream);
    memset(&again, 0, sizeof(again));
    xdrmem_ncreate(&stream, bytes, length, XDR_DECODE);
    must(procedure->encode_results(&stream, &again), "and decoded");
    must(XDR_GETPOS(&stream) == length, "to its last byte");
    XDR_DESTROY(&stream);
    xdr_free(procedure->encode_results, &again);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct vaai_nas_service *service = fake_service_begin();
    union vaai_nas_program_arguments arguments;
    union vaai_nas_program_results results;
    uint64_t first = 0;
    const uint8_t *call;
    size_t length;

    while (next_call(&input, &size, &call, &length)) {
        const struct vaai_nas_program_procedure *procedure = decode(call, length, &arguments);
        if (procedure == NULL)
            continue;
        memset(&results, 0, sizeof(results));
        if (procedure->serve != NULL) {
            number_jobs(call[0], &arguments, first);
            procedure->serve(service, &fake_caller, &arguments, &results);
            encode(procedure, &results);
            if (call[0] == VAAI_NAS_PROC_CLONE && results.job.error == VAAI_ERROR_NONE && first == 0)
                first = results.job.vaai_job_result_u.job.id;
            xdr_free(procedure->encode_results, &results);
        }
        xdr_free(procedure->decode_arguments, &arguments);
    }
    fake_service_end(service);
    return 0;
}
