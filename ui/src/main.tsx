// SPDX-License-Identifier: Apache-2.0
/** Loads console and styles without delaying the first display of index.html. */

import { loadLanguage } from "./shell/language";

void loadLanguage().then(() => import("./start"));
