// SPDX-License-Identifier: Apache-2.0
// Puts FILE.br and FILE.gz next to each file of the built site that gets smaller by it: the service compresses nothing itself.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const SITE = new URL("../site/", import.meta.url).pathname;
const COMPRESSIBLE = /\.(html|js|css|svg|json|txt)$/;

for (const entry of readdirSync(SITE, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !COMPRESSIBLE.test(entry.name)) continue;
  const file = join(entry.parentPath, entry.name);
  const whole = readFileSync(file);
  const smaller = {
    br: brotliCompressSync(whole, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }),
    gz: gzipSync(whole, { level: 9 }),
  };
  for (const [suffix, bytes] of Object.entries(smaller)) {
    if (bytes.length < whole.length) writeFileSync(`${file}.${suffix}`, bytes);
  }
}
