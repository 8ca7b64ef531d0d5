/** The page, used as people do, over a real service. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { CLIENT, PAGE, Service, TREE, WEB } from "../service.js";
import { launch, Watched } from "./browser.js";

/** @import { Browser } from "playwright-core" */
/** @import { Catalog } from "../../../service/tensor_round_service/pages/web/catalog.js" */

const START = ["-2.5", "-1.5", "-0.5", "-0.3", "0.5", "1.5", "2.5", "NaN"];
const folder = mkdtempSync(join(tmpdir(), "page-"));
/** @type {Service} */
let service;
/** @type {Browser} */
let browser;

before(async () => {
  service = await Service.start();
  browser = await launch();
});
after(async () => {
  await browser.close();
  await service.stop();
});

/** A fragment, by default with IEEE 754 and these numbers. */
const ieee = (fragment = "") => `${fragment || "#"}&dialect=ieee754&mode=ties_to_even&values=${START}`;
const open = (fragment = "", options = {}) => Watched.open(browser, `${service.url}/${ieee(fragment)}`, options);

/**
 * From where to where a curve is drawn.
 *
 * @param {Watched} on
 * @param {string} curve
 */
const drawn = (on, curve) =>
  on.page.locator("canvas").evaluate((element, name) => {
    const canvas = /** @type {HTMLCanvasElement} */ (element);
    const c = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const colour = getComputedStyle(canvas).getPropertyValue(`--${name}`);
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    const { data, width } = c.getImageData(0, 0, canvas.width, canvas.height);
    const columns = new Set();
    for (let i = 0; i < data.length; i += 4) if (data[i] === r && data[i + 1] === g && data[i + 2] === b) columns.add((i / 4) % width);
    const { from, to } = canvas.dataset;
    /** @param {number} column */
    const value = (column) => Number(from) + ((column * canvas.clientWidth) / width - 46) * ((Number(to) - Number(from)) / (canvas.clientWidth - 46));
    return { from: value(Math.min(...columns)), to: value(Math.max(...columns)) };
  }, curve);

/**
 * A .npy file that NumPy wrote.
 *
 * @param {string} name
 * @param {string} expression
 */
function npy(name, expression) {
  const path = join(folder, name);
  execFileSync(`${TREE}.venv/bin/python`, ["-c", `import sys, numpy as np, ml_dtypes; np.save(sys.argv[1], ${expression})`, path]);
  return path;
}

test("numbers are typed, and shown with their results and bits", async () => {
  const on = await open();
  assert.deepEqual(await on.results(...START), ["-2", "-2", "-0", "-0", "0", "2", "2", "NaN"]);
  await on.page.fill("#values", "0.5 [-3.5, 1e-45]\n0x7f800001; -0");
  assert.deepEqual(await on.results("0.5", "-3.5", "1e-45", "NaN", "-0"), ["0", "-4", "0", "NaN", "-0"]);
  const bits = on.page.locator("#values-table tbody tr:nth-child(4) td:nth-child(4)"); // of the input
  assert.equal(await bits.locator(".sign").textContent(), "0");
  assert.equal(await bits.locator(".exponent").textContent(), "11111111");
  assert.equal(await bits.locator(".fraction").textContent(), "00000000000000000000001");
  assert.equal(await bits.locator("code").getAttribute("title"), "0x7f800001");
  assert.match(await on.text("#about"), /^Version \d+\.\d+\.\d+.*, numpy on CPU$/);
  assert.match(await on.text("#done"), /^numpy rounded 5 values in [\d.]+ ms\.$/);
  await on.close();
});

test("a first visit begins with a runtime, and with numbers on which others differ", async () => {
  const on = await Watched.open(browser, `${service.url}/`);
  const y = await on.results("-2.5", "-0.5", "-0", "0.49999997", "0.5", "1.5", "2.5", "8388609");
  assert.deepEqual(y, ["-3", "-1", "-0", "0", "1", "2", "3", "8388609"]);
  assert.equal(await on.page.getByLabel("Dialect").inputValue(), "openvino");
  assert.equal(await on.page.locator("#differences-table tbody tr").count(), 6);
  await on.close();
});

test("dialects, versions, modes and dtypes are those of the service", async () => {
  const on = await open();
  /** @type {Catalog} */
  const operators = await (await fetch(`${service.url}/operators`)).json();
  /** @param {string} label */
  const select = (label) => on.page.getByLabel(label, { exact: true });
  let casts = 0;
  for (const [name, dialect] of Object.entries(operators.dialects)) {
    await select("Dialect").selectOption(name);
    for (const { operator, kind, modes, versions, target_field, dtypes, unsigned_dtypes } of dialect.operators) {
      if (operator === "reduce_precision" || kind.endsWith("quantize")) continue;
      await select("Operator").selectOption({ label: operator });
      if (Object.keys(modes).length) assert.equal(await select("Mode").locator("option").count(), Object.keys(modes).length);
      else assert.ok(await select("Mode").isHidden());
      const names = versions.at(-1)?.dtypes ?? [];
      const count = [dtypes, unsigned_dtypes].flatMap((table) => names.filter((name) => name in table)).length;
      assert.equal(await select("dtype").locator("option").count(), count);
      if (target_field === null) assert.ok(await select("To").isHidden());
      else {
        casts += 1;
        assert.equal(await select("To").locator("option").count(), count);
        await on.page.waitForFunction(() => document.querySelector("#done")?.textContent?.includes("converted"));
      }
      await on.results(...START);
    }
  }
  assert.equal(casts, Object.keys(operators.dialects).length);
  await select("Dialect").selectOption("directml");
  await select("Operator").selectOption({ label: "ELEMENT_WISE_ROUND" });
  await select("feature_level").selectOption("2_1");
  await select("Mode").selectOption("TOWARD_INFINITY");
  await select("dtype").selectOption({ label: "FLOAT16 (float16)" });
  await on.page.waitForFunction(() => document.querySelector("#values-table td:nth-child(3)")?.textContent === "-3");
  await on.page.fill("#values", "0.1 2.5");
  assert.deepEqual(await on.results("0.1", "2.5"), ["0", "3"]);
  assert.equal(await on.page.locator("#values-table td code").first().textContent(), "0010111001100110");
  // ONNX before opset 22 has no bfloat16: the nearest choice that there is.
  await select("Dialect").selectOption("onnx");
  assert.equal(await select("Operator").inputValue(), "");
  await select("dtype").selectOption("bfloat16");
  await select("opset_version").selectOption("11");
  assert.equal(await select("dtype").inputValue(), "float32");
  await on.page.fill("#values", "16777217");
  await on.results("16777216");
  assert.equal(await on.text("#notes"), "float32 has no 16777217: it is read as 16777216.");
  await on.close();
});

test("who gives other results is said, and shown", async () => {
  const on = await open("#values=2.5+1+-0.3");
  await on.results("2.5", "1", "-0.3");
  const said = await on.page.locator("#verdict li").allTextContents();
  assert.ok(said.includes("ties_to_away differs from ties_to_even on 1 of 3: exact ties (1), for example 2.5 → 3 instead of 2."), said.join("\n"));
  assert.ok(said.includes("The same as ties_to_even on all 3 values: toward_zero."), said.join("\n"));
  const heads = await on.page.locator("#differences-table thead th").allTextContents();
  assert.match(heads[2] ?? "", /^ties_to_even, chosenDirectML HALVES_TO_NEAREST_EVEN, OpenVINO half_to_even, ONNX, /);
  assert.match(heads[3] ?? "", /^ties_to_awayDirectML TOWARD_INFINITY, OpenVINO half_away_from_zero, /);
  assert.deepEqual(await on.page.locator("#differences-table tbody tr").allTextContents(), ["02.523232", "2-0.3-0-0-0-0-1"]);
  assert.deepEqual(await on.page.locator("#differences-table td.differs").allTextContents(), ["3", "3", "-1"]);
  await on.page.fill("#values", "1 2");
  await on.results("1", "2");
  assert.deepEqual(await on.page.locator("#verdict li").allTextContents(), ["The directions agree on all 2 values."]);
  await on.close();
});

test("a file is dropped, and its result downloaded", async () => {
  const path = npy("x.npy", "np.asfortranarray(np.array([[0.5, 1.5, 2.5], [-0.5, 9.0, np.nan]], '>f8'))");
  const on = await open();
  await on.results(...START);
  const content = readFileSync(path).toString("base64");
  const dropped = await on.page.evaluateHandle((text) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], "x.npy"));
    return transfer;
  }, content);
  await on.page.dispatchEvent("body", "dragover", { dataTransfer: dropped });
  assert.equal(await on.page.locator(".input.over").count(), 1);
  await on.page.dispatchEvent("body", "drop", { dataTransfer: dropped });
  assert.deepEqual(await on.results("0.5", "-0.5", "1.5", "9", "2.5", "NaN"), ["0", "-0", "2", "9", "2", "NaN"]);
  assert.equal(await on.page.getByLabel("dtype", { exact: true }).inputValue(), "float64");
  const download = on.page.waitForEvent("download");
  await on.page.getByText("Download the result").click();
  const saved = await download;
  assert.equal(saved.suggestedFilename(), "x-rounded.npy");
  const rounded = join(folder, "rounded.npy");
  await saved.saveAs(rounded);
  const code = "import sys, numpy as np; a, b = map(np.load, sys.argv[1:]); assert b.dtype == a.dtype and b.flags.f_contiguous; assert np.array_equal(np.rint(a), b, equal_nan=True)";
  execFileSync(`${TREE}.venv/bin/python`, ["-c", code, path, rounded]);
  // Another of the same name and size is another.
  await on.page.setInputFiles("input[type=file]", npy("x.npy", "np.asfortranarray(np.array([[3.5, 1.5, 2.5], [-0.5, 9.0, np.nan]], '>f8'))"));
  assert.equal((await on.results("3.5", "-0.5", "1.5", "9", "2.5", "NaN"))[0], "4");
  await on.page.getByText("Type numbers instead").click();
  await on.results(...START);
  await on.close();
});

test("casts are shown in bits of both types, as steps, and downloaded", async () => {
  const on = await open("#operator=convertFormat&target=float8_e4m3fn&values=0.3+500+-0&from=0.9&to=1.6");
  assert.deepEqual(await on.results("0.3", "500", "-0"), ["0.3125", "NaN", "-0"]);
  assert.equal(await on.page.locator("#values-table tbody tr:first-child td:nth-child(5) code").getAttribute("title"), "0x2a");
  assert.equal(await on.text("#staircase-title"), "The staircase of float32 to float8_e4m3fn");
  await on.page.waitForFunction(() => document.querySelector("#staircase")?.getAttribute("data-kind") === "steps");
  assert.match(await on.text("#verdict"), /To compare casts, choose another dialect\.$/);
  assert.ok(await on.page.locator("#differences-listing").isHidden());
  const path = npy("fortran.npy", "np.asfortranarray(np.array([[0.3, 1.5], [-0.5, 9.0]], '>f8'))");
  await on.page.setInputFiles("input[type=file]", path);
  assert.deepEqual(await on.results("0.3", "-0.5", "1.5", "9"), ["0.3125", "-0.5", "1.5", "9"]);
  const download = on.page.waitForEvent("download");
  await on.page.getByText("Download the result").click();
  const cast = join(folder, "cast.npy");
  await (await download).saveAs(cast);
  const code = "import sys, numpy as np, ml_dtypes; a, b = map(np.load, sys.argv[1:]); assert np.array_equal(a.astype('f4').astype(ml_dtypes.float8_e4m3fn), b.view(ml_dtypes.float8_e4m3fn))";
  execFileSync(`${TREE}.venv/bin/python`, ["-c", code, path, cast]);
  await on.close();
});

test("the staircase is what the chosen operator itself gives, also beyond the target's range", async () => {
  for (const [fragment, word] of /** @type {const} */ ([
    ["dialect=onnx&operator=Cast&target=int8", "onnx:Cast:28"],
    ["dialect=openvino&operator=Convert&target=uint8", "openvino:Convert"],
    ["dialect=directml&mode=TOWARD_ZERO&version=2_1", "directml:TOWARD_ZERO:2_1"], // of rank 4 alone
    ["operator=convertFormat&mode=toward_positive&target=int8", "toward_positive"],
  ])) {
    const on = await Watched.open(browser, "about:blank");
    /** @type {{ operator: string, shape: number[] }[]} */
    const asked = [];
    on.page.on("request", (request) => {
      const text = request.headers()["operator-descriptor"];
      if (text && request.url().endsWith("/round")) asked.push(JSON.parse(text));
    });
    await on.page.goto(`${service.url}/${ieee(`#plotted=&values=1&${fragment}`)}`);
    await on.range();
    assert.deepEqual(asked.filter(({ shape }) => shape.at(-1) !== 1).map(({ operator }) => operator), [word]);
    await on.page.context().close();
    assert.deepEqual(on.wrong, []);
  }
  const on = await open("#dialect=onnx&operator=Cast&target=float8_e4m3fn&values=550&plotted=ties_to_even&from=400&to=600");
  assert.deepEqual(await on.results("550"), ["448"]);
  await on.range();
  assert.equal(await on.text(".direction.operator"), "ONNX Cast");
  assert.match((await on.page.locator("canvas").getAttribute("aria-label")) ?? "", /: ONNX Cast, ties_to_even\. /);
  const [own, ieee754] = [await drawn(on, "operator"), await drawn(on, "ties_to_even")];
  assert.ok(own.to > 598, JSON.stringify(own)); // it saturates
  assert.ok(Math.abs(ieee754.to - 464) < 4, JSON.stringify(ieee754)); // NaN from the middle behind 448
  assert.match(await on.text("#staircase-said"), /Where a curve is missing, its results are NaN or infinite\.$/);
  await on.close();
  const powers = await open("#dialect=onnx&operator=Cast&target=float8_e8m0fnu&values=1.1&plotted=");
  assert.deepEqual(await powers.results("1.1"), ["2"]);
  assert.equal((await powers.range()).kind, "steps");
  await powers.close();
});

test("the staircase is never an empty grid", async () => {
  const on = await open("#from=0.25&to=0.375&plotted=");
  assert.deepEqual(await on.range(), { from: 0.25, to: 0.375, kind: "steps" });
  const { from, to } = await drawn(on, "ties_to_even"); // all results are 0
  assert.ok(from < 0.26 && to > 0.37, `${from} ${to}`);
  await on.close();
  const unsigned = await open("#dtype=uint8&values=1&from=-100&to=-90&plotted=");
  assert.deepEqual(await unsigned.range(), { from: -5, to: 5, kind: "every" });
  await unsigned.close();
});

test("what a specification leaves open is said beside the results", async () => {
  const on = await open("#dialect=onnx&operator=Cast&target=int8&values=300+NaN");
  assert.deepEqual(await on.results("300", "NaN"), ["127", "0"]);
  assert.equal(await on.text("#left-open"), "ONNX leaves open, from float to integer: out of range (here: saturate), NaN (here: 0), direction (here: toward_zero).");
  await on.page.getByLabel("Dialect").selectOption("openvino");
  await on.page.getByLabel("Operator").selectOption("Convert");
  await on.page.waitForFunction(() => document.querySelector("#left-open")?.textContent === "OpenVINO leaves open, from float to integer: out of range (here: saturate), NaN (here: 0).");
  await on.page.getByLabel("To", { exact: true }).selectOption("float16");
  await on.page.waitForFunction(() => document.querySelector("#left-open")?.textContent === "");
  await on.close();
});

test("a large file is rounded whole, and shown in part", async () => {
  const on = await open("#mode=toward_negative");
  await on.page.setInputFiles("input[type=file]", npy("large.npy", "np.arange(3_000_000, dtype='<f4') / 4"));
  await on.page.waitForFunction(() => document.querySelector("#done")?.textContent?.startsWith("numpy rounded 3,000,000 values"));
  const rows = on.page.locator("#values-table tbody tr");
  assert.equal(await rows.count(), 8);
  assert.equal(await on.text("#values-more span"), "The first 8 of 3,000,000.");
  await on.page.getByText("Show 64 more").first().click();
  assert.equal(await rows.count(), 72);
  assert.deepEqual(await rows.last().locator("th, .number").allTextContents(), ["71", "17.75", "17"]);
  const said = await on.text("#verdict");
  assert.match(said, /differs from toward_negative on [\d,]+ of 3,000,000: /);
  assert.match(await on.text("#differences-more span"), /^The first 8 of [\d,]+ among the first 65,536\.$/);
  const download = on.page.waitForEvent("download");
  await on.page.getByText("Download the result").click();
  const rounded = join(folder, "large-rounded.npy");
  await (await download).saveAs(rounded);
  execFileSync(`${TREE}.venv/bin/python`, ["-c", "import sys, numpy as np; assert (np.load(sys.argv[1]) == np.arange(3_000_000) // 4).all()", rounded]);
  await on.close();
});

test("what a file does not say is chosen, and what is none is told", async () => {
  const on = await open();
  await on.page.setInputFiles("input[type=file]", npy("bf16.npy", "np.array([0.5, 1.5], ml_dtypes.bfloat16)"));
  assert.deepEqual(await on.results("0.5", "1.5"), ["0", "2"]);
  assert.deepEqual(await on.page.getByLabel("dtype", { exact: true }).locator("option").allTextContents(), ["float16", "bfloat16", "int16", "uint16"]);
  const other = join(folder, "notes.txt");
  writeFileSync(other, "hello");
  const fault = on.page.locator("#fault");
  for (const [path, sentence] of [
    [other, "notes.txt is not a .npy file."],
    [npy("complex.npy", "np.array([1j])"), "complex.npy has elements of type complex ('<c16'), which is not supported."],
  ]) {
    await on.page.setInputFiles("input[type=file]", path);
    await on.page.waitForFunction((text) => document.querySelector("#fault")?.textContent === text, sentence);
    assert.equal(await fault.getAttribute("role"), "alert");
    assert.ok(await on.page.locator("#opened").isHidden(), "the name of the file before it");
    assert.ok(await on.page.locator("label:has(#file) + #fault").isVisible());
  }
  await on.close();
});

test("results stand beside the inputs of a wide screen, and no button is empty", async () => {
  const on = await open("", { viewport: { width: 1600, height: 900 } });
  const [input, results] = [await on.box("#input"), await on.box("#results")];
  assert.ok(results.x >= input.x + input.width && results.y < input.y + input.height);
  for (const text of await on.page.locator("button:visible").allTextContents()) assert.notEqual(text.trim(), "");
  assert.deepEqual((await on.page.locator("#choice-dialect option").allTextContents()).slice(0, 3), ["DirectML", "OpenVINO", "ONNX"]);
  await on.close();
});

test("the page asks again when the network is back", async () => {
  const on = await open();
  await on.results(...START);
  await on.page.context().setOffline(true);
  await on.page.fill("#values", "0.5 1.5");
  await on.page.waitForFunction(() => document.querySelector("#fault")?.textContent?.startsWith("The service does not respond"));
  await on.page.context().setOffline(false);
  assert.deepEqual(await on.results("0.5", "1.5"), ["0", "2"]);
  assert.match(on.wrong.splice(0).join(), /ERR_INTERNET_DISCONNECTED/);
  await on.close();
});

test("the staircase is dragged and zoomed, down to the dtype's spacing", async () => {
  const on = await open("#plotted=ties_to_even,toward_positive");
  const canvas = on.page.locator("canvas");
  const start = await on.range();
  assert.deepEqual(start, { from: -3.25, to: 3.25, kind: "steps" });
  await canvas.scrollIntoViewIfNeeded();
  const box = await on.box("canvas");
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  await on.page.mouse.move(x, y);
  await on.page.mouse.down();
  await on.page.mouse.move(x - 200, y, { steps: 8 });
  await on.page.mouse.up();
  const dragged = await on.range();
  const moved = (200 / (box.width - 48)) * 6.5;
  assert.ok(Math.abs(dragged.from - start.from - moved) < 0.05, JSON.stringify(dragged));
  assert.ok(Math.abs(dragged.to - dragged.from - 6.5) < 1e-9);
  for (let i = 0; i < 90; i++) await on.page.mouse.wheel(0, -100);
  const near = await on.range();
  assert.equal(near.kind, "every");
  assert.ok(near.to - near.from <= 8 * 2 ** -22, JSON.stringify(near));
  await canvas.press("Home");
  assert.equal((await on.range()).kind, "steps");
  for (let i = 0; i < 8; i++) await on.page.getByLabel("Zoom out").click();
  assert.equal((await on.range()).kind, "trend");
  await on.page.waitForFunction(() => location.hash.includes("from="));
  await on.close();
});

test("ties are drawn open and closed where they belong", async () => {
  const on = await open("#from=0&to=1&plotted=");
  await on.range();
  // ties_to_even: at 0.5 the lower level is closed, the upper one open.
  const painted = await on.page.locator("canvas").evaluate((element) => {
    const canvas = /** @type {HTMLCanvasElement} */ (element);
    const c = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const scale = canvas.width / canvas.clientWidth;
    const x = 46 + (canvas.clientWidth - 46) / 2;
    /** @param {number} y */
    const at = (y) => Array.from(c.getImageData(x * scale, y * scale, 1, 1).data.slice(0, 3)).join();
    /** @param {number} value */
    const y = (value) => (canvas.clientHeight - 22) * (1 - (value + 0.05) / 1.1);
    return [at(y(0)), at(y(1))];
  });
  assert.deepEqual(painted, ["11,87,208", "255,255,255"]);
  await on.close();
});

/**
 * The numbers that a program printed.
 *
 * @param {string} printed
 */
const numbers = (printed) =>
  (printed.replace(/^[^[]*\(\d+\)/, "").match(/-?(?:\d+\.?\d*(?:e[+-]?\d+)?n?|nan|inf(?:inity)?)/gi) ?? []).map((word) =>
    Number(word.replace(/n$/, "").replace(/inf(inity)?/i, "Infinity")),
  );

const PYTHON = `${TREE}.venv/bin/python`;
/** @type {Record<string, [string, ...string[]]>} The command that runs a program. */
const RUN = {
  curl: ["bash", "-euc"],
  Python: [PYTHON, "-c"],
  JavaScript: ["node", "--input-type=module", "-e"],
  tritonclient: [PYTHON, "-c"],
};

/**
 * What a program prints, next to the files of these tests.
 *
 * @param {string} language
 * @param {string} program
 */
function run(language, program) {
  const [command, ...args] = RUN[language] ?? ["false"];
  return execFileSync(command, [...args, program], { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

const CALLS = {
  "": "plain",
  "#dialect=directml&version=2_1&mode=TOWARD_INFINITY&dtype=float16": "a version, padded to its rank",
  "#dialect=stablehlo&mode=round_nearest_afz&dtype=bfloat16&values=2.5+-0.3+Infinity&shape=3,1": "a shape",
  "#dialect=openvino&mode=half_away_from_zero&dtype=float8_e4m3fn&values=2.5+-0.3+17.5+448": "8 bits",
  "#dialect=openvino&mode=half_away_from_zero&dtype=float4_e2m1fn&values=1.5+-0.5+6": "4 bits",
  "#dtype=int4&values=7+-8+0+-1&shape=2,2": "integers of 4 bits",
  "#dtype=float8_e4m3fnuz&mode=toward_zero&values=0.5+-0.3+NaN": "8 bits with one zero",
  "#values=0x7f800001+2.5&mode=toward_positive": "a NaN's own bits",
  "#dialect=array_api&mode=floor&dtype=float64&values=0.1+-0.1+1048575.5": "doubles",
  "#dtype=int64&values=9223372036854775807+-5": "integers",
  "#dialect=onnx&version=11&dtype=float32&values=0.1+16777217+1e-45": "an opset",
  "#dialect=mlir&mode=math.round&dtype=bfloat16&values=2.5+-0.3": "MLIR",
  "#dialect=openvino&mode=half_to_even&dtype=float16&values=0.5": "OpenVINO",
  "#operator=convertFormat&mode=toward_zero&target=float8_e5m2&values=0.3+-7+2.2+448": "a cast",
  "#dialect=onnx&operator=Cast&target=int8&values=0.3+-7.5+1e9+2.5": "a cast to integers by a dialect",
  "#dialect=openvino&operator=Convert&target=int4&dtype=bfloat16&values=-7.5+3+1": "a cast to 4 bits",
  "#dialect=webnn&operator=ceil&values=0.3+-7.5": "another operator to integral values",
};

for (const [fragment, name] of Object.entries(CALLS)) {
  test(`what is copied is the call that is shown: ${name}`, async () => {
    const on = await open(fragment, { permissions: ["clipboard-read", "clipboard-write"] });
    await on.done();
    const cells = await on.page.locator("#values-table td:nth-child(3)").allTextContents();
    const codes = await on.page.locator("#values-table td:nth-child(5) code").evaluateAll((all) => all.map((code) => code.getAttribute("title") ?? ""));
    execFileSync("bash", ["-c", `mkdir -p ${folder}/node_modules && ln -sfn ${CLIENT} ${folder}/node_modules/tensor-round`]);
    for (const language of Object.keys(RUN)) {
      await on.page.getByLabel(language, { exact: true }).check();
      await on.page.getByText("Copy the program").click();
      await on.page.getByText("Copied.").waitFor();
      const program = await on.page.evaluate(() => navigator.clipboard.readText());
      assert.equal(program, await on.page.locator("#snippet").textContent());
      if (language !== "curl") assert.match(program, /^(#|\/\/) Needs/);
      const printed = run(language, program);
      const why = `${language}:\n${program}\n${printed}`;
      if (program.startsWith("# JSON cannot")) {
        const bytes = codes.flatMap((code) => (code.slice(2).match(/../g) ?? []).reverse());
        assert.deepEqual(printed.trim().split(/\s+/), bytes, why);
      } else if (/^Uint(8|16)Array/.test(printed)) {
        assert.deepEqual(numbers(printed), codes.map(Number), why);
      } else {
        const text = language === "curl" ? printed.split('"data":')[1] : printed;
        assert.deepEqual(numbers(text), cells.map(Number), why);
      }
    }
    await on.close();
  });
}

test("a file's call names the file", async () => {
  const on = await open("#dialect=directml&mode=TOWARD_ZERO", { permissions: ["clipboard-read", "clipboard-write"] });
  await on.page.setInputFiles("input[type=file]", npy("it's x.npy", "np.array([[0.5, 1.5]], '<f2')"));
  await on.results("0.5", "1.5");
  for (const language of Object.keys(RUN)) {
    await on.page.getByLabel(language, { exact: true }).check();
    const program = await on.text("#snippet");
    const printed = run(language, program);
    const text = printed || execFileSync(`${TREE}.venv/bin/python`, ["-c", "import numpy as np; print(np.load('rounded.npy'))"], { cwd: folder, encoding: "utf8" });
    assert.deepEqual(numbers(text), [0, 1], `${program}\n${text}`);
    execFileSync("rm", ["-f", join(folder, "rounded.npy")]);
  }
  await on.close();
});

test("a link shows what was shown", async () => {
  const on = await open("", { permissions: ["clipboard-read", "clipboard-write"] });
  await on.page.fill("#values", "7.5, & # % 0x7e00".replace("& # %", "-1"));
  await on.page.getByLabel("Dialect").selectOption("openvino");
  await on.page.getByLabel("Mode").selectOption("half_away_from_zero");
  await on.page.getByLabel("dtype", { exact: true }).selectOption("float16");
  assert.deepEqual(await on.results("7.5", "-1", "NaN"), ["8", "-1", "NaN"]);
  await on.page.getByRole("checkbox", { name: "toward_negative" }).check();
  await on.page.getByLabel("Zoom in").click();
  const range = await on.range();
  await on.page.waitForFunction(() => location.hash.includes("to="));
  await on.page.waitForTimeout(300);
  await on.page.getByText("Copy a link").click();
  await on.page.getByText("Copied.").waitFor();
  const link = await on.page.evaluate(() => navigator.clipboard.readText());
  const other = await Watched.open(browser, link);
  assert.deepEqual(await other.results("7.5", "-1", "NaN"), ["8", "-1", "NaN"]);
  assert.deepEqual(await other.range(), range);
  assert.ok(await other.page.getByRole("checkbox", { name: "toward_negative" }).isChecked());
  assert.equal(await other.page.getByLabel("Mode").inputValue(), "half_away_from_zero");
  // A link that is followed within the page.
  await other.page.evaluate(() => (location.hash = "#values=3.5"));
  assert.deepEqual(await other.results("3.5"), ["4"]);
  await on.close();
  await other.close();
});

test("errors are sentences, below the field that they are about", async () => {
  const on = await open();
  /** @type {(sentence: string, field?: string) => Promise<void>} */
  const says = async (sentence, field) => {
    await on.page.waitForFunction((text) => document.querySelector("#fault")?.textContent === text, sentence);
    if (field) assert.ok(await on.page.locator(`#${field} + #fault, label:has(#${field}) + #fault`).isVisible(), field);
    const invalid = await on.page.locator("[aria-invalid=true]").evaluateAll((all) => all.map(({ id }) => id));
    assert.deepEqual(invalid, field ? [field] : []);
  };
  await on.page.fill("#values", "1, x");
  await says("“x” is not a number.", "values");
  assert.ok(await on.page.locator("#values-table").isHidden());
  await on.page.fill("#values", "1, 2, 3");
  await on.page.fill("#shape", "2, 2");
  await says("The shape has room for 4, and there are 3 numbers.", "shape");
  await on.page.fill("#shape", "2 by 2");
  await says("The shape must be sizes, as in 2, 3.", "shape");
  await on.page.fill("#shape", "3");
  await says("");
  await on.page.getByLabel("dtype", { exact: true }).selectOption("int8");
  await on.page.fill("#values", "1, 2, 300");
  await says("300 is beyond the range of int8.", "values");
  assert.deepEqual(on.wrong.splice(0), []);
  await on.page.getByLabel("Dialect").selectOption("directml");
  await on.page.getByLabel("feature_level").selectOption("2_1");
  await on.page.waitForFunction(() => /^The service refused: .*exactly 4 dimensions, got 1.*\.$/.test(document.querySelector("#fault")?.textContent ?? ""));
  assert.match(on.wrong.splice(0).join(), /422/); // the browser's own line on the response
  await on.close();
});

test("a service that has gone is told, and one that is back is used", async () => {
  const short = await Service.start();
  const on = await Watched.open(browser, `${short.url}/${ieee()}`);
  await on.results(...START);
  await short.stop();
  await on.page.fill("#values", "4.5");
  await on.page.waitForFunction(() => document.querySelector("#fault")?.textContent === "The service does not respond. Check that it is running.");
  const again = await Service.start("--port", new URL(short.url).port);
  await on.page.fill("#values", "5.5");
  assert.deepEqual(await on.results("5.5"), ["6"]);
  assert.equal(await on.page.locator("#fault").textContent(), "");
  await again.stop();
  assert.match(on.wrong.splice(0).join(), /ERR_CONNECTION_REFUSED/);
  await on.close();
});

test("a service with keys asks for one", async () => {
  const file = join(folder, "keys");
  writeFileSync(file, `${createHash("sha256").update("s3cret").digest("hex")} alice\n`);
  const locked = await Service.start("--api-keys-file", file);
  const on = await Watched.open(browser, `${locked.url}/${ieee()}`);
  await on.page.getByLabel(/requires an API key/).fill("wrong");
  await on.page.keyboard.press("Enter");
  await on.page.getByText("The service did not accept this key.").waitFor();
  await on.page.getByLabel(/requires an API key/).fill("s3cret");
  await on.page.keyboard.press("Enter");
  assert.equal((await on.results(...START))[0], "-2");
  const program = await on.text("#snippet");
  assert.ok(program.includes("$TENSOR_ROUND_API_KEY") && !program.includes("s3cret") && !on.page.url().includes("s3cret"));
  const environment = { ...process.env, TENSOR_ROUND_API_KEY: "s3cret" };
  assert.match(execFileSync("bash", ["-euc", program], { encoding: "utf8", env: environment, stdio: ["ignore", "pipe", "ignore"] }), /"data":\[-2\.0/);
  await locked.stop();
  assert.ok(on.wrong.splice(0).every((line) => line.includes("401")));
  await on.close();
});

test("the keyboard is enough", async () => {
  const on = await open();
  await on.results(...START);
  const { keyboard } = on.page;
  /** @param {string} selector */
  const focus = async (selector) => {
    for (let i = 0; i < 40; i++) {
      await keyboard.press("Tab");
      if (await on.page.evaluate((wanted) => document.activeElement?.matches(wanted), selector)) return;
    }
    assert.fail(`no Tab leads to ${selector}`);
  };
  await focus("#values");
  await keyboard.press("ControlOrMeta+A");
  await keyboard.type("6.5");
  assert.deepEqual(await on.results("6.5"), ["6"]);
  await focus("#choice-mode");
  await keyboard.press("ArrowDown");
  await on.page.waitForFunction(() => document.querySelector("#values-table td:nth-child(3)")?.textContent === "7");
  await focus("canvas");
  const before = await on.range();
  await keyboard.press("ArrowRight");
  await keyboard.press("+");
  const zoomed = await on.range();
  assert.ok(zoomed.from > before.from && zoomed.to - zoomed.from < (before.to - before.from) * 0.6);
  await keyboard.press("Home");
  assert.deepEqual(await on.range(), before);
  await focus("input[type=radio]");
  await keyboard.press("ArrowRight");
  assert.match(await on.text("#snippet"), /^# Needs: pip install tensor-round/);
  await focus("#copy-program");
  await on.close();
});

const LOOKS = {
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
  phone: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 },
  "small phone": { viewport: { width: 320, height: 640 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 },
};
const axe = readFileSync(createRequire(`${WEB}package.json`).resolve("axe-core/axe.min.js"), "utf8");

for (const [name, look] of Object.entries(LOOKS)) {
  test(`${name}: nothing for axe to find, and nothing beside the screen`, async () => {
    const on = await open("#dtype=float64&values=0.1+1e300+2.5+-0.5", look);
    await on.results("0.1", "1e+300", "2.5", "-0.5");
    await on.range();
    /** @type {{ violations: { id: string, nodes: { html: string }[] }[], passes: unknown[] }} */
    const found = await on.page.evaluate(`(() => { ${axe}; return axe.run(); })()`);
    assert.deepEqual(found.violations.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html)]), []);
    assert.ok(found.passes.length > 20);
    // A phone's innerWidth grows with a page that is too wide.
    const { width } = "viewport" in look ? look.viewport : { width: 1200 };
    assert.ok((await on.page.evaluate(() => document.documentElement.scrollWidth)) <= width);
    const results = await on.box("#values-table td:nth-child(3)");
    assert.ok(results.x + results.width <= width);
    assert.ok(await on.page.locator("#values-table td.bits").first().isVisible());
    for (const table of ["values", "differences"]) {
      const isCut = await on.page.locator(`#${table}-scroll`).evaluate((e) => e.scrollWidth > e.clientWidth);
      assert.equal(await on.page.locator(`#${table}-hint`).isVisible(), isCut);
      assert.ok(isCut || width > 640);
    }
    await on.page.fill("#values", "-1.7976931348623157e+308");
    await on.results("-1.7976931348623157e+308");
    const lines = await on.page.locator("#values-table td.number").evaluateAll((all) => all.map((e) => e.clientHeight / parseFloat(getComputedStyle(e).lineHeight)));
    assert.ok(lines.every((count) => count < 2), String(lines));
    const back = await on.page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(back, name === "dark" ? "rgb(20, 23, 27)" : "rgb(255, 255, 255)");
    await on.close();
  });
}

test("who gives other results begins on the first screen, also of a large file", async () => {
  const on = await open("", { viewport: { width: 1200, height: 800 } });
  await on.page.setInputFiles("input[type=file]", npy("many.npy", "np.linspace(-4, 4, 8000, dtype='<f4').reshape(1000, 8)"));
  await on.page.waitForFunction(() => document.querySelector("#done")?.textContent?.startsWith("numpy rounded 8,000 values"));
  const { y, height } = await on.box("#differences-table thead");
  assert.ok(y + height <= 800, String(y));
  const [first, ...others] = await on.page.locator("#values-table tbody th").allTextContents();
  assert.deepEqual([first, others.at(-1), others.length], ["0, 0", "0, 7", 7]);
  await on.page.getByText("Show 64 more").first().click();
  assert.equal(await on.page.locator("#values-table tbody th").last().textContent(), "8, 7");
  await on.close();
});

test("what is read otherwise than it looks is noted, and an empty box is no tensor", async () => {
  const on = await open();
  await on.page.fill("#values", "1e400");
  await on.results("Infinity");
  assert.equal(await on.text("#notes"), "float32 has no 1e400: it is read as Infinity.");
  await on.page.fill("#values", "1,5 2,5");
  await on.page.waitForFunction(() => document.querySelector("#fault")?.textContent === "Is 1,5 one number or two? Write 1.5 or 1, 5.");
  await on.page.fill("#values", " ");
  await on.page.waitForFunction(() => document.querySelector("#done")?.textContent === "Type numbers, or drop a .npy file.");
  assert.equal(await on.text("#notes"), "");
  for (const id of ["values-table", "differences", "programs"]) assert.ok(await on.page.locator(`#${id}`).isHidden(), id);
  await on.page.setInputFiles("input[type=file]", npy("empty.npy", "np.zeros((0, 3))"));
  await on.page.waitForFunction(() => document.querySelector("#done")?.textContent === "empty.npy has no elements.");
  await on.page.getByText("Type numbers instead").click();
  await on.page.fill("#values", "2.5");
  assert.deepEqual(await on.results("2.5"), ["2"]);
  await on.close();
});

test("why, and where the documentation is", async () => {
  const on = await open();
  assert.match(await on.text("header"), /who is wrong\? .* see what its specification asks for, to the last bit\./);
  assert.deepEqual(await on.page.locator("nav a, nav button").allTextContents(), ["Documentation", "API"]);
  await on.page.getByRole("button", { name: "Documentation" }).click();
  const guide = on.page.getByRole("dialog", { name: "Documentation" });
  assert.ok(await guide.isVisible());
  for (const page of await guide.locator("code", { hasText: ".md" }).allTextContents()) readFileSync(TREE + page);
  for (const link of await on.page.locator("a[href]:not([download])").evaluateAll((all) => all.map((a) => /** @type {HTMLAnchorElement} */ (a).href))) {
    assert.equal((await fetch(link)).status, 200, link);
  }
  await on.page.keyboard.press("Escape");
  assert.ok(await guide.isHidden());
  await on.close();
});

test("two fingers zoom the staircase on a phone", async () => {
  const on = await open("", LOOKS.phone);
  const before = await on.range();
  await on.page.locator("canvas").scrollIntoViewIfNeeded();
  const box = await on.box("canvas");
  const session = await on.page.context().newCDPSession(on.page);
  const y = box.y + box.height / 2;
  /** @type {(type: "touchStart" | "touchMove" | "touchEnd", ...xs: number[]) => Promise<unknown>} */
  const touch = (type, ...xs) =>
    session.send("Input.dispatchTouchEvent", { type, touchPoints: xs.map((x, id) => ({ x: box.x + x, y, id })) });
  await touch("touchStart", 150, 190);
  for (let by = 10; by <= 80; by += 10) await touch("touchMove", 150 - by, 190 + by);
  await touch("touchEnd");
  const zoomed = await on.range();
  assert.ok(zoomed.to - zoomed.from < (before.to - before.from) / 3, JSON.stringify(zoomed));
  await on.close();
});

test("the page is small, and is asked for nothing but its own files", async () => {
  const files = readdirSync(PAGE, { recursive: true, encoding: "utf8" }).filter((name) => /(?<!\.d)\.(js|css|svg)$/.test(name));
  const context = await browser.newContext();
  const page = await context.newPage();
  /** @type {Map<string, number>} */
  const asked = new Map();
  page.on("response", (response) => asked.set(new URL(response.url()).pathname, response.status()));
  const response = await page.goto(`${service.url}/`);
  await page.waitForSelector("#values-table");
  const policy = response?.headers()["content-security-policy"] ?? "";
  assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'/);
  assert.ok(!policy.includes("unsafe"));
  assert.deepEqual(new Set(asked.keys()), new Set(["/", ...files.map((name) => `/page/${name}`), "/operators", "/round", "/compare"]));
  let bytes = 0;
  for (const name of files) {
    const { headers } = await fetch(`${service.url}/page/${name}`, { method: "HEAD", headers: { "Accept-Encoding": "gzip" } });
    bytes += Number(headers.get("content-length"));
  }
  assert.ok(bytes < 50_000, String(bytes));
  await context.close();
});
