// SPDX-License-Identifier: Apache-2.0
/**
 * Where the console ends: the network, and what of a browser the DOM of these tests lacks. Imported before the console, which takes `fetch`
 * as it finds it.
 */

import { problemBody } from "./problems";
import { world } from "./world";

/** A request that changes something. */
export interface Sent {
  readonly method: string;
  /** Below /api/v1. */
  readonly path: string;
  /** The query, with its question mark. */
  readonly search: string;
  readonly body: unknown;
  readonly headers: Headers;
}

/** What a request is answered with; null: the connection is lost. */
export type Answer = { readonly status: number; readonly body: unknown } | null;

interface Service {
  /** Whether nobody is logged in, or nobody any more. */
  out: boolean;
  /** Responses other than the world's, by path. */
  responses: Readonly<Record<string, unknown>>;
  /** Paths that are answered with 503. */
  broken: readonly string[];
  /** All requests that change something. */
  sent: Sent[];
  /** What the next ones are answered with; a login, where nothing is said, with the session. */
  answers: (Answer | Promise<Answer>)[];
  /** Questions that nobody here can answer. */
  unknown: string[];
}

export const service: Service = { out: false, responses: {}, broken: [], sent: [], answers: [], unknown: [] };

export function beginService(begin: Partial<Service> = {}): void {
  Object.assign(service, { out: false, responses: {}, broken: [], sent: [], answers: [], unknown: [], ...begin });
}

function json(status: number, body: unknown): Response {
  const type = status < 400 ? "application/json" : "application/problem+json";
  return new Response(JSON.stringify(body), { status, headers: { "Content-Type": type } });
}

function read(path: string): Response {
  const responses = { ...world, ...service.responses };
  if (path === "/session" && service.out) return json(401, problemBody(401));
  if (service.broken.includes(path)) return json(503, problemBody(503));
  if (path in responses) return json(200, responses[path]);
  service.unknown.push(path);
  return json(404, problemBody(404));
}

async function answer(request: Request): Promise<Response> {
  const { pathname, search } = new URL(request.url);
  const path = decodeURIComponent(pathname).replace("/api/v1", "");
  if (request.method === "GET") return read(path);
  const content = await request.text();
  const body: unknown = content === "" ? null : JSON.parse(content);
  service.sent.push({ method: request.method, path, search, body, headers: request.headers });
  if (request.method === "POST" && path === "/session" && service.answers.length === 0) {
    service.out = false;
    return json(201, world["/session"]);
  }
  const next = await service.answers.shift();
  if (next === undefined) throw new Error(`nobody has said what ${request.method} ${path} is answered with`);
  if (next === null) throw new TypeError("the connection is lost");
  if (next.status === 401) service.out = true;
  return json(next.status, next.body);
}

globalThis.fetch = (input, init) => answer(new Request(input, init));

const nothing = (): void => undefined;

/** Of a browser that shows no page to anybody: no dark theme, no sizes, no stream of events, no other tabs. */
class Quiet {
  close = nothing;
  disconnect = nothing;
  observe = nothing;
  unobserve = nothing;
  addEventListener = nothing;
  postMessage = nothing;
}
const browser = {
  BroadcastChannel: Quiet,
  EventSource: Quiet,
  ResizeObserver: Quiet,
  matchMedia: () => ({ matches: false, addEventListener: () => undefined }),
  scrollTo: () => undefined,
};
Blob.prototype.text = function text(this: Blob): Promise<string> {
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.readAsText(this);
  });
};
URL.createObjectURL = () => "blob:a file";
HTMLAnchorElement.prototype.click = () => undefined;
for (const [name, value] of Object.entries(browser)) Object.defineProperty(window, name, { value, configurable: true });
Object.defineProperty(navigator, "locks", { value: { request: () => new Promise(() => undefined) } });
