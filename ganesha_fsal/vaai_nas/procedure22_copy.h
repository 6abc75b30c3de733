/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rpc/rpc.h>

#include "procedure22_codec.h"

#define PROCEDURE22_COMMAND_MAX 1024u /* bytes of cmdarg that XDR allows; the codec takes PROCEDURE22_ARGUMENT_SIZE only */
#define PROCEDURE22_COPIED_MAX (4u + PROCEDURE22_HANDLE_SIZE + 4u + 4u + PROCEDURE22_HANDLE_SIZE + 4u + PROCEDURE22_COMMAND_MAX)

/* Collects the bytes of a call for the codec, which does not use ntirpc, each part within its limits. Bytes that follow stay in the stream.
 * false: no valid call, and `bytes` is undefined. */
bool procedure22_copy_call(XDR *xdrs, uint8_t bytes[PROCEDURE22_COPIED_MAX], size_t *length);
