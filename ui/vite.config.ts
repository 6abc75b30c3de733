// SPDX-License-Identifier: Apache-2.0
/// <reference types="vitest/config" />
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { preload } from "./build/preload";

export default defineConfig({
  plugins: [react(), preload("start")],
  // A machine that is slow, and does other things too, needs long for a screen.
  test: { setupFiles: ["tests/english.ts"], testTimeout: 120_000 },
  build: {
    target: "es2022",
    outDir: "site",
    // Nothing becomes a data: address, which the Content-Security-Policy does not allow for fonts and scripts.
    assetsInlineLimit: 0,
    // The polyfill would be for browsers that can't show the console anyway.
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // What counts is compressed: tests/browser measures the first load.
    chunkSizeWarningLimit: 1000,
  },
});
