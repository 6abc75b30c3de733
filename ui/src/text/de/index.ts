// SPDX-License-Identifier: Apache-2.0
/** German. */

import { en, type Texts } from "..";

export const de: Texts = { ...en };
