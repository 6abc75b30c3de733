// SPDX-License-Identifier: Apache-2.0
/** The forms of pools, disks and keys, and of the first start. */

import type { Form } from "./walk";
import { begun, DISKS, pool } from "./world";

const POOL = { at: "/pools/tank", answer: begun };
const [FIRST, , FREE = ""] = DISKS;
const REVIEW = "Review";
const PASSWORD = "correct horse battery";
const KEY = "0123456789abcdef".repeat(4);

const EXTEND = { at: "/pools/tank/extend", inPage: true, fill: { Use: "Spare", [`Choose ${FREE}`]: true } };
const SPARE = { vdevs: [{ devices: [FREE], redundancy: "stripe", role: "spare" }], force: false };

export const pools: readonly Form[] = [
  {
    ...EXTEND,
    form: "pools Builder.planned",
    send: [REVIEW],
    sends: ["POST", "/pools/plan", { ...SPARE, name: "tank", extend: true }],
    answer: { layout: ["tank", `  spare ${FREE}`], warnings: [] },
    done: "Dry run: nothing was changed.",
  },
  {
    ...EXTEND,
    form: "pools Builder.made",
    first: [REVIEW, { layout: ["tank", `  spare ${FREE}`], warnings: [] }],
    send: ["Add disks"],
    sends: ["POST", "/pools/tank/extend", SPARE],
    answer: begun,
    done: "Grow datastore",
  },
  {
    ...POOL,
    form: "pools Scrub",
    open: ["Actions", "Start scrub"],
    send: ["Start scrub"],
    sends: ["POST", "/pools/tank/scrub", { action: "start" }],
  },
  {
    ...POOL,
    form: "pools Export",
    open: ["Actions", "Export pool"],
    fill: { "Type tank to confirm": "tank" },
    send: ["Export"],
    sends: ["POST", "/pools/tank/export"],
  },
  {
    ...POOL,
    form: "pools ChangeDevice",
    open: [`Actions for ${FIRST}`, "Take offline"],
    send: ["Take offline"],
    sends: ["POST", "/pools/tank/device", { device: FIRST, action: "offline" }],
  },
  {
    ...POOL,
    form: "pools NewDevice",
    open: [`Actions for ${FIRST}`, "Replace"],
    fill: { [FREE]: true },
    send: ["Replace"],
    sends: ["POST", "/pools/tank/replace", { device: FIRST, new_device: FREE, force: false }],
  },
  {
    ...POOL,
    form: "pools DropDevice",
    open: [`Actions for ${FIRST}`, "Detach"],
    send: ["Detach"],
    sends: ["POST", "/pools/tank/detach", { device: FIRST }],
  },
  {
    ...POOL,
    form: "pools Trim",
    open: ["Actions", "Start trim"],
    send: ["Start trim"],
    sends: ["POST", "/pools/tank/trim", { action: "start" }],
  },
  {
    ...POOL,
    form: "pools Upgrade",
    responses: { "/pools/tank": { ...pool, upgradable: true } },
    open: ["Actions", "Upgrade"],
    fill: { "Type tank to confirm": "tank" },
    send: ["Upgrade pool"],
    sends: ["POST", "/pools/tank/upgrade"],
  },
  {
    ...POOL,
    form: "pools ChangeThresholds",
    version: '"pool"',
    open: ["Actions", "Change alert thresholds"],
    fill: { "Warning at": "70" },
    send: ["Change"],
    sends: ["PATCH", "/pools/tank", { warning_percent: 70 }],
    marks: { warning_percent: "Warning at", critical_percent: "Critical at" },
  },
  {
    ...POOL,
    form: "pools Destroy",
    version: '"pool"',
    open: ["Actions", "Destroy pool"],
    fill: { "Type tank to confirm": "tank" },
    send: ["Destroy"],
    sends: ["DELETE", "/pools/tank"],
  },
  {
    at: "/pools",
    form: "pools ImportPool",
    open: ["Actions", "Import pool"],
    fill: {
      "vault: ONLINE, 2 disks": true,
      "No other server uses the pool: import anyway": true,
      "New name": "safe",
    },
    send: ["Import"],
    sends: ["POST", "/pools/import", { pool: "31", new_name: "safe", force: true }],
    marks: { new_name: "New name" },
    answer: begun,
  },
  {
    at: "/pools/tank",
    form: "pools ExportKey",
    open: ["Export key"],
    fill: { "Your password": "correct horse battery" },
    send: ["Show key"],
    sends: ["POST", "/encryption-keys/tank/export", { password: "correct horse battery" }],
    marks: { password: "Your password" },
    answer: { pool: "tank", secret: KEY },
    done: KEY,
  },
  {
    at: "/pools/tank",
    form: "pools EnterKey",
    version: '"key"',
    open: ["Confirm key"],
    fill: { Key: KEY },
    send: ["Confirm"],
    sends: ["POST", "/encryption-keys/tank/confirm", { secret: KEY }],
    marks: { secret: "Key" },
    answer: {},
    done: "The key was confirmed",
  },
];

export const firstStart: readonly Form[] = [
  {
    at: "/first-start",
    responses: { "/setup": { needed: true } },
    form: "first-start AccountStep",
    out: true,
    inPage: true,
    withoutKey: true,
    fill: { "One-time code": "0000-0000-0000-0000-0000", Password: PASSWORD, "Repeat the password": PASSWORD },
    send: ["Create administrator"],
    sends: ["POST", "/setup", { code: "0000-0000-0000-0000-0000", name: "admin", password: PASSWORD }],
    marks: { code: "One-time code", name: "User name", password: "Password" },
    answer: { recovery_key: "a key of the configuration" },
    done: "a key of the configuration",
  },
];
