/** The JavaScript client in Chromium, on a page of another origin: CORS_ORIGINS for real. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import type * as TensorRound from "../../client/src/index.ts";
import { Service, WEB } from "../service.ts";
import { launch } from "./browser.ts";

const ELSEWHERE = '<!DOCTYPE html><script type="module">import * as tr from "/dist/index.js"; globalThis.tr = tr;</script>';
/** What that page has imported. */
declare const tr: typeof TensorRound;
let server: Server;
let browser: Browser;
let service: Service;
let page: Page;
let origin: string;

before(async () => {
  server = createServer((request, response) => {
    const isScript = /^\/dist\/\w+\.js$/.test(request.url ?? "");
    response.setHeader("Content-Type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? readFileSync(`${WEB}client${request.url}`) : ELSEWHERE);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  service = await Service.start("--cors-origins", origin);
  browser = await launch();
  page = await browser.newPage();
  await page.goto(origin);
});
after(async () => {
  await browser.close();
  await service.stop();
  server.close();
});

test("typed arrays, Float16Array, streams and what responses say", async () => {
  const found = await page.evaluate(async (url) => {
    const client = new tr.Client(url);
    const x = Float32Array.of(-2.5, -0.3, 0.5, 1.5, 2.5);
    const half = await client.round(Float16Array.of(0.5, 1.5));
    const descriptor = tr.descriptorOf("ties_to_away", "float32", [5]);
    const stream = new Blob([x]).stream();
    const { data, backend, layout, requestId, timing } = await client.execute(descriptor, stream);
    return {
      plain: [...(await client.round(x))].map(String),
      half: [half.constructor.name, ...half],
      away: [...new Float32Array(data)],
      bits: [...(await client.round(Uint16Array.of(0x3fc0), "ties_to_even", { dtype: "bfloat16" }))],
      said: [backend, layout.byte_length, requestId !== "", Object.keys(timing).join()],
      ready: await client.ready(),
    };
  }, service.url);
  assert.deepEqual(found, {
    plain: ["-2", "0", "0", "2", "2"],
    half: ["Float16Array", 0, 2],
    away: [-3, -0, 1, 2, 3],
    bits: [0x4000],
    said: ["numpy", 20, true, "receive,queue,execute"],
    ready: true,
  });
});

test("refusals are read across origins, and signals end calls", async () => {
  const found = await page.evaluate(async (url) => {
    const client = new tr.Client(url);
    const x = new Float32Array(5);
    const refused = (await client.round(x, { dialect: "directml", feature_level: "2_1" }).catch((e: unknown) => e)) as TensorRound.RequestRefused;
    const aborted = (await client.round(x, "ties_to_even", { signal: AbortSignal.abort() }).catch((e: unknown) => e)) as Error;
    return [refused instanceof tr.InvalidDescriptor, refused.code, refused.requestId !== undefined, aborted.name];
  }, service.url);
  assert.deepEqual(found, [true, "invalid_descriptor", true, "AbortError"]);
});

test("a page of an origin that is not listed reads nothing", async () => {
  const closed = await Service.start();
  const name = await page.evaluate(async (url) => {
    const error = (await new tr.Client(url, { retries: 0 }).round(new Float32Array(5)).catch((e: unknown) => e)) as Error;
    return error.name;
  }, closed.url);
  assert.equal(name, "ConnectionFailed");
  await closed.stop();
});
