// SPDX-License-Identifier: Apache-2.0
/** Result of a file's clone: shared and copied bytes. */

import type { Job } from "../../api/types";
import { formatBytes } from "../../format/bytes";
import { text } from "../../text";

const words = text.files.clones;
const reasons = text.datastores.detail.vaai.nas.reasons;

/** Result of a finished clone: shared bytes, copied bytes with reasons, holes. */
export function waysOf({ result }: Pick<Job, "result">): string {
  const size = (name: string) => {
    const value = result?.[name];
    return typeof value === "string" && value !== "0" ? formatBytes(value) : null;
  };
  const [shared, copied, holes] = [size("cloned_bytes"), size("copied_bytes"), size("hole_bytes")];
  const because = result?.["copied_because"];
  const why =
    typeof because === "object" && because !== null ? Object.keys(because).map((reason) => reasons[reason]?.[0] ?? reason) : [];
  const parts = [
    shared === null ? null : words.shared(shared),
    copied === null ? null : [words.copied(copied), ...(why.length > 0 ? [words.because(why.join("; "))] : [])].join(" "),
    holes === null ? null : words.holes(holes),
  ].filter((hole) => hole !== null);
  return parts.length === 0 ? words.nothing : parts.join(", ");
}
