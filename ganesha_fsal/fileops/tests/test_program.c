/* Programs that do not end, not even by SIGKILL: whoever is traced stays until its tracer has looked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "program.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char output[256], errors[256];

static int run(const char *subject, const char *script, double seconds)
{
    return fileops_program_run(subject, (const char *const[]){"sh", "-c", script, NULL}, seconds, output, sizeof output, errors, sizeof errors);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void tells_output_and_exit(void **state)
{
    (void)state;
    assert_int_equal(run("a", "echo out; echo err >&2", 5), 0);
    assert_string_equal(output, "out\n");
    assert_string_equal(errors, "err\n");
    assert_int_equal(run("a", "exit 3", 5), EREMOTEIO);
    assert_int_equal(fileops_program_run("a", (const char *const[]){"no-such-program", NULL}, 5, output, sizeof output, errors, sizeof errors), ENOENT);
}

static void kills_what_takes_too_long(void **state)
{
    (void)state;
    const double begin = now();
    assert_int_equal(run("a", "exec sleep 60", 0.2), ETIMEDOUT);
    /* Also one that has closed its outputs. */
    assert_int_equal(run("a", "exec >&- 2>&-; exec sleep 60", 0.2), ETIMEDOUT);
    assert_true(now() - begin < 10);
    assert_int_equal(run("a", "true", 5), 0);
}

/* A tracer that seizes the process whose number it reads, and does nothing more. */
static pid_t start_tracer(const char *fifo)
{
    const pid_t tracer = fork();
    if (tracer == 0) {
        int number = 0;
        FILE *file = fopen(fifo, "r");
        if (!file || fscanf(file, "%d", &number) != 1 || ptrace(PTRACE_SEIZE, number, NULL, NULL))
            _exit(1);
        pause();
    }
    return tracer;
}

static void one_that_hangs_is_the_only_one(void **state)
{
    (void)state;
    const char *folder = getenv("TMPDIR");
    char fifo[256], script[320];
    snprintf(fifo, sizeof fifo, "%s/fileops-program-%d", folder && folder[0] ? folder : "/tmp", (int)getpid());
    snprintf(script, sizeof script, "mkfifo %s", fifo);
    assert_int_equal(run("a", script, 5), 0);
    const pid_t tracer = start_tracer(fifo);
    snprintf(script, sizeof script, "echo $$ >%s; exec sleep 60", fifo);
    assert_int_equal(run("a", script, 1), ETIMEDOUT);
    assert_int_equal(waitpid(tracer, NULL, WNOHANG), 0);
    /* None other of its kind is begun, and nobody waits. */
    const double begin = now();
    snprintf(script, sizeof script, "rm %s", fifo);
    for (int i = 0; i < 10; i++)
        assert_int_equal(run("a", script, 5), ETIMEDOUT);
    assert_true(now() - begin < 1);
    assert_int_equal(access(fifo, F_OK), 0);
    assert_int_equal(run("b", "true", 5), 0);
    kill(tracer, SIGKILL);
    assert_int_equal(waitpid(tracer, NULL, 0), tracer);
    int error = ETIMEDOUT;
    while (error == ETIMEDOUT && now() - begin < 10)
        error = run("a", script, 5);
    assert_int_equal(error, 0);
    assert_int_not_equal(access(fifo, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_output_and_exit),
        cmocka_unit_test(kills_what_takes_too_long),
        cmocka_unit_test(one_that_hangs_is_the_only_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
