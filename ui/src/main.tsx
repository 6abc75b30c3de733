// SPDX-License-Identifier: Apache-2.0
/** Loads the console, with its styles: neither keeps index.html from being shown. */

import { loadLanguage } from "./shell/language";

void loadLanguage().then(() => import("./start"));
