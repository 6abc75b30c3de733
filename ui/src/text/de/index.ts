// SPDX-License-Identifier: Apache-2.0
/** German. */

import type { Texts } from "..";
import { alerts } from "./alerts";
import { audit } from "./audit";
import { common } from "./common";
import { dashboard } from "./dashboard";
import { datastores } from "./datastores";
import { files } from "./files";
import { history } from "./history";
import { hosts } from "./hosts";
import { jobs } from "./jobs";
import { logs } from "./logs";
import { maintenance } from "./maintenance";
import { network } from "./network";
import { people } from "./people";
import { pools } from "./pools";
import { portals } from "./portals";
import { problems } from "./problems";
import { readiness } from "./readiness";
import { schedules } from "./schedules";
import { search } from "./search";
import { session } from "./session";
import { system } from "./system";

export const de: Texts = {
  alerts,
  audit,
  common,
  dashboard,
  datastores,
  files,
  history,
  hosts,
  jobs,
  logs,
  maintenance,
  network,
  people,
  pools,
  portals,
  problems,
  readiness,
  schedules,
  search,
  session,
  system,
};
