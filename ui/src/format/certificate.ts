// SPDX-License-Identifier: Apache-2.0
import { text } from "../text";

/** A certificate by the last characters of its signature: enough to distinguish two. */
export function formatCertificate(certificate: string | null | undefined): string {
  if (certificate == null) return text.common.unset;
  return text.common.certificateEnd(certificate.replaceAll(/-----[A-Z ]+-----|\s/g, "").slice(-12));
}
