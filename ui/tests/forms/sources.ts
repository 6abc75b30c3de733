// SPDX-License-Identifier: Apache-2.0
/** Which forms there are, by the console's sources: a component that sends something is found by the parts that it does so with. */

const sources = import.meta.glob<string>("../../src/**/*.{ts,tsx}", { query: "?raw", import: "default", eager: true });

const SENDS = /^\s*const (\w+|\{[^}]*\}) = useSubmission\b|<(?:JobDialog|ChangeDialog)\b/gm;
const REQUESTS = /\bapi\.(POST|PUT|PATCH|DELETE)\b/;
const SCREENS = "../../src/screens/";

/** Those of a module, components too: each from its name on. */
function functionsOf(source: string): string[] {
  // At the beginning of a line.
  return source.split(/^(?:export )?(?:default )?(?:async )?function /m).slice(1);
}

/** What a screen sends: its folder and component, and where a component sends several things, the name of each. */
export function formsInSources(): string[] {
  return Object.entries(sources)
    .filter(([path]) => path.startsWith(SCREENS) && path.endsWith(".tsx"))
    .flatMap(([path, source]) => {
      const folder = path.slice(SCREENS.length).split("/").slice(0, -1).join("/") || ".";
      return functionsOf(source).flatMap((component) => {
        const name = /^\w+/.exec(component)?.[0] ?? "";
        const several = [...component.matchAll(SENDS)].map(([, message = ""]) => message);
        return several.length === 1 ? [`${folder} ${name}`] : several.map((message) => `${folder} ${name}.${message}`);
      });
    });
}

/** Functions that send something, and whether they do so by the parts of forms. Users of the session's requests report their problems. */
export function functionsThatSend(): { readonly name: string; readonly isForm: boolean }[] {
  return Object.entries(sources)
    .filter(([path]) => !path.startsWith("../../src/session/") && !path.endsWith(".test.ts"))
    .flatMap(([path, source]) =>
      source.split(/^(?:export )?(?:default )?(?:async )?function /m).map((component) => ({ path, component })),
    )
    .filter(({ component }) => REQUESTS.test(component))
    .map(({ path, component }) => ({ name: `${path}: ${component.slice(0, 40)}`, isForm: new RegExp(SENDS).test(component) }));
}
