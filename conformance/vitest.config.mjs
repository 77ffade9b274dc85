import { defineConfig } from "vitest/config"

import { allButLeftOut } from "./left-out.mjs"

export default defineConfig({
  test: {
    include: ["*.test.mjs"],
    testNamePattern: allButLeftOut,
    // Every file runs its own server; one after the other, so that a small machine measures nothing but the server.
    fileParallelism: false,
    hookTimeout: 30_000,
  },
})
