/** The version of a thing that a dialog was opened with: of two who change it the later one is told so, and decides. */

import { useQueryClient, type QueryExecuteOptions } from "@tanstack/react-query";
import { useState } from "react";
import { idempotent, told, type Outcome } from "../api/client";
import { asProblem } from "../api/problem";
import { mergedOf } from "./changed";

interface Versioned {
  readonly etag: string;
}

export type Fact = readonly [name: string, value: string];

/** A fact that is otherwise by now. */
export interface News {
  readonly name: string;
  readonly now: string;
  readonly before: string;
}

/** What a dialog is about, as its reader knows it: as when it was opened, or as a refusal told since. */
export interface Known<Thing = unknown> {
  readonly thing: Thing;
  readonly etag: string;
  /** Of the last refusal. */
  readonly news: readonly News[];
  /** Reads it, and takes over what it is now. Throws ApiProblem. */
  readonly readAnew: () => Promise<void>;
}

/** How one thing is read, by itself and not in a list; its key begins with the list's. */
type Reading<Thing, Key extends readonly unknown[]> = QueryExecuteOptions<Thing, Error, Thing, Thing, Key>;

export function newsOf(before: readonly Fact[], now: readonly Fact[]): readonly News[] {
  const known = new Map(before);
  return now
    .map(([name, value]) => ({ name, now: value, before: known.get(name) ?? "" }))
    .filter((fact) => fact.now !== fact.before);
}

/** `facts` are what a reader is told of it when it is otherwise; `onNews` is told of what was known, and of what is. */
export function useKnown<Thing extends Versioned, Key extends readonly unknown[]>(
  opened: Thing,
  reading: Reading<Thing, Key>,
  facts: (thing: Thing) => readonly Fact[],
  onNews?: (before: Thing, now: Thing) => void,
): Known<Thing> {
  const client = useQueryClient();
  const [thing, setThing] = useState(opened);
  const [news, setNews] = useState<readonly News[]>([]);
  const readAnew = async () => {
    const now = await client.query({ ...reading, staleTime: 0, retry: false });
    void client.invalidateQueries({ queryKey: reading.queryKey.slice(0, 1) });
    setThing(now);
    setNews(newsOf(facts(thing), facts(now)));
    onNews?.(thing, now);
  };
  return { thing, etag: thing.etag, news, readAnew };
}

/** With a form over it: what was typed stays, what was not touched follows. `first` is the form as nobody has touched it. */
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

/** Headers of what is sent: done once, and only to what is known. */
export type SentWith = Readonly<Record<"Idempotency-Key", string> & Partial<Record<"If-Match", string>>>;

/** Sends a change of what is known; where it is another by now it is read, so that it can be shown with the refusal. */
export async function sendKnown<Answer>(
  send: (headers: SentWith) => Promise<Outcome<Answer>>,
  key: string,
  known: Known | undefined,
): Promise<NonNullable<Answer>> {
  try {
    return await told(send({ ...idempotent(key), ...(known && { "If-Match": known.etag }) }));
  } catch (error) {
    if (known !== undefined && asProblem(error).status === 412) {
      await known.readAnew().catch((again: unknown) => {
        // It is not there any more: that is what has changed. Who can't be told what it is now is refused all the same.
        if (asProblem(again).status === 404) throw again;
      });
    }
    throw error;
  }
}
