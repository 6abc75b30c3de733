// SPDX-License-Identifier: Apache-2.0
/** The object of a job, a check or an entry of the audit, by its readable name. */

import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { datastoresQuery, groupsQuery, hostsQuery, schedulesQuery, usersQuery } from "../api/queries";
import { useMay } from "../session/session";

/** The first part of a subject. The name of a file or a snapshot can follow. */
export function partsOf(subject: string): readonly [about: string, rest: string] {
  const [about = subject] = /^[0-9a-f-]{36}(?=[/@]|$)/.exec(subject) ?? [];
  return [about, subject.slice(about.length)];
}

/** The object's name at the time (`name`), or else its name now, with a link if the object exists. "–" is the whole appliance. */
export function useAbout(): (subject: string, name?: string) => ReactNode {
  const { data: hosts = [] } = useQuery(hostsQuery);
  const { data: stores = [] } = useQuery(datastoresQuery);
  const { data: groups = [] } = useQuery(groupsQuery);
  const { data: schedules = [] } = useQuery(schedulesQuery);
  const { data: users = [] } = useQuery({ ...usersQuery, enabled: useMay("admin") });
  return (subject, name = "") => {
    const shown = (now: string): string => (name === "" ? now : name);
    const [about, rest] = partsOf(subject);
    const host = hosts.find(({ id }) => id === about);
    if (host !== undefined) return <Link to={`/hosts/${host.id}`}>{shown(host.name)}</Link>;
    const store = stores.find(({ id, uuid }) => id === about || uuid === about);
    if (store !== undefined)
      return (
        <>
          <Link to={`/datastores/${store.id}/overview`}>{shown(store.name)}</Link>
          {name === "" && rest}
        </>
      );
    const group = groups.find(({ id }) => id === about);
    if (group !== undefined) return <Link to="/hosts?show=groups">{shown(group.name)}</Link>;
    const schedule = schedules.find(({ id }) => id === about);
    if (schedule !== undefined) return <Link to="/schedules">{shown(schedule.name)}</Link>;
    const user = users.find(({ id }) => id === about);
    if (user !== undefined) return shown(user.name);
    return shown(subject === "" ? "–" : subject);
  };
}
