/** Debian's Chromium, driven by Playwright; and pages that may say nothing wrong. */

import assert from "node:assert/strict";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";

const PROGRAM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export const launch = (...more: string[]): Promise<Browser> => chromium.launch({ executablePath: PROGRAM, args: [...QUIET, ...more] });

/** A page that keeps what went wrong in it, and what it asked other hosts for. */
export class Watched {
  readonly page: Page;
  readonly wrong: string[] = [];
  readonly foreign: string[] = [];

  private constructor(page: Page, host: string) {
    this.page = page;
    page.on("console", (message) => message.type() === "error" && this.wrong.push(message.text()));
    page.on("pageerror", (error) => this.wrong.push(String(error)));
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.host !== host && url.protocol !== "blob:" && url.protocol !== "data:") this.foreign.push(request.url());
    });
  }

  static async open(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<Watched> {
    const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...options });
    const watched = new Watched(await context.newPage(), new URL(url).host);
    watched.page.setDefaultTimeout(15_000);
    await watched.page.goto(url);
    return watched;
  }

  /** Nothing went wrong, the policy on content included, and no other host was asked; it is closed. */
  async close(): Promise<void> {
    await this.page.context().close();
    assert.deepEqual(this.wrong, []);
    assert.deepEqual(this.foreign, []);
  }

  /** The results, once they are there for this input. */
  async results(...inputs: string[]): Promise<string[]> {
    const rows = this.page.locator("#values-table tbody tr");
    await this.page.waitForFunction(
      (wanted) => Array.from(document.querySelectorAll("#values-table tbody tr"), (row) => row.firstElementChild?.textContent).join() === wanted,
      inputs.join(),
    );
    return rows.locator("td:nth-child(3)").allTextContents();
  }

  /** The plot's range, once it is drawn. */
  async range(): Promise<{ from: number; to: number; kind: string }> {
    const canvas = this.page.locator("canvas");
    // The results above it have their place.
    await this.page.waitForFunction(() => document.querySelector("#done")?.textContent);
    const read = async (): Promise<string[]> => Promise.all(["data-from", "data-to", "data-kind"].map(async (name) => (await canvas.getAttribute(name)) ?? ""));
    let [from, to, kind] = await read();
    for (let same = 0; same < 3; ) {
      await this.page.waitForTimeout(120);
      const again = await read();
      same = again.join() === [from, to, kind].join() && kind ? same + 1 : 0;
      [from, to, kind] = again;
    }
    return { from: Number(from), to: Number(to), kind: kind! };
  }
}
