/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef PROCEDURE22_COPY_H
#define PROCEDURE22_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rpc/rpc.h>

#include "procedure22_codec.h"

#define PROCEDURE22_COMMAND_MAX 1024u /* bytes of cmdarg that XDR allows; the codec takes PROCEDURE22_ARGUMENT_SIZE only */
#define PROCEDURE22_COPIED_MAX (4u + PROCEDURE22_HANDLE_SIZE + 4u + 4u + PROCEDURE22_HANDLE_SIZE + 4u + PROCEDURE22_COMMAND_MAX)

/* Gathers the bytes of a call, each part within its bounds, for the codec, which knows no ntirpc. Bytes that follow stay in the stream.
 * false: they are no call, and `bytes` may hold anything. */
bool procedure22_copy_call(XDR *xdrs, uint8_t bytes[PROCEDURE22_COPIED_MAX], size_t *length);

#endif
