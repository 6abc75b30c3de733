// SPDX-License-Identifier: Apache-2.0
/** German. */

import { en, type Texts } from "..";
import { alerts } from "./alerts";
import { audit } from "./audit";
import { common } from "./common";
import { dashboard } from "./dashboard";
import { datastores } from "./datastores";
import { files } from "./files";
import { history } from "./history";
import { hosts } from "./hosts";
import { jobs } from "./jobs";
import { problems } from "./problems";
import { readiness } from "./readiness";
import { schedules } from "./schedules";
import { search } from "./search";
import { session } from "./session";

export const de: Texts = {
  ...en,
  alerts,
  audit,
  common,
  dashboard,
  datastores,
  files,
  history,
  hosts,
  jobs,
  problems,
  readiness,
  schedules,
  search,
  session,
};
