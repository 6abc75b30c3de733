// SPDX-License-Identifier: Apache-2.0
/** Loads the console, with its styles: neither keeps index.html from being shown. */

void import("./start");
