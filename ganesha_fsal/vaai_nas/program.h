/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef VAAI_NAS_PROGRAM_H
#define VAAI_NAS_PROGRAM_H

#include <rpc/rpc.h>

#include "service.h"
#include "vaai_nas.h" /* generated from vaai_nas.x */

/* Door two: the procedures of vaai_nas.x, on decoded arguments. Knows no transport. */

/* Room for the arguments or the results of any procedure. */
union vaai_nas_program_arguments {
    vaai_file_handle handle;
    vaai_clone_arguments clone;
    vaai_job_arguments job;
    vaai_cancel_arguments cancel;
};

union vaai_nas_program_results {
    vaai_capabilities_result capabilities;
    vaai_job_result job;
    vaai_jobs_result jobs;
    vaai_statistics_result statistics;
};

struct vaai_nas_program_procedure {
    xdrproc_t decode_arguments;
    xdrproc_t encode_results;
    /* Sets the results; the strings and lists in them are of malloc() and freed by encode_results with XDR_FREE. */
    void (*serve)(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                  const union vaai_nas_program_arguments *arguments, union vaai_nas_program_results *results);
};

/* NULL for a number that is none. */
const struct vaai_nas_program_procedure *vaai_nas_program_procedure(uint32_t number);

#endif
