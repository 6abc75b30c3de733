/* Other programs, run with a time limit. */
#ifndef FILEOPS_PROGRAM_H
#define FILEOPS_PROGRAM_H

#include <stddef.h>

/* Runs a program found in PATH (no shell), and waits for its end, `seconds` at most: then it is killed. `output` gets what it wrote
 * to standard output, with a NUL at its end, `errors` the same of standard error; what is longer is cut off.
 * One that does not end even so hangs in the kernel, as zfs(8) does with a pool that hangs. It is left behind, and no other is run
 * for the same `subject` (the pool's name) before it has ended: they would hang too.
 * Returns 0 for exit code 0, EREMOTEIO for another, ETIMEDOUT (at once while one is left behind), ENOENT when there is no such
 * program, or another errno value. */
int fileops_program_run(const char *subject, const char *const words[], double seconds, char *output, size_t output_size, char *errors,
                        size_t errors_size);

#endif
