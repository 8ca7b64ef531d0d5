/** Makes the pictures in docs/images with a real service. */

import { launch, Watched } from "./browser/browser.js";
import { Service, TREE } from "./service.js";

const service = await Service.start();
const browser = await launch("--disable-lcd-text"); // grey letters make small files
const on = await Watched.open(browser, `${service.url}/`, { viewport: { width: 1360, height: 900 } });
await on.done();
await on.range();
await on.page.screenshot({ path: `${TREE}docs/images/page.png` });
await on.close();
await browser.close();
await service.stop();
