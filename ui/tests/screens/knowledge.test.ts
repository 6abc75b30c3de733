// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** A screen shows what it knows, and says what it does not know. */

import { show, loaded, panel } from "./show";
import { act, cleanup } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";
import type * as Api from "../../src/api/types";
import { text } from "../../src/text";
import { service } from "../forms/border";
import { newUser, press, until } from "../forms/page";
import { begun, ID, page, pool, session, world } from "../forms/world";

afterEach(cleanup);

const UNKNOWN = text.hosts.state.unknown;
const DAY_MS = 86_400_000;
const MIB = 1_048_576;
const status = { ...(world["/status"] as Api.Status), unacknowledged_alerts: 0 };
const alert = (world["/alerts"] as { items: [Api.Alert] }).items[0];
const store = (id: string, more: object) => ({ [`/datastores/${id}`]: { ...(world[`/datastores/${id}`] as object), ...more } });
const menu = () => [...document.querySelectorAll("[role=menuitem]")].map((item) => item.textContent);

describe("the dashboard", () => {
  const verdict = () => document.querySelector(".zv-verdict")?.textContent;
  const words = text.dashboard.health;

  it("says that there are no problems only if it knows that: acknowledged alerts need no action", async () => {
    await show("/", { "/status": status });
    expect(verdict()).toBe(words.allWell);
    expect(document.querySelector("header")?.textContent).not.toContain(text.common.openAlerts(1));
  });

  it("does not know that without readiness", async () => {
    await show("/", { "/status": status }, ["/readiness"]);
    expect(verdict()).toBe(words.checksUnknown);
  });

  it("needs attention, without a count of one fault in several places", async () => {
    const target = { running: true, version: "1", portals: [], luns_serving: 1, luns_failed: 2, sessions: 0, problem: null };
    await show("/", { "/status": { ...status, target, unacknowledged_alerts: 1, reconcile_problem: "2 LUNs failed" } });
    expect(verdict()).toBe("Needs attention: see alerts and readiness");
    cleanup();
    await show("/", { "/status": { ...status, target } });
    expect(verdict()).toBe(words.needs);
  });

  it("shows the load of NFS datastores, and no spike after counters were missing", async () => {
    const { load, offloads: card } = text.dashboard;
    const offloads = (bytes: number) => ({
      ...{ ...(world["/offloads"] as object), nfs_problem: bytes === 0 ? "it hangs" : null },
      exports: bytes === 0 ? [] : [{ export: "/nfs1", read: { bytes, operations: bytes / 4096, latency: {} } }],
    });
    vi.useFakeTimers({ toFake: ["Date"] });
    try {
      const client = await show("/", { "/offloads": offloads(4096 * MIB) });
      const answer = async (bytes: number, title: string, shown: string) => {
        service.responses = { "/offloads": offloads(bytes) };
        vi.setSystemTime(Date.now() + 10_000);
        await act(() => client.invalidateQueries({ queryKey: ["offloads"] }));
        await until(`not ${shown}`, () => panel(title).includes(shown));
      };
      await answer(4136 * MIB, load.title, `${load.read} 4 MiB/s`);
      await answer(0, card.title, card.nasUnavailable("it hangs"));
      await answer(4176 * MIB, card.title, text.dashboard.offloads.title);
      await answer(4196 * MIB, load.title, `${load.read} 2 MiB/s`);
    } finally {
      vi.useRealTimers();
    }
  });

  it("shows the most severe alert first", async () => {
    const warnings = Array.from({ length: 6 }, (_, index) => ({ ...alert, id: 10 - index, text: `warning ${index}` }));
    await show("/", { "/alerts": page(...warnings, { ...alert, severity: "critical", text: "a LUN failed" }) });
    expect(panel(text.dashboard.alerts.title)).toMatch(/^[^W]*A LUN failed/);
  });

  it("shows a pool as its own page does, and full by its own threshold", async () => {
    const full = { ...pool, health: "SUSPENDED", usable: "80", available: "19", critical_percent: 75, warning_percent: 70 };
    await show("/", { "/pools": page({ ...full, used_percent: 76 }) });
    expect(panel(text.dashboard.pools.title)).toContain("2 TiB of 80 B usable");
    const card = document.querySelector(".zv-pool");
    expect(card?.textContent).toContain("61 B of 80 B used or reserved");
    expect(card?.querySelector(".pf-m-danger .pf-v6-c-label__text, .pf-v6-c-label.pf-m-danger")?.textContent).toBe("SUSPENDED");
    expect(card?.querySelector(".pf-v6-c-progress")?.className).toContain("pf-m-danger");
  });

  it("shows the bytes of VAAI-NAS after a restart of the NFS server", async () => {
    const offloads = world["/offloads"] as object;
    await show("/", { "/offloads": { ...offloads, totals: { exports: { cloned_bytes: 4096 } } } });
    expect(panel(text.dashboard.offloads.title)).toContain("4 KiB");
    expect(panel(text.dashboard.offloads.title)).not.toContain(text.dashboard.offloads.nasNothing);
  });
});

describe("a datastore", () => {
  it("has its alerts, by each of its names", async () => {
    const subjects = [ID.vmfs, "its uuid", "tank/zvaai/vmfs1", "tank", "another"];
    const alerts = subjects.map((subject, id) => ({ ...alert, id, subject, text: `about ${id}` }));
    await show(`/datastores/${ID.vmfs}/events`, { ...store(ID.vmfs, { uuid: "its uuid" }), "/alerts": page(...alerts) });
    expect(panel(text.datastores.detail.events.alerts).match(/About \d/g)).toEqual(["About 0", "About 1", "About 2", "About 3"]);
  });

  it.each(["vmfs", "nfs"] as const)("of %s that is missing has no invented values", async (kind) => {
    const more = kind === "nfs" ? { kind, lun: null, share: "/nfs9", clients: ["192.0.2.9"] } : {};
    await show(`/datastores/${ID.missing}/overview`, store(ID.missing, more));
    const { tabs, overview } = text.datastores.detail;
    const shown = document.querySelector("main")?.textContent ?? "";
    for (const invented of ["1970", text.datastores.noQuota, text.datastores.thin, " B", overview.dataset, overview.sync])
      expect(shown).not.toContain(invented);
    expect(panel(overview.settings)).toContain(kind === "nfs" ? "192.0.2.9" : overview.hosts);
    const names = [...document.querySelectorAll("main [role=tab]")].map((tab) => tab.textContent);
    expect(names).toEqual([tabs.overview, tabs.history, tabs.hosts, tabs.events]);
  });

  it("is locked without its key", async () => {
    await show(`/datastores/${ID.vmfs}/overview`, store(ID.vmfs, { encryption: "aes-256-gcm", key_status: "unavailable" }));
    expect(document.querySelector("main .zv-lead")?.textContent).toBe(text.datastores.locked);
    expect(panel(text.datastores.detail.overview.settings)).toContain("aes-256-gcm");
  });

  it("has hosts of which nothing is known while the target does not answer", async () => {
    await show(`/datastores/${ID.vmfs}/hosts`, store(ID.vmfs, { host_groups: [ID.group] }), ["/sessions", "/host-groups"]);
    const sessions = panel(text.datastores.detail.hosts.sessions);
    expect(sessions).toContain(UNKNOWN);
    expect(sessions).not.toContain(text.datastores.detail.hosts.offline);
  });

  it("has an unknown space while the NFS server cannot count", async () => {
    const space = { ...(world[`/datastores/${ID.vmfs}/space`] as object), problem: "it hangs" };
    const title = text.datastores.detail.capacity.files.title;
    await show(`/datastores/${ID.nfs}/capacity`, { [`/datastores/${ID.nfs}/space`]: space });
    expect(panel(title)).toContain(UNKNOWN);
    expect(panel(title)).not.toContain(text.common.none);
    cleanup();
    await show(`/datastores/${ID.nfs}/capacity`, {}, [`/datastores/${ID.nfs}/space`]);
    expect(panel(title)).toContain(text.problems.unavailable.title);
  });

  it.each([
    ["admin", ["after", "before"], [true, true]],
    ["operator", ["after", "before"], [false, false]],
  ] as const)("offers %s only what the role may do with snapshots", async (role, names, may) => {
    await show(`/datastores/${ID.vmfs}/snapshots`, { "/session": { ...session, role } });
    for (const [index, name] of names.entries()) {
      await press(newUser(), [text.datastores.detail.snapshots.actions(name)]);
      const items = menu();
      expect(items.includes(text.datastores.detail.actions.deleteSnapshots.action)).toBe(may[index]);
      // `after` is held, and the newest.
      if (name === "after") expect(items.includes(text.datastores.detail.snapshots.holds.release.action)).toBe(may[index]);
      expect(items.includes(text.datastores.detail.actions.rollback.action)).toBe(role === "admin" || name === "after");
      await newUser().keyboard("{Escape}");
      await until("the menu stays", () => menu().length === 0);
    }
  });

  it.each([
    ["admin", true],
    ["operator", false],
  ] as const)("offers %s a run of a schedule: %s", async (role, offered) => {
    await show("/schedules", { "/session": { ...session, role } });
    await press(newUser(), [text.schedules.actions("hourly")]);
    expect(menu()).toContain(text.schedules.pause.action);
    expect(menu().includes(text.schedules.run.action)).toBe(offered);
  });

  it("can be created although pool and host group of its draft are gone", async () => {
    const draft = { name: "vmfs9", pool: "gone", size: "1 GiB", groups: ["gone", ID.group] };
    sessionStorage.setItem("zvaai-new-datastore", JSON.stringify(draft));
    await show("/datastores/new");
    await press(newUser(), [text.common.next]);
    await until("no name", () => document.querySelector("#name"));
    expect(document.querySelector<HTMLSelectElement>("#pool")?.value).toBe("tank");
    for (let step = 0; step < 3; step += 1) await press(newUser(), [text.common.next]);
    service.answers = [{ status: 202, body: begun }];
    await press(newUser(), [text.datastores.wizard.review.submit]);
    await until("it is not sent", () => service.sent.length > 0);
    expect(service.sent[0]?.body).toMatchObject({ pool: "tank", host_groups: [ID.group] });
    sessionStorage.clear();
  });
});

describe("hosts", () => {
  it("have an unknown group while the groups are unknown", async () => {
    await show("/hosts", {}, ["/host-groups"]);
    const cell = document.querySelector(`td[data-label="${text.hosts.columns.group}"]`);
    expect(cell?.textContent).toBe(UNKNOWN);
  });

  it("are unknown of a group while hosts and datastores are unknown", async () => {
    await show("/hosts?show=groups", {}, ["/hosts", "/datastores"]);
    for (const column of [text.hosts.groups.columns.hosts, text.hosts.groups.columns.datastores])
      expect(document.querySelector(`td[data-label="${column}"]`)?.textContent).toBe(UNKNOWN);
  });
});

describe("a page", () => {
  it("of a pool is left after the pool's export", async () => {
    const client = await show("/pools/tank");
    await press(newUser(), [text.pools.menu, text.pools.export.action]);
    const confirm = await until("no dialog", () => document.querySelector<HTMLInputElement>(".pf-v6-c-modal-box input"));
    await newUser().type(confirm, "tank");
    service.answers = [{ status: 202, body: { ...begun, kind: "pool.export" } }];
    service.responses = {
      [`/jobs/${ID.begun}`]: { ...begun, kind: "pool.export", state: "succeeded", ended_at: begun.created_at },
    };
    const submit = [...document.querySelectorAll<HTMLElement>(".pf-v6-c-modal-box button")];
    submit.find((button) => button.textContent === text.pools.export.submit)?.click();
    await act(() => client.invalidateQueries({ queryKey: ["jobs"] }));
    await until("it stays", () => window.location.pathname === "/pools");
  });

  it("has the focus on its heading after a link, and not at first", async () => {
    const client = await show("/jobs");
    expect(document.activeElement).toBe(document.body);
    await press(newUser(), [text.alerts.title]);
    await until("no alerts", () => document.querySelector("h1")?.textContent === text.alerts.title);
    await loaded(client);
    expect(document.activeElement).toBe(document.querySelector("h1"));
  });

  it("keeps the focus near an alert that was acknowledged", async () => {
    const client = await show("/alerts");
    service.answers = [{ status: 200, body: alert }];
    service.responses = { "/alerts": page({ ...alert, acknowledged_by: "admin" }) };
    await press(newUser(), [text.alerts.acknowledge]);
    await until("not acknowledged", () => document.body.textContent.includes(text.alerts.acknowledged("admin")));
    await loaded(client);
    expect(document.activeElement?.textContent).toBe(text.alerts.acknowledged("admin"));
  });

  it("of a job says what became of a cancellation", async () => {
    await show(`/jobs/${ID.job}`);
    service.answers = [{ status: 200, body: world[`/jobs/${ID.job}`] }];
    await press(newUser(), [text.jobs.cancel]);
    await until("no word", () => document.body.textContent.includes(text.jobs.cancelHelp));
  });

  it("of the system shows receivers and CHAP of the configuration that recovery took", async () => {
    const recovery = { ...(world["/recovery"] as Api.Recovery), active: true, suggested: "tank" };
    const receiver = (world["/receivers"] as { items: [object] }).items[0];
    await show("/system", { "/recovery": recovery });
    await press(newUser(), [text.system.recovery.decide]);
    const dialog = await until("no dialog", () => document.querySelector(".pf-v6-c-modal-box"));
    service.answers = [{ status: 200, body: { changes: [] } }];
    await press(newUser(), [text.system.configuration.preview], dialog);
    service.answers = [{ status: 200, body: { changes: [] } }];
    service.responses = {
      "/receivers": page({ ...receiver, name: "as before" }),
      "/settings/iscsi": { chap_required: false, target_chap_name: "target of before" },
    };
    await press(newUser(), [text.system.recovery.decideSubmit], dialog);
    const shown = () => document.querySelector("main")?.textContent ?? "";
    await until("old receivers", () => shown().includes("as before"));
    await until("old CHAP", () => shown().includes("target of before"));
  });

  it("says that a logout failed", async () => {
    await show("/jobs");
    service.answers = [null];
    await press(newUser(), [text.common.user.menu("admin"), text.common.user.logOut]);
    await until("no word", () => document.body.textContent.includes(text.common.user.notLoggedOut));
  });

  it("lets relative times go on", async () => {
    vi.useFakeTimers({ toFake: ["Date", "setInterval", "clearInterval"], now: Date.parse(alert.raised_at) + DAY_MS });
    try {
      await show("/alerts");
      expect(document.querySelector(".zv-time")?.textContent).toBe("yesterday");
      await act(() => vi.advanceTimersByTimeAsync(DAY_MS));
      expect(document.querySelector(".zv-time")?.textContent).toBe("2 days ago");
    } finally {
      vi.useRealTimers();
    }
  });
});
