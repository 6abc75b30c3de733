/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include "../vaai_nas/service.h"

/*
 * Environment for fuzzing: the real service with a fake, fast NFS server and file operations. A handle is
 * one byte: 0 to 99 are files of one export, 100 to 199 of another that is read-only from 150 on, 200 and 201 directories of the
 * first, 202 a directory of the second; others are stale. Files below 20 allow only reading of attributes. Every fifth source cannot be cloned, each
 * time for another reason.
 */

extern const struct vaai_nas_caller fake_caller;

/* A new service without state of the previous input. */
struct vaai_nas_service *fake_service_begin(void);

/* Aborts, for libFuzzer, if a file is still open. */
void fake_service_end(struct vaai_nas_service *service);

/* Aborts unless `holds`. */
void must(bool holds, const char *what);

/* The next call of an input: two bytes of length, little-endian, and that many bytes, or the rest. false at the end. */
bool next_call(const uint8_t **input, size_t *left, const uint8_t **call, size_t *length);
