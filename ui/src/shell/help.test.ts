// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import appliance from "../../docs/appliance.md?raw";
import guide from "../../docs/guide.md?raw";
import routes from "../app.tsx?raw";
import { SECTIONS, sectionOf } from "./help";

const DOCUMENTS: Readonly<Record<string, string>> = { "guide.html": guide, "appliance.html": appliance };

describe("help", () => {
  it.each([
    ["/", "guide.html"],
    ["/nowhere", "guide.html"],
    ["/datastores", "guide.html#create-a-vmfs-datastore"],
    ["/datastores/1/overview", "guide.html#create-a-vmfs-datastore"],
    ["/datastores/1/snapshots", "guide.html#restore"],
    ["/pools/-new", "guide.html#create-a-pool"],
    ["/pools/tank", "guide.html#replace-a-disk"],
  ])("of %s is %s", (pathname, section) => expect(sectionOf(pathname)).toBe(section));

  it.each(Object.values(SECTIONS))("has the section %s", (section) => {
    const [document = "", anchor] = section.split("#");
    const headings = [...(DOCUMENTS[document] ?? "").matchAll(/^##+ (.*)$/gm)].map(([, heading = ""]) => heading);
    const anchors = headings.map((heading) =>
      heading
        .toLowerCase()
        .replaceAll(/[^a-z0-9 _-]/g, "")
        .replaceAll(" ", "-"),
    );
    if (anchor !== undefined) expect(anchors).toContain(anchor);
  });

  it("knows each page of the navigation", () => {
    const pages = [...routes.matchAll(/<Route path="(\/[a-z]+)"/g)].map(([, path = ""]) => path);
    expect(pages.filter((path) => path !== "/login" && !(path in SECTIONS))).toEqual([]);
  });
});
