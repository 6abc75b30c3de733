/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Peers that get a response on the control socket, and when. Tests decide when the daemon is up and when it ends. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "../control_socket.h"

#define LIST "{\"jsonrpc\":\"2.0\",\"method\":\"files.list\",\"params\":{\"export\":1}}\n"
#define STATISTICS "{\"jsonrpc\":\"2.0\",\"method\":\"statistics.get\"}\n"

static char place[256];
static struct vaai_nas_service *service;
static bool is_up, is_ending;
static bool ends_meanwhile; /* at the next lookup */
static unsigned int lookups; /* for an export */
static const char *swapped;  /* replaces the socket's name as soon as it exists */

int __real_bind(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length)
{
    const int failed = __real_bind(fd, address, length);
    const char *path = ((const struct sockaddr_un *)(const void *)address)->sun_path;

    if (swapped != NULL) {
        unlink(path);
        assert_int_equal(symlink(swapped, path), 0);
    }
    return failed;
}

static enum vaai_nas_status fake_find(uint16_t export_id, const char *path, struct vaai_nas_handle *handle)
{
    (void)export_id;
    (void)path;
    (void)handle;
    __atomic_add_fetch(&lookups, 1, __ATOMIC_SEQ_CST);
    if (ends_meanwhile)
        __atomic_store_n(&is_ending, true, __ATOMIC_SEQ_CST);
    return VAAI_NAS_STALE;
}

static void wait_until_up(void)
{
    while (!__atomic_load_n(&is_up, __ATOMIC_SEQ_CST))
        usleep(1000);
}

static bool ends(void)
{
    return __atomic_load_n(&is_ending, __ATOMIC_SEQ_CST);
}

static const struct vaai_nas_adapter adapter = {.find = fake_find};

/* Threads that serve a socket never end: each test has a separate socket, all share a service. */
static int begin(void **state)
{
    const struct vaai_nas_service_options options = {.adapter = &adapter, .workers = 1};
    const char *temporary = getenv("TMPDIR");

    (void)state;
    snprintf(place, sizeof(place), "%s/socket-XXXXXX", temporary != NULL ? temporary : "/tmp");
    service = vaai_nas_service_new(&options);
    is_up = true;
    is_ending = ends_meanwhile = false;
    lookups = 0;
    swapped = NULL;
    return mkdtemp(place) == NULL || service == NULL;
}

static int end(void **state)
{
    char command[300];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", place);
    return system(command);
}

static int start(uid_t user, char path[108])
{
    struct vaai_nas_control_socket options = {.path = path, .user = user, .wait_until_up = wait_until_up, .is_ending = ends};

    snprintf(path, 108, "%.90s/socket", place);
    return vaai_nas_control_socket_start(service, &options);
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    strcpy(address.sun_path, path);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void say(int fd, const char *line)
{
    assert_int_equal(send(fd, line, strlen(line), MSG_NOSIGNAL), strlen(line));
}

/* The start of the response; "" if the connection ends without one. */
static void expect(int fd, const char *part)
{
    char answer[4096] = "";
    size_t used = 0;

    while (used < sizeof(answer) - 1 && strchr(answer, '\n') == NULL) {
        const ssize_t received = recv(fd, answer + used, sizeof(answer) - 1 - used, 0);
        if (received <= 0)
            break;
        used += (size_t)received;
        answer[used] = 0;
    }
    if (part[0] == 0 ? used != 0 : strstr(answer, part) == NULL)
        fail_msg("answered is %s, not %s", answer, part);
    close(fd);
}

static void only_allowed_users_get_a_response(void **state)
{
    struct stat attributes;
    char path[108];
    const mode_t before = umask(0);

    (void)state;
    assert_int_equal(start(geteuid() == 0 ? 1234 : geteuid(), path), 0);
    umask(before);
    assert_int_equal(stat(path, &attributes), 0);
    assert_int_equal(attributes.st_mode & 07777, 0600);
    assert_int_equal(attributes.st_uid, geteuid() == 0 ? 1234 : geteuid());
}

static void another_file_under_its_name_stays_as_it_is(void **state)
{
    struct stat attributes;
    char path[108], victim[300];

    (void)state;
    snprintf(victim, sizeof(victim), "%s/victim", place);
    close(open(victim, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    chmod(victim, 0644);
    swapped = victim;
    start(1234, path);
    assert_int_equal(stat(victim, &attributes), 0);
    assert_int_equal(attributes.st_mode & 07777, 0644);
    assert_int_equal(attributes.st_uid, geteuid());
}

/* A user who can create files in the folder could take the socket's name, and respond in the daemon's place. */
static void a_folder_where_others_make_names_is_refused(void **state)
{
    char path[108];

    (void)state;
    for (unsigned int i = 0; i < 2; i++) {
        assert_int_equal(chmod(place, i == 0 ? 0770 : 01707), 0);
        assert_int_equal(start(geteuid(), path), EPERM);
        assert_int_equal(access(path, F_OK), -1);
    }
    assert_int_equal(chmod(place, 0755), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(place, 1234, (gid_t)-1), 0);
        assert_int_equal(start(geteuid(), path), EPERM);
        assert_int_equal(chown(place, 0, (gid_t)-1), 0);
    }
    assert_int_equal(start(geteuid(), path), 0);
    const int fd = connect_to(path);
    say(fd, STATISTICS);
    expect(fd, "\"exports\":[");
}

static void nothing_is_answered_before_it_is_up_and_once_it_ends(void **state)
{
    char path[108];

    (void)state;
    is_up = false;
    assert_int_equal(start(geteuid(), path), 0);
    const int fd = connect_to(path);
    say(fd, LIST);
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&answer, 1, 50), 0);
    assert_int_equal(__atomic_load_n(&lookups, __ATOMIC_SEQ_CST), 0);
    __atomic_store_n(&is_up, true, __ATOMIC_SEQ_CST);
    expect(fd, "\"stale\"");
    __atomic_store_n(&is_ending, true, __ATOMIC_SEQ_CST);
    const int late = connect_to(path);
    say(late, LIST);
    expect(late, "");
    assert_int_equal(__atomic_load_n(&lookups, __ATOMIC_SEQ_CST), 1);
}

/* A lookup may fail because exports are being released. */
static void what_was_found_while_it_ends_is_not_answered(void **state)
{
    char path[108];

    (void)state;
    ends_meanwhile = true;
    assert_int_equal(start(geteuid(), path), 0);
    const int fd = connect_to(path);
    say(fd, LIST);
    expect(fd, "");
    assert_int_equal(__atomic_load_n(&lookups, __ATOMIC_SEQ_CST), 1);
}

static void who_has_gone_has_nothing_done(void **state)
{
    char path[108];

    (void)state;
    is_up = false;
    assert_int_equal(start(geteuid(), path), 0);
    for (int i = 0; i < 3; i++) {
        const int gone = connect_to(path);
        say(gone, LIST);
        close(gone);
    }
    const int said_all = connect_to(path);
    say(said_all, STATISTICS);
    assert_int_equal(shutdown(said_all, SHUT_WR), 0);
    __atomic_store_n(&is_up, true, __ATOMIC_SEQ_CST);
    expect(said_all, "\"exports\":[");
    /* Earlier connections are closed when more connections than threads have been served one after the other. */
    for (int i = 0; i < 200; i++) {
        const int fd = connect_to(path);
        say(fd, STATISTICS);
        expect(fd, "\"exports\":[");
    }
    assert_int_equal(__atomic_load_n(&lookups, __ATOMIC_SEQ_CST), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_allowed_users_get_a_response, begin, end),
        cmocka_unit_test_setup_teardown(another_file_under_its_name_stays_as_it_is, begin, end),
        cmocka_unit_test_setup_teardown(a_folder_where_others_make_names_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(nothing_is_answered_before_it_is_up_and_once_it_ends, begin, end),
        cmocka_unit_test_setup_teardown(what_was_found_while_it_ends_is_not_answered, begin, end),
        cmocka_unit_test_setup_teardown(who_has_gone_has_nothing_done, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
