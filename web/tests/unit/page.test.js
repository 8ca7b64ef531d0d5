/** What the page is made of, without a browser. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { readNpy, tensorOf, withTensor } from "../../../service/tensor_round_service/pages/web/npy.js";
import { numberOf, ordinal } from "../../../service/tensor_round_service/pages/web/numbers.js";
import { fragmentOf, shapeOf, START, stateOf } from "../../../service/tensor_round_service/pages/web/state.js";
import { heldRange, levels, middles, sample, ticks } from "../../../service/tensor_round_service/pages/web/staircase.js";
import { fromText, indexAt, notes, patternAt } from "../../../service/tensor_round_service/pages/web/tensor.js";

/** @import { State } from "../../../service/tensor_round_service/pages/web/state.js" */

/**
 * The content of a .npy file.
 *
 * @param {string} header
 * @param {number[]} data
 */
function file(header, data, major = 1) {
  const start = major === 1 ? 10 : 12;
  const bytes = new Uint8Array(start + header.length + data.length);
  bytes.set([0x93, ...new TextEncoder().encode("NUMPY"), major, 0]);
  new DataView(bytes.buffer).setUint16(8, header.length, true);
  bytes.set(new TextEncoder().encode(header), start);
  bytes.set(data, start + header.length);
  return bytes.buffer;
}

test("a .npy file is read and written with its own header", async () => {
  const header = "{'descr': '>f2', 'fortran_order': True, 'shape': (2, 1), }\n";
  for (const major of [1, 2, 3]) {
    const content = file(header, [0x3c, 0x00, 0x40, 0x00], major);
    const read = readNpy("x.npy", content);
    const x = tensorOf(read, "float16");
    assert.deepEqual([x.shape, patternAt(x, 0), patternAt(x, 1)], [[1, 2], 0x3c00n, 0x4000n]);
    assert.deepEqual(await withTensor(read, x, "float16").arrayBuffer(), content);
  }
});

test("a result of another dtype has a header of its own", async () => {
  const read = readNpy("x.npy", file("{'descr': '>f2', 'fortran_order': True, 'shape': (2, 1), }\n", [0x3c, 0x00, 0x40, 0x00]));
  for (const [dtype, descr, data] of /** @type {const} */ ([
    ["float32", "<f4", [0, 0, 0x80, 0x3f, 0, 0, 0, 0x40]],
    ["bfloat16", "<V2", [0x80, 0x3f, 0, 0x40]],
    ["float8_e5m2", "|V1", [0x3c, 0x40]],
    ["uint8", "|u1", [1, 2]],
  ])) {
    const made = await withTensor(read, { dtype, shape: [1, 2], bytes: Uint8Array.from(data) }, "float16").arrayBuffer();
    assert.match(new TextDecoder("latin1").decode(made), new RegExp(`'descr': '${descr.replace("|", "\\|")}', 'fortran_order': True`));
    const again = readNpy("y.npy", made);
    assert.deepEqual([again.shape, again.isFortran, [...again.data]], [[2, 1], true, data]);
    assert.equal(again.header.length % 64, 0);
  }
});

test("files without numbers are told apart", () => {
  for (const [content, sentence] of /** @type {[ArrayBuffer, RegExp][]} */ ([
    [new ArrayBuffer(0), /^x is not a \.npy file\.$/],
    [file("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", []), /elements of type '\|O', which is not supported/],
    [file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", []), /does not contain an array of numbers/],
    [file("{'descr': '<f16', 'fortran_order': False, 'shape': (1,), }", Array(16).fill(0)), /elements of type '<f16', which is not supported/],
    [file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", [1, 2, 3, 4]), /has the wrong length/],
  ])) {
    assert.throws(() => readNpy("x", content), { message: sentence });
  }
});

test("a state is its fragment", () => {
  /** @type {State[]} */
  const states = [
    START,
    { ...START, values: "1&2=#%,é\n3", shape: "1, 2", dialect: "onnx", version: "22", dtype: "float16", plotted: [], from: 1e-300, to: 1e300 },
    { ...START, dialect: "directml", operator: "CAST", target: "uint8" },
  ];
  for (const state of states) assert.deepEqual(stateOf(fragmentOf(state)), state);
  assert.equal(fragmentOf(START), "");
  assert.deepEqual(stateOf("#dtype=nothing&from=2&to=1&other=1"), START);
});

test("shapes", () => {
  assert.equal(shapeOf("  "), undefined);
  assert.deepEqual(shapeOf("[2, 3]"), [2, 3]);
  assert.deepEqual(shapeOf("2x3"), [2, 3]);
  assert.throws(() => shapeOf("-1"), /must be sizes/);
});

test("what is typed", () => {
  assert.deepEqual([...fromText("[[1, 2],\n[3,4]]", "uint8").bytes], [1, 2, 3, 4]);
  assert.deepEqual(fromText("", "float32").shape, [0]);
});

test("the index of an element has a number for each dimension", () => {
  assert.deepEqual(indexAt(5, [2, 3]), [1, 2]);
  assert.deepEqual(indexAt(4, [1, 1, 7]), [0, 0, 4]);
  assert.deepEqual(indexAt(0, []), []);
});

test("numbers that a dtype lacks are told, and what stands for them", () => {
  assert.deepEqual(notes("2047.5 0.1 NaN -0 1e9 0x3c00", "float16"), ["float16 has no 2047.5: it is read as 2048.", "float16 has no 1e9: it is read as Infinity."]);
  assert.deepEqual(notes("0.1 16777217 -0.30", "float32"), ["float32 has no 16777217: it is read as 16777216."]);
  assert.deepEqual(notes("448 4.48e2 -128 0.1015625", "float8_e4m3fn"), []);
  assert.deepEqual(notes("0.1", "float8_e4m3fn"), ["float8_e4m3fn has no 0.1: it is read as 0.1015625."]);
  assert.deepEqual(notes("2.515625 2.52 2.51", "bfloat16"), ["bfloat16 has no 2.51: it is read as 2.52."]);
  assert.deepEqual(notes("0.30 1e-45 Infinity -inf 0.0 0e999", "float64"), []);
  for (const [text, dtype, own] of /** @type {const} */ ([
    ["1e400", "float64", "Infinity"],
    ["1e400", "float32", "Infinity"],
    ["-1e400", "float16", "-Infinity"],
    ["1e400", "float8_e4m3fn", "NaN"],
    ["-inf", "float8_e4m3fnuz", "NaN"],
    ["NaN", "float4_e2m1fn", "6"],
    ["2.5", "float4_e2m1fn", "2"],
    ["-1e-400", "float64", "-0"],
    ["1e-50", "float32", "0"],
  ])) {
    assert.deepEqual(notes(text, dtype), [`${dtype} has no ${text}: it is read as ${own}.`]);
  }
  assert.equal(notes("1e400 2e400 3e400", "float64").length, 3);
  assert.deepEqual(notes("1e400 2e400 3e400 4e400 0.5 5e400", "float64").slice(3), ["And 2 more."]);
});

test("what may be a decimal comma is asked about, and lists are not", () => {
  for (const text of ["1,5 2,5", "1,5", "0.5; 1,5"]) {
    assert.throws(() => fromText(text, "float32"), { message: "Is 1,5 one number or two? Write 1.5 or 1, 5." });
  }
  for (const text of ["1, 5", "1,2,3", "0.5,1.5", "[1,2]", "[[1,2], [3,4]]", "1 , 5"]) fromText(text, "float32");
});

test("a narrow range has every value, a wide one the steps or a trend", () => {
  const every = sample(1, 1 + 2 ** -20, "float32");
  assert.equal(every.kind, "every");
  assert.equal(every.patterns.length, 9);
  const steps = sample(-1.2, 1.2, "float32");
  const xs = steps.patterns.map((bits) => numberOf(bits, "float32"));
  assert.equal(steps.kind, "steps");
  for (const tie of [-0.5, 0.5]) {
    const at = xs.indexOf(tie);
    const around = steps.patterns.slice(at - 1, at + 2).map((bits) => ordinal(bits, "float32"));
    assert.deepEqual(around, [around[1] - 1n, around[1], around[1] + 1n]);
  }
  assert.deepEqual(xs, [...xs].sort((a, b) => a - b));
  assert.equal(sample(0.1, 0.4, "float32").kind, "steps"); // without a step
  const trend = sample(-1e6, 1e6, "float32");
  assert.equal(trend.kind, "trend");
  assert.ok(trend.patterns.length <= 302);
  assert.equal(sample(-1e9, 1e9, "float8_e5m2").kind, "every");
  assert.equal(sample(-3, 3, "int8").patterns.length, 7);
});

test("a cast has steps at the values of a narrow type and in the middle between them, and behind the last ones", () => {
  const edges = middles(0.9, 1.6, "float8_e4m3fn") ?? [];
  assert.deepEqual(edges.filter((at) => at >= 1).slice(0, 4), [1, 1.0625, 1.125, 1.1875]);
  const steps = sample(0.9, 1.6, "float32", edges);
  assert.equal(steps.kind, "steps");
  const xs = steps.patterns.map((bits) => numberOf(bits, "float32"));
  for (const edge of [1, 1.0625, 1.125]) assert.ok(xs.includes(edge) && xs.includes(edge + 2 ** -23), String(edge));
  assert.equal(middles(-1e4, 1e4, "float16"), undefined);
  assert.equal(sample(-1e4, 1e4, "float32", undefined).kind, "trend");
  for (const [dtype, lowest, highest] of /** @type {const} */ ([
    ["float8_e4m3fn", -464, 464],
    ["float8_e5m2fnuz", -61440, 61440],
    ["float8_e8m0fnu", 2 ** -127 * 0.75, 2 ** 127 * 1.5],
    ["float4_e2m1fn", -7, 7],
    ["uint4", -0.5, 15.5],
    ["int8", -128.5, 127.5],
  ])) {
    const all = middles(-1e39, 1e39, dtype) ?? [];
    assert.deepEqual([all[0], all.at(-1)], [lowest, highest], dtype);
  }
  const [below, above] = [1.0625 - 2 ** -23, 1.0625 + 2 ** -23];
  const { marks } = levels([1, below, 1.0625, above], [1, 1, 1, 1.125], (x) => edges.includes(x));
  assert.deepEqual(marks, [{ x: 1.0625, y: 1, isOpen: false }, { x: 1.0625, y: 1.125, isOpen: true }]);
});

test("levels end closed where the tie is theirs, and open where it is not", () => {
  const [below, above] = [0.5 - 2 ** -25, 0.5 + 2 ** -24];
  const xs = [0, below, 0.5, above, 1];
  assert.deepEqual(levels(xs, [0, 0, 0, 1, 1]).marks, [{ x: 0.5, y: 0, isOpen: false }, { x: 0.5, y: 1, isOpen: true }]);
  assert.deepEqual(levels(xs, [0, 0, 1, 1, 1]).marks, [{ x: 0.5, y: 0, isOpen: true }, { x: 0.5, y: 1, isOpen: false }]);
  assert.deepEqual(levels([0.1, 0.4], [0, 7]).marks, []); // where it changes is not known
  assert.deepEqual(levels(xs, [0, 0, 0, 1, 1]).segments, [{ from: 0, to: 0.5, y: 0 }, { from: above, to: 1, y: 1 }]);
});

test("ranges are held to what a dtype has", () => {
  assert.deepEqual(heldRange(-3, 3, "float32"), [-3, 3]);
  const [from, to] = heldRange(1, 1, "float16");
  assert.ok(to - from >= 3 * 2 ** -11 && to - from <= 4 * 2 ** -10);
  const [low, high] = heldRange(-1e30, 1e30, "float16");
  assert.ok(low >= -65504 && high <= 65504);
  assert.deepEqual(heldRange(-30, -20, "uint8"), [-5, 5]);
  for (const dtype of /** @type {const} */ (["int64", "float64"])) {
    const [first, last] = heldRange(2 ** 62, 2 ** 62, dtype);
    assert.ok(first < 2 ** 62 && 2 ** 62 < last);
  }
  assert.ok(heldRange(-Number.MAX_VALUE, Number.MAX_VALUE, "float64").every(Number.isFinite));
});

test("ticks are few, round and unlike each other", () => {
  for (const [from, to] of [[-3.25, 3.25], [1, 1 + 2 ** -50], [1e6, 1e6 + 0.001], [-1e300, 1e300], [2 ** 24, 2 ** 24 + 8]]) {
    const found = ticks(from, to, 8);
    assert.ok(found.length >= 3 && found.length <= 13, `${from} ${to}: ${found.length}`);
    assert.equal(new Set(found.map(({ text }) => text)).size, found.length, JSON.stringify(found));
  }
  assert.deepEqual(ticks(-3.25, 3.25, 8).map(({ text }) => text), ["-3", "-2", "-1", "0", "1", "2", "3"]);
});
