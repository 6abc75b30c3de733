// SPDX-License-Identifier: Apache-2.0
/** Before each file of tests: the console in English. */

import { chosen } from "../src/text/chosen";
import { en } from "../src/text/en";

chosen.text = en;
