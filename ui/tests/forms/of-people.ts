// SPDX-License-Identifier: Apache-2.0
/** The forms of users, tokens and the system, and the few that are no dialog: login, jobs, alerts. */

import { formatTime } from "../../src/format/time";
import type { Form } from "./walk";
import { AT, begun, ID, token, receiver } from "./world";

const USERS = { at: "/users", version: '"user"', answer: {} };
const SYSTEM = { at: "/system", answer: {} };
const HOOK = { ...SYSTEM, version: '"receiver"' };
const PASSWORD = "correct horse battery";
const SECRET = "a secret that is shown once";
const TWICE = { Password: PASSWORD, "Repeat the password": PASSWORD };
const FILE = "the content of a backup";

export const people: readonly Form[] = [
  {
    ...USERS,
    form: "people CreateUser",
    version: undefined,
    open: ["New user"],
    fill: { "User name": "anna", Viewer: true, ...TWICE },
    send: ["Create user"],
    sends: ["POST", "/users", { name: "anna", role: "viewer", password: PASSWORD }],
    marks: { name: "User name", password: "Password" },
    done: "User anna was created",
  },
  {
    ...USERS,
    form: "people ChangeRole",
    open: ["Actions for olga", "Change role"],
    fill: { Operator: true },
    send: ["Change role"],
    sends: ["PATCH", `/users/${ID.user}`, { role: "operator" }],
    done: "olga was changed",
  },
  {
    ...USERS,
    form: "people ResetPassword",
    open: ["Actions for olga", "Reset password"],
    fill: { ...TWICE, "Also revoke all API tokens of this user": true },
    send: ["Set password"],
    sends: ["PATCH", `/users/${ID.user}`, { password: PASSWORD, end_tokens: true }],
    marks: { password: "Password" },
    done: "olga was changed",
  },
  {
    ...USERS,
    form: "people LockOut",
    open: ["Actions for olga", "Disable"],
    send: ["Disable"],
    sends: ["PATCH", `/users/${ID.user}`, { disabled: true }],
    done: "olga was changed",
  },
  {
    ...USERS,
    form: "people DeleteUser",
    open: ["Actions for olga", "Delete"],
    fill: { "Type olga to confirm": "olga" },
    send: ["Delete user"],
    sends: ["DELETE", `/users/${ID.user}`],
    done: "olga was deleted",
  },
  {
    at: "/users",
    form: "people OwnPassword",
    open: ["User menu of admin", "Change password"],
    fill: { "Current password": "the present one", "New password": PASSWORD, "Repeat the password": PASSWORD },
    send: ["Change password"],
    sends: ["POST", "/session/password", { current: "the present one", new: PASSWORD, end_tokens: false }],
    marks: { current: "Current password", new: "New password" },
    answer: {},
    done: "Your password was changed",
  },
  {
    at: "/users",
    form: "people CreateToken",
    open: ["New token"],
    fill: { Name: "backup", "Valid for": "30 days", "Your password": PASSWORD },
    send: ["Create token"],
    sends: ["POST", "/tokens", { name: "backup", scope: "viewer", days: 30, password: PASSWORD }],
    marks: { name: "Name", password: "Your password" },
    answer: { ...token, name: "backup", secret: SECRET },
    done: "Token backup",
  },
  {
    at: "/users",
    form: "people DeleteToken",
    open: ["Delete token prometheus"],
    send: ["Delete token"],
    sends: ["DELETE", `/tokens/${ID.token}`],
    answer: {},
    done: "Token prometheus was deleted",
  },
];

export const system: readonly Form[] = [
  {
    ...SYSTEM,
    form: "system BackUp",
    open: ["Back up"],
    fill: { "Your password": PASSWORD },
    send: ["Download backup"],
    sends: ["POST", "/configuration/backup", { password: PASSWORD }],
    marks: { password: "Your password" },
    done: "The backup was downloaded",
  },
  {
    ...SYSTEM,
    form: "system Restore",
    open: ["Restore"],
    fill: { "Backup file": new File([FILE], "backup.json"), "Recovery key": SECRET },
    first: ["Preview changes", { changes: ["receiver chat: added"] }],
    send: ["Restore"],
    sends: ["POST", "/recovery", { file: FILE, recovery_key: SECRET, dry_run: false, force: false }],
    marks: { recovery_key: "Recovery key" },
    answer: { changes: [] },
    done: "The configuration was restored",
  },
  {
    ...SYSTEM,
    form: "system Bundles",
    inPage: true,
    send: ["Create support bundle"],
    sends: ["POST", "/support-bundles"],
    answer: begun,
    done: "The appliance creates the bundle.",
  },
  {
    ...SYSTEM,
    form: "system Remove",
    open: [`Delete bundle of ${formatTime(AT)}`],
    send: ["Delete bundle"],
    sends: ["DELETE", `/support-bundles/${ID.bundle}`],
  },
  {
    ...SYSTEM,
    form: "system CreateReceiver",
    open: ["New receiver"],
    fill: { Name: "mail", Address: "https://mail.example/hook", Send: "All alerts" },
    send: ["Create receiver"],
    sends: [
      "POST",
      "/receivers",
      { name: "mail", url: "https://mail.example/hook", severity: "info", certificate: null, enabled: true },
    ],
    marks: { name: "Name", url: "Address" },
    answer: { ...receiver, name: "mail", secret: SECRET },
    done: "mail",
  },
  {
    ...HOOK,
    form: "system ChangeReceiver",
    open: ["Actions for chat", "Change"],
    fill: { Enabled: false },
    send: ["Change"],
    sends: ["PATCH", `/receivers/${ID.receiver}`, { enabled: false }],
    marks: { name: "Name", url: "Address" },
    done: "chat was changed",
  },
  {
    ...HOOK,
    form: "system RenewSecret",
    open: ["Actions for chat", "New secret"],
    send: ["Generate secret"],
    sends: ["POST", `/receivers/${ID.receiver}/secret`],
    answer: { ...receiver, secret: SECRET },
    done: "chat",
  },
  {
    ...HOOK,
    form: "system DeleteReceiver",
    open: ["Actions for chat", "Delete"],
    send: ["Delete receiver"],
    sends: ["DELETE", `/receivers/${ID.receiver}`],
    done: "chat was deleted",
  },
  {
    ...SYSTEM,
    form: "system ReceiverTable",
    inPage: true,
    send: ["Actions for chat", "Send a test"],
    sends: ["POST", `/receivers/${ID.receiver}/test`],
    answer: { state: "delivered", status: 200 },
    done: "chat accepted the test (200)",
  },
];

export const others: readonly Form[] = [
  {
    at: "/login",
    form: ". LoginForm",
    out: true,
    inPage: true,
    changesNothing: true,
    withoutKey: true,
    fill: { "User name": "admin", Password: PASSWORD },
    send: ["Log in"],
    sends: ["POST", "/session", { name: "admin", password: PASSWORD }],
    marks: { name: "User name", password: "Password" },
    done: "Dashboard",
  },
  {
    at: `/jobs/${ID.job}`,
    form: ". JobFacts",
    inPage: true,
    send: ["Cancel"],
    sends: ["POST", `/jobs/${ID.job}/cancel`],
    answer: begun,
  },
  {
    at: "/alerts",
    form: ". AlertTable",
    inPage: true,
    send: ["Acknowledge"],
    sends: ["POST", "/alerts/1/acknowledge"],
    answer: {},
  },
];
