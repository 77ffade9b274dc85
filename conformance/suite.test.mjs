// The official suite against one server on its embedded defaults.

import { afterAll } from "vitest"

import { runSuite, suiteFlags } from "./official.mjs"
import { Server } from "./server.mjs"

const server = await Server.start({ flags: suiteFlags })
afterAll(() => server.stop())

runSuite("one node", server.url)
