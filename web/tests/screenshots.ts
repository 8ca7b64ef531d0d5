/** Makes the pictures in docs/images with a real service. */

import { mkdirSync } from "node:fs";
import { launch, Watched } from "./browser/browser.ts";
import { Service, TREE } from "./service.ts";

const PICTURES = {
  page: ["#values=-0.5,-0.3,0.5,2.5", { viewport: { width: 1000, height: 800 } }, { width: 1000, height: 1700 }],
} as const;

const folder = `${TREE}docs/images`;
mkdirSync(folder, { recursive: true });
const service = await Service.start();
const browser = await launch("--disable-lcd-text"); // grey letters make small files
for (const [name, [fragment, look, size]] of Object.entries(PICTURES)) {
  const on = await Watched.open(browser, `${service.url}/${fragment}`, look);
  await on.page.waitForSelector("#values-table");
  await on.range();
  await on.page.screenshot({ path: `${folder}/${name}.png`, clip: { x: 0, y: 0, ...size }, fullPage: true });
  await on.close();
}
await browser.close();
await service.stop();
