// SPDX-License-Identifier: Apache-2.0
/*
 * Lets a User-Mode Linux older than 6.13 run on processors with AMX (Intel Sapphire Rapids and later). Loaded by LD_PRELOAD.
 *
 * Such a kernel stores 2,696 bytes of a process's extended state (HOST_FP_SIZE in arch/x86/um/user-offsets.c): all before AMX. The
 * host only accepts the whole state (xstateregs_set() in arch/x86/kernel/fpu/regset.c), so PTRACE_SETREGSET fails with EFAULT.
 * Here the rest is added as zeros. That is its value: the guest's kernel cannot grant AMX to a process (arch_prctl(2)).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define XSTATE_BYTES_MAX 65536

typedef long ptrace_function(enum __ptrace_request, ...);

/* Size of the host's whole state in bytes: PTRACE_GETREGSET sets iov_len to what it copied (ptrace(2)). 0 after an error. */
static size_t
host_bytes(ptrace_function *next, pid_t process)
{
	static _Alignas(64) unsigned char state[XSTATE_BYTES_MAX];
	static size_t bytes;
	struct iovec whole = { state, sizeof(state) };

	if (bytes == 0 && next(PTRACE_GETREGSET, process, (void *)NT_X86_XSTATE, &whole) == 0)
		bytes = whole.iov_len;
	return bytes;
}

long
ptrace(enum __ptrace_request request, ...)
{
	static ptrace_function *next;
	static _Alignas(64) unsigned char state[XSTATE_BYTES_MAX]; /* zeros after the kernel's part, which has one size */
	va_list arguments;
	pid_t process;
	void *address, *data;

	va_start(arguments, request);
	process = va_arg(arguments, pid_t);
	address = va_arg(arguments, void *);
	data = va_arg(arguments, void *);
	va_end(arguments);
	if (next == NULL)
		next = (ptrace_function *)dlsym(RTLD_NEXT, "ptrace");
	if (request == PTRACE_SETREGSET && address == (void *)NT_X86_XSTATE) {
		struct iovec part = *(struct iovec *)data;
		struct iovec whole = { state, host_bytes(next, process) };

		if (part.iov_len < whole.iov_len) {
			memcpy(state, part.iov_base, part.iov_len);
			return next(request, process, address, &whole);
		}
	}
	return next(request, process, address, data);
}
