/** The JavaScript client in node, against a real service. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  Client,
  ConnectionFailed,
  descriptorOf,
  DTYPES,
  toWire,
  InvalidDescriptor,
  NotFound,
  Overloaded,
  PayloadSizeMismatch,
  ProtocolViolation,
  REFUSALS,
  RequestRefused,
  TensorRoundError,
  Unauthorized,
} from "../../../service/tensor_round_service/pages/web/client/index.js";
import { Service, serving } from "../service.js";

/** @import { Descriptor, DType, Operator } from "../../../service/tensor_round_service/pages/web/client/index.js" */

const X = Float32Array.of(-2.5, -0.3, 0.5, 1.5, 2.5);
const KEY = "s3cret-of-alice";
/** @type {Service} */
let service;
/** @type {Client} */
let client;

before(async () => {
  service = await Service.start();
  client = new Client(service.url);
});
after(() => service.stop());

/**
 * A server that answers each request with the next of these: status, fields and body.
 *
 * @param {[number, Record<string, string>, string][]} replies
 */
async function scripted(...replies) {
  let asked = 0;
  const server = await serving((_request, response) => {
    const [status, headers, body] = replies[asked++] ?? replies.at(-1) ?? [500, {}, ""];
    response.writeHead(status, headers).end(body);
  });
  return { ...server, asked: () => asked };
}

test("arrays come back rounded, of the same class", async () => {
  const y = await client.round(X);
  assert.ok(y instanceof Float32Array);
  assert.deepEqual([...y], [-2, -0, 0, 2, 2]);
  assert.ok(Object.is(y[1], -0));
  assert.deepEqual([...X], [...Float32Array.of(-2.5, -0.3, 0.5, 1.5, 2.5)]);
});

test("casts come back as arrays of the target type, or as bits", async () => {
  const x = Float32Array.of(-500, -0.3, 0.5, 2.5, 500);
  const wide = await client.cast(x, "float64");
  assert.ok(wide instanceof Float64Array);
  assert.deepEqual([...wide], [...x]);
  assert.deepEqual(await client.cast(x, "int8", "onnx"), Int8Array.of(-128, 0, 0, 2, 127));
  assert.deepEqual(await client.cast(x, "int32", "toward_negative"), Int32Array.of(-500, -1, 0, 2, 500));
  const fp8 = [0xaa, 0x30, 0x42];
  assert.deepEqual(await client.cast(x, "float8_e4m3fn", "onnx:24"), Uint8Array.of(0xfe, ...fp8, 0x7e));
  assert.deepEqual(await client.cast(x, "float8_e4m3fn", "onnx:24", { saturate: false }), Uint8Array.of(0xff, ...fp8, 0x7f));
  assert.deepEqual(await client.cast(x, "bfloat16"), Uint16Array.of(0xc3fa, 0xbe9a, 0x3f00, 0x4020, 0x43fa));
  assert.deepEqual(await client.cast(x, "int4"), Uint8Array.of(8, 0, 0, 2, 7));
  assert.deepEqual(await client.cast(Uint8Array.of(0x42), "float32", "webnn", { dtype: "uint8" }), Float32Array.of(0x42));
  const halves = await client.cast(x, "float16", { dialect: "directml", operator: "CAST" });
  assert.deepEqual(new Uint16Array(halves.buffer, 0, 5), Uint16Array.of(0xdfd0, 0xb4cd, 0x3800, 0x4100, 0x5fd0));
  assert.equal(halves.length, 5);
  await assert.rejects(client.cast(x, /** @type {DType} */ ("half")), /to must be a dtype, got half/);
  await assert.rejects(client.cast(x, "float8_e5m2", "onnx:13"), InvalidDescriptor);
  await assert.rejects(client.cast(x, "int8", "onnx:Floor"), InvalidDescriptor);
});

test("quantizations take numbers and arrays", async () => {
  const x = Float32Array.of(-1000, 0.25, 2.5, -0.5, 3, NaN);
  const shape = [2, 3];
  assert.deepEqual(await client.quantize(x, 0.5, 3), Int8Array.of(-128, 3, 8, 2, 9, 3));
  const codes = await client.quantize(x, [0.5, 1, 2], Uint8Array.of(1, 2, 3), { shape, to: "uint8" });
  assert.deepEqual(codes, Uint8Array.of(0, 2, 4, 0, 5, 3));
  assert.deepEqual(await client.dequantize(codes, [0.5, 1, 2], [1, 2, 3], { shape }), Float32Array.of(-0.5, 0, 2, -0.5, 3, 0));
  assert.deepEqual(await client.quantize(x, 1, [-1, 1], { shape, axis: 0, to: "int4" }), Uint8Array.of(8, 15, 1, 1, 4, 1));
  const blocks = { shape, blockSize: 2, operator: "onnx:QuantizeLinear:21" };
  assert.deepEqual(await client.quantize(x, Float32Array.of(1, 0.5, 2, 1), undefined, blocks), Int8Array.of(-128, 0, 5, 0, 2, 0));
  assert.deepEqual([...(await client.dequantize(Int8Array.of(3), 0.5, 1, { to: "bfloat16" }))], [0x3f80]);
  assert.deepEqual(await client.quantize(Uint16Array.of(0x3f80), 0.5, 0, { dtype: "bfloat16", to: "float8_e4m3fn" }), Uint8Array.of(0x40));
  await assert.rejects(client.quantize(x, 1, 200), RangeError);
  await assert.rejects(client.quantize(x, 1, 0.5, { to: "int4" }), /zeroPoint must be of int4, got 0.5/);
  await assert.rejects(client.quantize(x, [1, 2], undefined, { shape }), InvalidDescriptor);
});

test("operators speak their dialects' words", async () => {
  const away = [-3, -0, 1, 2, 3];
  assert.deepEqual([...(await client.round(X, "ties_to_away"))], away);
  assert.deepEqual([...(await client.round(X, { dialect: "openvino", mode: "half_away_from_zero" }))], away);
  assert.deepEqual([...(await client.round(X, { dialect: "onnx", opset_version: 11 }))], [-2, -0, 0, 2, 2]);
  assert.deepEqual([...(await client.round(X, "openvino"))], [-2, -0, 0, 2, 2]);
  assert.deepEqual([...(await client.round(X, "directml:TOWARD_INFINITY"))], away);
  assert.deepEqual([...(await client.round(X, { dialect: "stablehlo", op: "round_nearest_afz" }))], away);
  const scalar = await client.round(Float64Array.of(2.5), { dialect: "stablehlo", op: "round_nearest_even" }, { shape: [] });
  assert.deepEqual([...scalar], [2]);
  assert.deepEqual([...(await client.round(X, { dialect: "mlir", op: "math.round" }))], away);
  assert.deepEqual([...(await client.round(X, { dialect: "array_api", op: "floor" }))], [-3, -1, 0, 1, 2]);
  /** @type {Operator} */
  const toward = { dialect: "directml", rounding_mode: "TOWARD_ZERO", feature_level: "3_0" };
  assert.deepEqual([...(await client.round(X, toward))], [-2, -0, 0, 1, 2]);
});

test("every typed array and every dtype goes there and back", async () => {
  const arrays = [
    ...[Int8Array, Int16Array, Int32Array, Uint8Array, Uint8ClampedArray, Uint16Array, Uint32Array].map((Kind) => Kind.of(1, 2, 127)),
    BigInt64Array.of(-(2n ** 63n), 5n),
    BigUint64Array.of(2n ** 64n - 1n),
    Float64Array.of(0.5, -1.5, 4503599627370495.5),
  ];
  for (const x of arrays) {
    const y = await client.round(x);
    assert.equal(y.constructor, x.constructor);
    const expected = x instanceof Float64Array ? [0, -2, 4503599627370496] : [...x];
    assert.deepEqual([...y], expected);
  }
  // 0.5, 1.5 and a signalling NaN, which comes back bit for bit.
  const bits = { float16: [0x3800, 0x3e00, 0x7c01], bfloat16: [0x3f00, 0x3fc0, 0x7f81] };
  for (const dtype of /** @type {const} */ (["float16", "bfloat16"])) {
    const two = { float16: 0x4000, bfloat16: 0x4000 }[dtype];
    assert.deepEqual([...(await client.round(Uint16Array.from(bits[dtype]), "ties_to_even", { dtype }))], [0, two, bits[dtype][2]]);
  }
  const small = await client.round(Uint8Array.of(0x38, 0x3c, 0x7f), "ties_to_even", { dtype: "float8_e4m3fn" });
  assert.deepEqual([...small], [0x38, 0x40, 0x7f]);
  // Types of 4 bits have a byte an element here, and two elements a byte on the wire.
  const halves = /** @type {const} */ ({ float4_e2m1fn: [[1, 3, 9, 0xf7], [0, 4, 8, 7]], int4: [[1, 15, 8, 7], [1, 15, 8, 7]] });
  for (const dtype of /** @type {const} */ (["float4_e2m1fn", "int4"])) {
    const [x, y] = halves[dtype];
    for (const count of [0, 1, 3, 4]) {
      assert.deepEqual([...(await client.round(Uint8Array.from(x.slice(0, count)), "ties_to_even", { dtype }))], y.slice(0, count));
    }
  }
  for (const dtype of /** @type {DType[]} */ (Object.keys(DTYPES))) {
    const data = toWire(new Uint8Array(3 * DTYPES[dtype].bytes), dtype);
    const executed = client.execute(descriptorOf("ties_to_even", dtype, [3]), data);
    if (dtype === "float8_e8m0fnu") await assert.rejects(executed, /not closed under rounding/);
    else assert.equal((await executed).layout.dtype, dtype);
  }
});

test("a Float16Array is float16, where there is one", async () => {
  if (typeof Float16Array === "undefined") {
    await assert.rejects(client.round(X, "ties_to_even", { dtype: "float16" }), TypeError);
  } else {
    assert.deepEqual([...(await client.round(Float16Array.of(0.5, 1.5)))], [0, 2]);
  }
});

test("views are sent as they are, and shapes are kept", async () => {
  const view = new Float64Array([9.5, 0.5, 1.5, 2.5, 3.5, 9.5]).subarray(1, 5);
  assert.deepEqual([...(await client.round(view, "toward_positive", { shape: [2, 2] }))], [1, 2, 3, 4]);
  const odd = await client.round(Uint16Array.of(0x3e00), { dialect: "directml" }, { dtype: "float16" });
  assert.deepEqual([...odd], [0x4000]); // DirectML's output is 4 bytes long
  assert.equal((await client.round(new Float32Array(0))).length, 0);
});

test("what does not fit is a TypeError before anything is sent", async () => {
  const nowhere = new Client("http://127.0.0.1:1");
  await assert.rejects(nowhere.round(X, "ties_to_even", { dtype: "bfloat16" }), /Float32Array cannot hold bfloat16/);
  // @ts-expect-error lists are no typed arrays
  await assert.rejects(nowhere.round([1]), /typed array, got object/);
  // @ts-expect-error nor is null
  await assert.rejects(nowhere.round(null), { name: "TypeError", message: "x must be a typed array, got null" });
});

test("a whole descriptor, its layout and what the response says", async () => {
  /** @type {Descriptor} */
  const descriptor = {
    dialect: "ieee754",
    rounding: "toward_negative",
    input: { dtype: "float32", shape: [2, 2], strides: [0, 1] },
    output: { dtype: "float32", shape: [2, 2], strides: [3, 1] },
  };
  const result = await client.execute(descriptor, Float32Array.of(1.5, 2.5));
  assert.deepEqual(result.layout, { dtype: "float32", shape: [2, 2], strides: [3, 1], byte_length: 20 });
  assert.deepEqual([...new Float32Array(result.data)], [1, 2, 0, 1, 2]);
  assert.equal(result.backend, "numpy");
  assert.deepEqual(Object.keys(result.timing), ["receive", "queue", "execute"]);
  assert.ok(result.requestId);
});

test("where directions differ", async () => {
  const found = await client.compare(descriptorOf("ties_to_even", "float32", [X.length]), X);
  assert.equal(found.elements, 5);
  const pair = found.pairs.find(({ roundings }) => roundings.join() === "ties_to_even,ties_to_away");
  assert.equal(pair?.different, 3); // -2.5, 0.5 and 2.5
  assert.equal(pair?.classes["exact_tie"]?.first[0]?.results.ties_to_away?.value, "-3.0");
});

test("blobs, and streams as they come", async () => {
  const descriptor = descriptorOf("ties_to_even", "float32", [X.length]);
  const bytes = new Uint8Array(X.buffer);
  assert.deepEqual([...new Float32Array((await client.execute(descriptor, new Blob([X]))).data)], [-2, -0, 0, 2, 2]);
  let pulled = 0;
  const stream = new ReadableStream ({
    pull(controller) {
      if (pulled === bytes.length) controller.close();
      else controller.enqueue(bytes.slice(pulled, ++pulled));
    },
  });
  const result = await client.execute(descriptor, stream);
  assert.deepEqual([...new Float32Array(result.data)], [-2, -0, 0, 2, 2]);
  assert.equal(pulled, bytes.length);
});

test("a large tensor", async () => {
  const x = Float32Array.from({ length: 3_000_000 }, (_, i) => i / 4);
  const y = await client.round(x, "toward_negative");
  assert.deepEqual(y, x.map(Math.floor));
});

test("refusals are classes by code", async () => {
  const error = await client.round(X, { dialect: "directml", feature_level: "2_1" }).catch((e) => e);
  assert.ok(error instanceof InvalidDescriptor && error instanceof RequestRefused && error instanceof TensorRoundError);
  assert.equal(error.name, "InvalidDescriptor");
  assert.equal(error.status, 422);
  assert.equal(error.code, "invalid_descriptor");
  assert.match(error.message, /exactly 4 dimensions, got 1/);
  await assert.rejects(client.round(X, "ties_to_odd"), /operator: got "ties_to_odd"; accepted: ties_to_even, /);
  assert.ok(error.faults.length > 0 && error.requestId);
  const descriptor = descriptorOf("ties_to_even", "float32", [2]);
  await assert.rejects(client.execute(descriptor, new Uint8Array(7)), PayloadSizeMismatch);
  await assert.rejects(client.round(X, { dialect: "onnx", opset_version: 99 }), InvalidDescriptor);
  await assert.rejects(client.get("nowhere"), NotFound);
});

test("there is a class for every code of the service", async () => {
  const page = await (await fetch(`${service.url}/docs/errors`)).text();
  const codes = Array.from(page.matchAll(/<h2 id="(\w+)">/g), ([, code]) => code);
  assert.deepEqual(new Set(Object.keys(REFUSALS)), new Set(codes));
});

test("keys", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "keys-")), "keys");
  writeFileSync(file, `${createHash("sha256").update(KEY).digest("hex")} alice\n`);
  const locked = await Service.start("--api-keys-file", file);
  try {
    await assert.rejects(new Client(locked.url).round(X), Unauthorized);
    assert.equal((await new Client(locked.url, { apiKey: KEY }).round(X)).length, X.length);
    assert.ok(await new Client(locked.url).ready());
  } finally {
    await locked.stop();
  }
});

test("a signal ends a call, and its reason is what is thrown", async () => {
  const reason = new Error("no longer wanted");
  await assert.rejects(client.round(X, "ties_to_even", { signal: AbortSignal.abort(reason) }), reason);
  const silent = await serving(() => undefined);
  const signal = AbortSignal.timeout(100);
  await assert.rejects(new Client(silent.url).round(X, "ties_to_even", { signal }), { name: "TimeoutError" });
  silent.close();
});

test("what is no URL of a service is told with an example", () => {
  for (const url of ["localhost:8000", "", "/round", "ftp://host", undefined]) {
    const example = /begins with http:\/\/ or https:\/\/, as "http:\/\/127\.0\.0\.1:8000"; got/;
    // @ts-expect-error undefined is what JavaScript's users forget
    assert.throws(() => new Client(url), { name: "TypeError", message: example }, url);
  }
});

test("a path of the service in the URL of the client is told", async () => {
  const url = new URL("/round", service.url);
  await assert.rejects(new Client(url).round(X), { name: "NotFound", message: /: \/round\/round; the URL should end before \/round$/ });
  await assert.rejects(new Client(service.url).get("nothing"), { name: "NotFound", message: /: \/nothing$/ });
});

test("nobody there, or somebody else", async () => {
  const nowhere = new Client("http://127.0.0.1:1", { retries: 0 });
  await assert.rejects(nowhere.round(X), ConnectionFailed);
  assert.equal(await nowhere.ready(), false);
  const other = await scripted([404, { "content-type": "text/html" }, "<h1>no</h1>"]);
  await assert.rejects(new Client(other.url).round(X), /no tensor-round service answers here: status 404, text\/html/);
  other.close();
  const short = await scripted([200, { "content-type": "application/octet-stream" }, "abc"]);
  await assert.rejects(new Client(short.url).round(X), ProtocolViolation);
  short.close();
});

test("an overloaded service is asked again, after as long as it says", async () => {
  const problem = JSON.stringify({ type: "/", title: "busy", status: 503, detail: "busy", code: "overloaded" });
  /** @type {[number, Record<string, string>, string]} */
  const busy = [503, { "content-type": "application/problem+json", "retry-after": "1" }, problem];
  const layout = JSON.stringify({ dtype: "float32", shape: [5], strides: [1], byte_length: 20 });
  const flaky = await scripted(busy, [200, { "output-descriptor": layout }, "x".repeat(20)]);
  const began = performance.now();
  assert.equal((await new Client(flaky.url).round(X)).length, 5);
  assert.ok(performance.now() - began >= 990);
  assert.equal(flaky.asked(), 2);
  flaky.close();
  const full = await scripted(busy);
  await assert.rejects(new Client(full.url, { retries: 0 }).round(X), Overloaded);
  const signal = AbortSignal.timeout(200);
  await assert.rejects(new Client(full.url).round(X, "ties_to_even", { signal }), { name: "TimeoutError" });
  assert.equal(full.asked(), 2);
  full.close();
});

test("a service at a path of a host", async () => {
  /** @type {string[]} */
  const seen = [];
  const at = new Client("https://host.example/rounding", {
    fetch: (input) => {
      seen.push(String(input));
      return Promise.resolve(Response.json({ status: "ready" }));
    },
  });
  assert.ok(await at.ready());
  assert.deepEqual(seen, ["https://host.example/rounding/readyz"]);
});
