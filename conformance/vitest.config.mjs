import { defineConfig } from "vitest/config"

import { allButLeftOut } from "./left-out.mjs"

export default defineConfig({
  test: {
    include: ["*.test.mjs"],
    testNamePattern: allButLeftOut,
    // Every file runs its own server; one after the other, so that a small machine measures nothing but the server.
    fileParallelism: false,
    // The suite compares a hundred thousand bytes one by one, which is slow where others use the processor as well.
    testTimeout: 120_000,
    hookTimeout: 300_000,
  },
})
