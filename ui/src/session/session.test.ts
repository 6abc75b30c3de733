// SPDX-License-Identifier: Apache-2.0
import { QueryClient } from "@tanstack/react-query";
import { afterEach, describe, expect, it, vi } from "vitest";
import { endSession, renew } from "./session";

// Where the service is: there is no page here.
vi.hoisted(() => vi.stubGlobal("window", { location: { origin: "https://appliance.example" } }));

const KEY = ["session"];
const SESSION = { user: "1", name: "olga", role: "operator" };
const client = new QueryClient();

function begin(): void {
  client.setQueryData(KEY, { session: SESSION, ended: false });
}

function isEnded(): boolean | undefined {
  return client.getQueryData<{ ended: boolean }>(KEY)?.ended;
}

afterEach(() => client.clear());

describe("renew", () => {
  const changed = { data: {}, response: new Response() };

  it("takes what is refused before the new login for no end", async () => {
    begin();
    const logIn = vi.fn(() => {
      endSession(client);
      return Promise.resolve();
    });
    const outcome = await renew(client, () => Promise.resolve(changed), logIn);
    expect([outcome, logIn.mock.calls.length, isEnded()]).toEqual([changed, 1, false]);
    endSession(client);
    expect(isEnded()).toBe(true);
  });

  it("is an end where nobody can be logged in", async () => {
    begin();
    await renew(
      client,
      () => Promise.resolve(changed),
      () => Promise.reject(new Error("the worker does not answer")),
    );
    expect(isEnded()).toBe(true);
  });

  it("logs nobody in where nothing was changed, or nobody knows", async () => {
    begin();
    const logIn = vi.fn(() => Promise.resolve());
    await renew(client, () => Promise.resolve({ error: {}, response: new Response(null, { status: 422 }) }), logIn);
    await expect(renew(client, () => Promise.reject(new Error("no answer")), logIn)).rejects.toThrow("no answer");
    expect([logIn.mock.calls.length, isEnded()]).toEqual([0, false]);
    endSession(client);
    expect(isEnded()).toBe(true);
  });
});
