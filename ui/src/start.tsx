// SPDX-License-Identifier: Apache-2.0
import "@patternfly/react-core/dist/styles/base.css";
import "./console.css";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App, newCache } from "./app";
import { applyTheme, readTheme } from "./shell/theme";

applyTheme(readTheme());
const root = document.getElementById("root");
if (root === null) throw new Error("the page has no #root");
const client = newCache();
createRoot(root).render(
  <StrictMode>
    <App client={client} />
  </StrictMode>,
);
