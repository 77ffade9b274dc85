// Every kind of reader tails the same stream while the server is killed and started again under all of them.

import { test } from "vitest"

import { browserReader } from "./readers/browser.mjs"
import { clientReaders } from "./readers/client.mjs"
import { httpReaders } from "./readers/http.mjs"
import { storyTimeoutMs, throughRestarts } from "./story.mjs"

test("all readers see every record once, in order, through kill -9", { timeout: storyTimeoutMs }, async () => {
  await throughRestarts([browserReader, ...clientReaders, ...httpReaders])
})
