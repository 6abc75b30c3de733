// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { asProblem, connectionProblem, problemOf } from "./problem";

const DOCUMENT = {
  type: "urn:zvaai:problem:conflict",
  title: "Conflict",
  status: 409,
  detail: "hosts are logged in: esx1",
  code: "conflict",
  errors: [{ field: "name", reason: "taken", allowed: "another" }],
  blocking: ["esx1"],
  can_force: true,
  retry_after: null,
};

describe("problemOf", () => {
  it("has what the document tells", () => {
    const problem = problemOf(409, DOCUMENT);
    expect(problem.message).toBe("hosts are logged in: esx1");
    expect(problem.fields.get("name")).toBe("taken; allowed: another");
    expect(problem.blocking).toEqual(["esx1"]);
    expect(problem.canForce).toBe(true);
    expect(problem.effect).toBe("nothing-changed");
  });

  it("finds what is wrong with a part of a field", () => {
    const problem = problemOf(422, { ...DOCUMENT, errors: [{ field: "iqns.1", reason: "too long" }] });
    expect(problem.at("iqns")).toBe("too long");
    expect(problem.at("iqn")).toBeUndefined();
  });

  it("shows nothing of a body that is no problem document", () => {
    expect(problemOf(502, "<html>Traceback: secret</html>").message).toBe("");
    expect(problemOf(500, { detail: 5 }).message).toBe("");
  });

  it("does not know what a fault of the service has changed", () => {
    expect(problemOf(500, DOCUMENT).effect).toBe("unknown");
    expect(connectionProblem().effect).toBe("unknown");
    expect(connectionProblem().isConnection).toBe(true);
  });

  it("takes anything that was thrown", () => {
    expect(asProblem(new TypeError("x")).code).toBe("console");
    const problem = problemOf(401, DOCUMENT);
    expect(asProblem(problem)).toBe(problem);
    expect(problem.isSession).toBe(true);
  });
});
