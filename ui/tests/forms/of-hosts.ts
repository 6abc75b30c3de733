// SPDX-License-Identifier: Apache-2.0
/** The forms of hosts, host groups and schedules. */

import type { Form } from "./walk";
import { begun, ID, IQN, schedule } from "./world";

const HOSTS = { at: "/hosts", version: '"host"', answer: {} };
const GROUPS = { at: "/hosts?show=groups", version: '"group"', answer: {} };
const SCHEDULES = { at: "/schedules", version: '"schedule"', answer: {} };
const SCRUB = { ...schedule, name: "monthly", kind: "scrub", pool: "tank", datastores: [], every_minutes: 40_320, at: "02:00" };
const HOST_MARKS = { name: "Name", group: "Host group", iqns: "iSCSI names", addresses: "Addresses" };
const SCHEDULE_MARKS = { name: "Name", every_minutes: "Every", keep: "Retain for each datastore" };

export const hosts: readonly Form[] = [
  {
    ...GROUPS,
    form: "hosts AddGroup",
    version: undefined,
    open: ["New group"],
    fill: { Name: "cluster", XCOPY: false },
    send: ["Create group"],
    sends: ["POST", "/host-groups", { name: "cluster", disabled_offloads: ["extended_copy"] }],
    marks: { name: "Name" },
    done: "Group cluster was created",
  },
  {
    ...GROUPS,
    form: "hosts ChangeGroup",
    open: ["Actions for lab", "Change"],
    fill: { Name: "laboratory" },
    send: ["Change"],
    sends: ["PATCH", `/host-groups/${ID.group}`, { name: "laboratory" }],
    marks: { name: "Name" },
    done: "Group laboratory was changed",
  },
  {
    ...GROUPS,
    form: "hosts DeleteGroup",
    open: ["Actions for lab", "Delete"],
    send: ["Delete group"],
    sends: ["DELETE", `/host-groups/${ID.group}`],
    done: "Group lab was deleted",
  },
  {
    ...HOSTS,
    form: "hosts AddHost",
    version: undefined,
    open: ["New host"],
    fill: { Name: "esx2", "Host group": "lab", "iSCSI names": `${IQN}-2`, Addresses: "192.0.2.2" },
    send: ["Add host"],
    sends: ["POST", "/hosts", { name: "esx2", group: ID.group, iqns: [`${IQN}-2`], addresses: ["192.0.2.2"] }],
    marks: HOST_MARKS,
    done: "esx2 was added",
  },
  {
    ...HOSTS,
    form: "hosts ChangeHost",
    open: ["Actions for esx1", "Change"],
    fill: { Name: "esx1-mine" },
    send: ["Change"],
    sends: ["PATCH", `/hosts/${ID.host}`, { name: "esx1-mine", force: false }],
    marks: HOST_MARKS,
    done: "esx1-mine was changed",
  },
  {
    ...HOSTS,
    form: "hosts SetChap",
    open: ["Actions for esx1", "Rotate CHAP secret"],
    fill: { "User name": "esx1", Secret: "a secret of a host" },
    send: ["Set secret"],
    sends: ["PUT", `/hosts/${ID.host}/chap`, { name: "esx1", secret: "a secret of a host", force: false }],
    marks: { name: "User name", secret: "Secret" },
    done: "The CHAP secret of esx1 was set",
  },
  {
    ...HOSTS,
    form: "hosts RemoveChap",
    open: ["Actions for esx1", "Remove CHAP secret"],
    send: ["Remove secret"],
    sends: ["DELETE", `/hosts/${ID.host}/chap`],
    done: "The CHAP secret of esx1 was removed",
  },
  {
    ...HOSTS,
    form: "hosts DeleteHost",
    open: ["Actions for esx1", "Delete"],
    fill: { "Type esx1 to confirm": "esx1" },
    send: ["Delete host"],
    sends: ["DELETE", `/hosts/${ID.host}`],
    done: "esx1 was deleted",
  },
];

export const schedules: readonly Form[] = [
  {
    ...SCHEDULES,
    form: "schedules AddSchedule",
    version: undefined,
    open: ["New schedule"],
    fill: {
      ...{ Name: "daily", vmfs1: true, Every: "2", Unit: "Days", "Retain for each datastore": "30" },
      ...{ Weekly: "8", Monthly: "12", "Protect for days": "7", "Start of the day": "22:00", "Time zone": "Europe/Berlin" },
    },
    send: ["Create schedule"],
    sends: [
      "POST",
      "/schedules",
      {
        ...{ name: "daily", datastores: [ID.vmfs], every_minutes: 2880, keep: 30, enabled: true },
        ...{ hourly: 0, daily: 0, weekly: 8, monthly: 12, protect_days: 7, at: "22:00", time_zone: "Europe/Berlin" },
      },
    ],
    marks: SCHEDULE_MARKS,
    done: "Schedule daily was created",
  },
  {
    ...SCHEDULES,
    form: "schedules ChangeSchedule",
    open: ["Actions for hourly", "Change"],
    fill: { Unit: "Days" },
    send: ["Change"],
    sends: ["PATCH", `/schedules/${ID.schedule}`, { every_minutes: 1440 }],
    marks: SCHEDULE_MARKS,
    done: "hourly was changed",
  },
  {
    ...SCHEDULES,
    form: "schedules AddScrub",
    version: undefined,
    open: ["New scrub schedule"],
    fill: { Name: "monthly", "Every so many days": "14", "Start of the day": "03:00", "Time zone": "Europe/Berlin" },
    send: ["Create schedule"],
    sends: [
      "POST",
      "/schedules",
      {
        ...{ name: "monthly", kind: "scrub", pool: "tank", every_minutes: 20_160, enabled: true },
        ...{ at: "03:00", time_zone: "Europe/Berlin" },
      },
    ],
    marks: { name: "Name", every_minutes: "Every so many days", pool: "Pool", at: "Start of the day", time_zone: "Time zone" },
    done: "Schedule monthly was created",
  },
  {
    ...SCHEDULES,
    form: "schedules ChangeScrub",
    responses: { "/schedules": { items: [SCRUB], next_cursor: null }, [`/schedules/${ID.schedule}`]: SCRUB },
    open: ["Actions for monthly", "Change"],
    fill: { "Every so many days": "14" },
    send: ["Change"],
    sends: ["PATCH", `/schedules/${ID.schedule}`, { every_minutes: 20_160 }],
    marks: { name: "Name", every_minutes: "Every so many days" },
    done: "monthly was changed",
  },
  {
    ...SCHEDULES,
    form: "schedules PauseSchedule",
    open: ["Actions for hourly", "Pause"],
    send: ["Pause"],
    sends: ["PATCH", `/schedules/${ID.schedule}`, { enabled: false }],
    done: "hourly is paused",
  },
  {
    ...SCHEDULES,
    form: "schedules DeleteSchedule",
    open: ["Actions for hourly", "Delete"],
    fill: { "Type hourly to confirm": "hourly" },
    send: ["Delete schedule"],
    sends: ["DELETE", `/schedules/${ID.schedule}`],
    done: "hourly was deleted",
  },
  {
    at: "/schedules",
    form: "schedules RunSchedule",
    open: ["Actions for hourly", "Run now"],
    send: ["Run now"],
    sends: ["POST", `/schedules/${ID.schedule}/run`],
    answer: begun,
  },
];
