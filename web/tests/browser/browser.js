/** Debian's Chromium, driven by Playwright; and pages that may say nothing wrong. */

import assert from "node:assert/strict";
import { chromium } from "playwright-core";

/** @import { Browser, BrowserContextOptions, Page } from "playwright-core" */

const PROGRAM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** @param {string[]} more */
export const launch = (...more) => chromium.launch({ executablePath: PROGRAM, args: [...QUIET, ...more] });

/** A page that keeps what went wrong in it, and what it asked other hosts for. */
export class Watched {
  /** @type {string[]} */
  wrong = [];
  /** @type {string[]} */
  foreign = [];

  /**
   * @param {Page} page
   * @param {string} host
   */
  constructor(page, host) {
    this.page = page;
    page.on("console", (message) => message.type() === "error" && this.wrong.push(message.text()));
    page.on("pageerror", (error) => this.wrong.push(String(error)));
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.host !== host && url.protocol !== "blob:" && url.protocol !== "data:") this.foreign.push(request.url());
    });
  }

  /**
   * @param {Browser} browser
   * @param {string} url
   * @param {BrowserContextOptions} [options]
   */
  static async open(browser, url, options = {}) {
    const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...options });
    const watched = new Watched(await context.newPage(), new URL(url).host);
    watched.page.setDefaultTimeout(15_000);
    await watched.page.goto(url);
    return watched;
  }

  /** Nothing went wrong, the policy on content included, and no other host was asked; it is closed. */
  async close() {
    await this.page.context().close();
    assert.deepEqual(this.wrong, []);
    assert.deepEqual(this.foreign, []);
  }

  /** Wait for the results, and for what is said about them. */
  async done() {
    await this.page.waitForFunction(() => document.querySelector("#results")?.ariaBusy === "false" && document.querySelector("#done")?.textContent);
  }

  /**
   * The results, once they are there for these inputs.
   *
   * @param {string[]} inputs
   */
  async results(...inputs) {
    await this.page.waitForFunction((wanted) => {
      const rows = document.querySelectorAll("#values-table tbody tr");
      return Array.from(rows, (row) => row.children[1]?.textContent).join() === wanted;
    }, inputs.join());
    await this.done();
    return this.page.locator("#values-table tbody td:nth-child(3)").allTextContents();
  }

  /**
   * The text of the first element that a selector finds.
   *
   * @param {string} selector
   */
  async text(selector) {
    return (await this.page.locator(selector).first().textContent()) ?? "";
  }

  /**
   * Where an element is.
   *
   * @param {string} selector
   */
  async box(selector) {
    const box = await this.page.locator(selector).first().boundingBox();
    assert.ok(box, `${selector} is not shown`);
    return box;
  }

  /** The plot's range, once it is drawn. */
  async range() {
    const canvas = this.page.locator("canvas");
    await this.done(); // the results above it have their place
    const read = async () => Promise.all(["data-from", "data-to", "data-kind"].map(async (name) => (await canvas.getAttribute(name)) ?? ""));
    let [from, to, kind] = await read();
    for (let same = 0; same < 3; ) {
      await this.page.waitForTimeout(120);
      const again = await read();
      same = again.join() === [from, to, kind].join() && kind ? same + 1 : 0;
      [from, to, kind] = again;
    }
    return { from: Number(from), to: Number(to), kind };
  }
}
