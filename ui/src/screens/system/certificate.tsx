// SPDX-License-Identifier: Apache-2.0
/** Replaces the certificate by one of an authority. */

import { useState } from "react";
import { api } from "../../api/client";
import { ChangeDialog } from "../../parts/change-dialog";
import { LinesField } from "../../parts/field";
import { text } from "../../text";

const words = text.system.certificate;

export function ReplaceCertificate({ onClose }: { readonly onClose: () => void }) {
  const [certificate, setCertificate] = useState("");
  const [key, setKey] = useState("");
  const body = { certificate, private_key: key };
  return (
    <ChangeDialog
      title={words.replaceTitle}
      lead={words.replaceLead}
      submit={words.replaceSubmit}
      ready={certificate !== "" && key !== ""}
      knownFields={["certificate", "private_key"]}
      body={() => body}
      ask={(body, headers) => api.PUT("/api/v1/certificate", { body, headers })}
      changes={["certificate"]}
      done={words.replaced}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <LinesField
            id="certificate-chain"
            label={words.chain}
            help={words.chainHelp}
            value={certificate}
            onChange={setCertificate}
            problem={problem?.fields.get("certificate")}
            required
          />
          <LinesField
            id="certificate-key"
            label={words.key}
            help={words.keyHelp}
            value={key}
            onChange={setKey}
            problem={problem?.fields.get("private_key")}
            required
          />
        </>
      )}
    </ChangeDialog>
  );
}
