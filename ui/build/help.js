// SPDX-License-Identifier: Apache-2.0
// Makes pages of the documents for users, which the console's help opens: site/help/guide.html for docs/guide.md.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { Marked } from "marked";

const DOCUMENTS = new URL("../docs/", import.meta.url);
const SITE = new URL("../site/help/", import.meta.url);
const names = readdirSync(DOCUMENTS).map((file) => file.replace(/\.md$/, ""));

/** As in links of the documents. */
const anchorOf = (heading) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");

const marked = new Marked({
  renderer: {
    heading({ tokens, depth, text }) {
      return `<h${depth} id="${anchorOf(text)}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
    },
    link({ href, tokens }) {
      const label = this.parser.parseInline(tokens);
      const [, name, anchor = ""] = /^(?:([\w-]+)\.md)?(#.*)?$/.exec(href) ?? [];
      if (name !== undefined && !names.includes(name)) return label;
      if (name === undefined && anchor === "") return label;
      return `<a href="${name === undefined ? "" : `${name}.html`}${anchor}">${label}</a>`;
    },
  },
});

mkdirSync(SITE, { recursive: true });
for (const name of names) {
  const text = readFileSync(new URL(`${name}.md`, DOCUMENTS), "utf8");
  const title = /^# (.*)$/m.exec(text)[1];
  const headings = [...text.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading);
  const contents = headings.map((heading) => `<li><a href="#${anchorOf(heading)}">${heading}</a></li>`).join("\n");
  const page = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>${title} · zvaai</title>
    <link rel="icon" type="image/svg+xml" href="/favicon.svg" />
    <link rel="stylesheet" href="/help.css" />
  </head>
  <body>
    <nav aria-label="Contents">
      <ul>
${contents}
      </ul>
    </nav>
    <main>
${marked.parse(text)}
    </main>
  </body>
</html>
`;
  writeFileSync(new URL(`${name}.html`, SITE), page);
}
