// A browser's own EventSource: it reconnects by itself and says with Last-Event-ID where it was. The page comes from
// another origin, so the reads are cross-origin.

import { once } from "node:events"
import { createServer } from "node:http"

import { chromium } from "playwright-core"

const browserOptions = {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
}

export const browserReader = { name: "EventSource", tail }

async function tail(stream, see, signal) {
  const pages = createServer((_request, response) => {
    response.setHeader("Content-Type", "text/html")
    response.end("<!doctype html><title>reader</title>")
  }).listen(0, "127.0.0.1")
  await once(pages, "listening")
  const browser = await chromium.launch(browserOptions)
  try {
    const page = await browser.newPage()
    const failed = new Promise((_, reject) => page.exposeFunction("fail", (why) => reject(new Error(why))))
    await page.exposeFunction("see", (numbers) => numbers.forEach(see))
    await page.goto(`http://127.0.0.1:${pages.address().port}/`)
    await page.evaluate(follow, `${stream.pico}?live=sse`)
    await Promise.race([failed, signal.aborted || once(signal, "abort")])
  } finally {
    await browser.close()
    pages.close()
  }
}

/** Runs in the page. */
function follow(url) {
  const source = new EventSource(url)
  source.addEventListener("data", (event) => {
    see(JSON.parse(event.data).map((record) => JSON.parse(record.body).n))
  })
  source.addEventListener("error", () => {
    // A lost connection leaves it CONNECTING; CLOSED means that it gave up, as it does on an error status.
    if (source.readyState === EventSource.CLOSED) fail("EventSource gave up")
  })
}
