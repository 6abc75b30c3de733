// SPDX-License-Identifier: Apache-2.0
/**
 * The version of an object that a dialog was opened with: of two concurrent changes the later one is refused, and its user
 * decides.
 */

import { useQueryClient, type QueryClient, type QueryExecuteOptions } from "@tanstack/react-query";
import { useEffect, useEffectEvent, useState } from "react";
import { idempotent, unwrap, type Outcome } from "../api/client";
import { asProblem } from "../api/problem";
import { mergedOf } from "./changed";

interface Versioned {
  readonly etag: string;
}

export type Fact = readonly [name: string, value: string];

/** A fact that has changed. */
export interface News {
  readonly name: string;
  readonly now: string;
  readonly before: string;
}

/** The object of a dialog as its reader knows it: as read when the dialog opened, or later, after a refusal. */
export interface Known<Thing = unknown> {
  readonly thing: Thing;
  readonly etag: string;
  /** True while the dialog opens and reads the object: the page can be older than the user's last change. */
  readonly opening: boolean;
  /** Changed facts of the last refusal. */
  readonly news: readonly News[];
  /** Reads the present version. Throws ApiProblem. */
  readonly readAnew: () => Promise<void>;
}

/** Query of a single object; its key begins with the list's key. */
type Reading<Thing, Key extends readonly unknown[]> = QueryExecuteOptions<Thing, Error, Thing, Thing, Key>;

/** The present version: a running query may have started before the change. Throws ApiProblem. */
export async function readNow<Thing, Key extends readonly unknown[]>(
  client: QueryClient,
  reading: Reading<Thing, Key>,
): Promise<Thing> {
  await client.cancelQueries({ queryKey: reading.queryKey, exact: true });
  return client.query({ ...reading, staleTime: 0, retry: false });
}

export function newsOf(before: readonly Fact[], now: readonly Fact[]): readonly News[] {
  const known = new Map(before);
  return now
    .map(([name, value]) => ({ name, now: value, before: known.get(name) ?? "" }))
    .filter((fact) => fact.now !== fact.before);
}

/**
 * `facts` are shown if the object differs after a refusal; `onNews` gets the known and the present version, also when the dialog
 * opens.
 */
export function useKnown<Thing extends Versioned, Key extends readonly unknown[]>(
  opened: Thing,
  reading: Reading<Thing, Key>,
  facts: (thing: Thing) => readonly Fact[],
  onNews?: (before: Thing, now: Thing) => void,
): Known<Thing> {
  const client = useQueryClient();
  const [thing, setThing] = useState(opened);
  const [news, setNews] = useState<readonly News[]>([]);
  const [opening, setOpening] = useState(true);
  const take = (now: Thing) => {
    setThing(now);
    onNews?.(thing, now);
  };
  const open = useEffectEvent(async (isOpen: () => boolean) => {
    // If it cannot be read, the version that the page shows is used: the request applies to that version only.
    const now = await readNow(client, reading).catch(() => undefined);
    if (!isOpen()) return;
    if (now !== undefined) take(now);
    setOpening(false);
  });
  useEffect(() => {
    let isOpen = true;
    void open(() => isOpen);
    return () => {
      isOpen = false;
    };
  }, []);
  const readAnew = async () => {
    const now = await readNow(client, reading);
    void client.invalidateQueries({ queryKey: reading.queryKey.slice(0, 1) });
    take(now);
    setNews(newsOf(facts(thing), facts(now)));
  };
  return { thing, etag: thing.etag, opening, news, readAnew };
}

/** With a form: changed fields stay, unchanged fields follow the object. `first` is the unchanged form. */
export function useKnownForm<Thing extends Versioned, Key extends readonly unknown[], Form extends object>(
  opened: Thing,
  reading: Reading<Thing, Key>,
  facts: (thing: Thing) => readonly Fact[],
  formOf: (thing: Thing) => Form,
) {
  const [form, setForm] = useState(() => formOf(opened));
  const known = useKnown(opened, reading, facts, (before, now) =>
    setForm((typed) => mergedOf(formOf(before), typed, formOf(now))),
  );
  const change = (part: Partial<Form>) => setForm((typed) => ({ ...typed, ...part }));
  return { known, first: formOf(known.thing), form, change };
}

/** Headers of the request: the service carries it out once, and only on the known version. */
export type SentWith = Readonly<Record<"Idempotency-Key", string> & Partial<Record<"If-Match", string>>>;

/** Sends a change of the known version. If the object has changed, it is read again and shown with the refusal. */
export async function sendKnown<Answer>(
  send: (headers: SentWith) => Promise<Outcome<Answer>>,
  key: string,
  known: Known | undefined,
): Promise<NonNullable<Answer>> {
  try {
    return await unwrap(send({ ...idempotent(key), ...(known && { "If-Match": known.etag }) }));
  } catch (error) {
    if (known !== undefined && asProblem(error).status === 412) {
      await known.readAnew().catch((again: unknown) => {
        // The object was deleted. If its present version cannot be loaded, the change is refused too.
        if (asProblem(again).status === 404) throw again;
      });
    }
    throw error;
  }
}
