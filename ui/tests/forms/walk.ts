// SPDX-License-Identifier: Apache-2.0
/**
 * A form and all its errors. It is filled in once, and stays on one page: the service refuses the request, fails or cannot be
 * reached, and accepts it in the end.
 */

import { render } from "@testing-library/react";
import type { UserEvent } from "@testing-library/user-event";
import { createElement } from "react";
import { expect } from "vitest";
import { App, newCache } from "../../src/app";
import { beginService, service, type Answer, type Sent } from "./border";
import { dialog, field, fill, isReady, newUser, press, problemIn, typed, until, type Value } from "./page";
import { problemBody, SECRET } from "./problems";
import { session } from "./world";

export interface Form {
  /** Its folder below src/screens and its component; where that sends several things, which one. */
  readonly form: string;
  /** The address of its screen. */
  readonly at: string;
  /** Responses other than the world's. */
  readonly responses?: Readonly<Record<string, unknown>>;
  /** Whether it is for whom nobody knows yet. */
  readonly out?: boolean;
  /** What is pressed to open it, by its names. */
  readonly open?: readonly string[];
  /** For forms outside dialogs. */
  readonly inPage?: boolean;
  /** What is filled in; a list: on one step after the other, each left by its button. */
  readonly fill?: Readonly<Record<string, Value>>;
  readonly steps?: readonly (readonly [button: string, fill: Readonly<Record<string, Value>>])[];
  /** A dry run that comes first, and what it is answered with. */
  readonly first?: readonly [button: string, answer: unknown];
  /** What sends it: a button, or a menu and its item. */
  readonly send: readonly string[];
  /** The request. */
  readonly sends: readonly [method: string, path: string, body?: unknown];
  /** The version that it is sent for. */
  readonly version?: string;
  /** Whether it says nothing of what was changed. */
  readonly changesNothing?: boolean;
  /** Whether it may be done twice. */
  readonly withoutKey?: boolean;
  /** Fields of the request, by the labels of the fields that show their problems. */
  readonly marks?: Readonly<Record<string, string>>;
  /** What it is answered with at last. */
  readonly answer?: unknown;
  /** What is shown then; of a dialog that it has gone. */
  readonly done?: string;
}

const UNKNOWN = "The request may have been carried out.";
const NOTHING = "Nothing was changed.";
const BLOCKING = "what is in the way of it";
const REASON = "a reason of the service";

interface Failure {
  readonly answer: Answer;
  readonly shown: readonly string[];
}

const refusal = (status: number, more = {}): Answer => ({ status, body: problemBody(status, more) });
/** The end of the session comes last: after a new login the user continues. */
const FAILURES: readonly Failure[] = [
  { answer: null, shown: ["The appliance does not answer", UNKNOWN] },
  { answer: refusal(409, { blocking: [BLOCKING] }), shown: ["Refused in the present state", NOTHING, BLOCKING] },
  {
    answer: refusal(422, { errors: [{ field: "nowhere", reason: REASON }] }),
    shown: ["Some values are invalid", NOTHING, REASON],
  },
  { answer: refusal(500), shown: ["Internal error of the appliance", UNKNOWN] },
  { answer: refusal(401), shown: ["Your session has ended", NOTHING, "Your input is still here"] },
];

/** Where a form is, and who fills it in. */
interface Place {
  readonly user: UserEvent;
  readonly scope: Element;
  readonly form: Form;
  readonly before: string;
}

async function openForm(form: Form): Promise<Place> {
  beginService({ responses: form.responses ?? {}, out: form.out ?? false });
  window.history.replaceState(null, "", form.at);
  render(createElement(App, { client: newCache() }));
  const user = newUser();
  await press(user, form.open ?? []);
  const scope = await until("it does not open", () => (form.inPage ? document.querySelector("main") : dialog()));
  if (!form.inPage) await until("the focus is on no field and not on Cancel", () => isFirstField(scope, document.activeElement));
  for (const [name, value] of Object.entries(form.fill ?? {})) await fill(user, scope, name, value);
  for (const [button, values] of form.steps ?? []) {
    for (const [name, value] of Object.entries(values)) await fill(user, scope, name, value);
    await press(user, [button], scope);
  }
  if (form.first !== undefined) {
    const [button, body] = form.first;
    service.answers = [{ status: 200, body }];
    await press(user, [button], scope);
  }
  const [button = ""] = form.send;
  await until("it can't be sent", () => isReady(button, scope));
  service.sent = [];
  return { user, scope, form, before: typed(scope) };
}

/** A dialog opens with the focus on a field or on Cancel: a space on its button X would close it. */
function isFirstField(scope: Element, focused: Element | null): boolean {
  if (focused === null || !scope.contains(focused)) return false;
  return focused.matches("input, select, textarea") || focused.textContent === "Cancel";
}

/** Sends it, to be answered so: what was sent, which is one request. */
async function sendOnce({ user, scope, form, before }: Place, { answer, shown }: Failure): Promise<Sent> {
  const had = service.sent.length;
  const [button = ""] = form.send;
  service.answers = [answer];
  await press(user, form.send, scope);
  const said = form.changesNothing ? shown.filter((line) => line !== UNKNOWN && line !== NOTHING) : shown;
  const isReported = () => said.every((line) => problemIn(scope).includes(line));
  await until(`${answer?.status ?? "a lost connection"} is not reported`, () => isReported() && isReady(button, scope));
  expect(typed(scope), "what was typed").toBe(before);
  expect(document.body.textContent, "what the service said of its fault").not.toContain(SECRET);
  const [sent, ...more] = service.sent.slice(had);
  expect(more, "sent more than once").toEqual([]);
  return sentAs(form, sent);
}

/** That it is the form's request. */
function sentAs({ sends: [method, path, body = null], version, out }: Form, sent: Sent | undefined): Sent {
  if (sent === undefined) throw new Error("nothing was sent");
  expect([sent.method, sent.path, sent.body]).toEqual([method, path, body]);
  expect(sent.headers.get("If-Match"), "the version").toBe(version ?? null);
  if (!out) expect(sent.headers.get("X-CSRF-Token")).toBe(session.csrf_token);
  return sent;
}

async function logInAgain({ user, scope, before }: Place): Promise<void> {
  const login = await until("no request to log in again", () => document.querySelector("#login-again-dialog"));
  await until("the login has no focus", () => login.contains(document.activeElement));
  await fill(user, login, "Password", "a password");
  await press(user, ["Log in again"], login);
  await until("the login stays", () => !login.isConnected);
  expect(typed(scope), "what was typed, after the login").toBe(before);
  await until("the focus has not come back", () => scope.contains(document.activeElement));
}

/** The service refuses each value that was sent: each reason is shown, at its field where the form has one for it. */
async function refuseAll(place: Place): Promise<void> {
  const { form, scope } = place;
  const { marks = {}, sends } = form;
  const [, , body] = sends;
  const names = [...new Set([...Object.keys(body ?? {}), ...Object.keys(marks)])];
  const reasonOf = (name: string) => `what is wrong with ${name}.`;
  await sendOnce(place, {
    answer: refusal(422, { errors: names.map((name) => ({ field: name, reason: reasonOf(name) })) }),
    shown: ["Some values are invalid", NOTHING],
  });
  for (const name of names) expect(scope.textContent).toContain(reasonOf(name));
  for (const [name, label] of Object.entries(marks)) {
    const marked = field(label, scope);
    expect(marked?.getAttribute("aria-invalid"), label).toBe("true");
    const described = document.getElementById(marked?.getAttribute("aria-describedby") ?? "");
    expect(described?.textContent, label).toContain(reasonOf(name));
    expect(problemIn(scope), "shown at its field, and there alone").not.toContain(reasonOf(name));
  }
}

/** Sends it once more, and it is taken. */
async function sendAtLast({ user, scope, form }: Place): Promise<void> {
  const had = service.sent.length;
  service.answers = form.answer === undefined ? [] : [{ status: 200, body: form.answer }];
  await press(user, form.send, scope);
  const { done } = form;
  if (!form.inPage) await until("the dialog stays", () => !scope.isConnected);
  if (done !== undefined) await until(`it does not say: ${done}`, () => document.body.textContent.includes(done));
  sentAs(form, service.sent[had]);
}

export async function walk(form: Form): Promise<void> {
  const place = await openForm(form);
  const sent: Sent[] = [];
  for (const failure of FAILURES) {
    const ends = failure.answer?.status === 401;
    if (ends && form.out) continue;
    sent.push(await sendOnce(place, failure));
    if (ends) await logInAgain(place);
    else if (!form.inPage) expect(place.scope.contains(document.activeElement), "the focus has left the dialog").toBe(true);
  }
  checkKeys(form, sent);
  await refuseAll(place);
  await sendAtLast(place);
  expect(service.unknown, "requested, and not in the world").toEqual([]);
}

/** After a lost connection and a 500 it is the same request; what was refused is another one. */
function checkKeys(form: Form, sent: readonly Sent[]): void {
  const keys = sent.map(({ headers }) => headers.get("Idempotency-Key"));
  if (form.withoutKey) {
    expect(keys.filter((key) => key !== null)).toEqual([]);
    return;
  }
  expect(keys).not.toContain(null);
  const [lost, conflict, invalid, fault, again] = keys;
  expect([lost === conflict, conflict === invalid, invalid === fault, fault === again]).toEqual([true, false, false, true]);
}
