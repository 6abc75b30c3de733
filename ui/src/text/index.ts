/** All text of the console, by where it is shown. */

import { alerts } from "./alerts";
import { common } from "./common";
import { dashboard } from "./dashboard";
import { datastores } from "./datastores";
import { hosts } from "./hosts";
import { jobs } from "./jobs";
import { pools } from "./pools";
import { problems } from "./problems";
import { readiness } from "./readiness";
import { schedules } from "./schedules";
import { session } from "./session";

export const text = { alerts, common, dashboard, datastores, hosts, jobs, pools, problems, readiness, schedules, session };
