// SPDX-License-Identifier: Apache-2.0
import type { HtmlTagDescriptor, Plugin } from "vite";

/** Names the parts that every visit needs in index.html, so that the browser requests them with the first script and not after it. */
export function preload(name: string): Plugin {
  return {
    name: "preload",
    transformIndexHtml: {
      order: "post",
      handler: (_html, { bundle }) => {
        const chunks = Object.values(bundle ?? {}).filter((part) => part.type === "chunk");
        const byFile = new Map(chunks.map((chunk) => [chunk.fileName, chunk]));
        const needed = new Set(chunks.filter((chunk) => chunk.name === name).map((chunk) => chunk.fileName));
        for (const file of needed) for (const more of byFile.get(file)?.imports ?? []) needed.add(more);
        const styles = new Set([...needed].flatMap((file) => [...(byFile.get(file)?.viteMetadata?.importedCss ?? [])]));
        const link = (href: string, attrs: Record<string, string>): HtmlTagDescriptor => ({
          tag: "link",
          attrs: { ...attrs, crossorigin: true, href: `/${href}` },
          injectTo: "head",
        });
        return [
          ...[...styles].map((file) => link(file, { rel: "preload", as: "style" })),
          ...[...needed].map((file) => link(file, { rel: "modulepreload" })),
        ];
      },
    },
  };
}
