/* File operations: all of it. */
#ifndef FILEOPS_H
#define FILEOPS_H

#include "clone.h"
#include "space.h"
#include "statistics.h"

#endif
