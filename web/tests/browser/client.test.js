/** The JavaScript client in Chromium, on a page of another origin: CORS_ORIGINS for real. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { CLIENT, Service, serving } from "../service.js";
import { launch } from "./browser.js";

/** @import { Browser, Page } from "playwright-core" */
/** @typedef {typeof import("../../../service/tensor_round_service/pages/web/client/index.js")} TensorRound */

const ELSEWHERE = '<!DOCTYPE html><script type="module">import * as tr from "/client/index.js"; globalThis.tr = tr;</script>';
/** @type {Awaited<ReturnType<typeof serving>>} */
let server;
/** @type {Browser} */
let browser;
/** @type {Service} */
let service;
/** @type {Page} */
let page;

before(async () => {
  server = await serving((request, response) => {
    const [, script] = /^\/client\/(\w+\.js)$/.exec(request.url ?? "") ?? [];
    response.setHeader("Content-Type", script ? "text/javascript" : "text/html");
    response.end(script ? readFileSync(`${CLIENT}/${script}`) : ELSEWHERE);
  });
  service = await Service.start("--cors-origins", server.url);
  browser = await launch();
  page = await browser.newPage();
  await page.goto(server.url);
});
after(async () => {
  await browser.close();
  await service.stop();
  server.close();
});

test("typed arrays, Float16Array, streams and what responses say", async () => {
  const found = await page.evaluate(async (url) => {
    /** @type {{ tr: TensorRound }} */
    const { tr } = Object(globalThis);
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
    /** @type {{ tr: TensorRound }} */
    const { tr } = Object(globalThis);
    const client = new tr.Client(url);
    const x = new Float32Array(5);
    const refused = await client.round(x, { dialect: "directml", feature_level: "2_1" }).catch((e) => e);
    const aborted = await client.round(x, "ties_to_even", { signal: AbortSignal.abort() }).catch((e) => e);
    return [refused instanceof tr.InvalidDescriptor, refused.code, refused.requestId !== undefined, aborted.name];
  }, service.url);
  assert.deepEqual(found, [true, "invalid_descriptor", true, "AbortError"]);
});

test("a page of an origin that is not listed reads nothing, and is told what to check", async () => {
  const closed = await Service.start();
  const found = await page.evaluate(async (url) => {
    /** @type {{ tr: TensorRound }} */
    const { tr } = Object(globalThis);
    const error = await new tr.Client(url, { retries: 0 }).round(new Float32Array(5)).catch((e) => e);
    return [error.name, error.message];
  }, closed.url);
  const message = `no response from ${closed.url} (if the service runs: is ${server.url} in its CORS_ORIGINS?)`;
  assert.deepEqual(found, ["ConnectionFailed", message]);
  await closed.stop();
});
