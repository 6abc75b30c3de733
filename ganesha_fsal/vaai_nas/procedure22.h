/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include "procedure22_codec.h"
#include "service.h"

/* Serves a decoded call of NFSv3 procedure 22 (`fault` is from the codec). Sets every field of `result`. */
void vaai_nas_procedure22_serve(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                const struct procedure22_request *request, enum procedure22_fault fault,
                                struct procedure22_result *result);
