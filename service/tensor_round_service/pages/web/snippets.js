/** Programs that make the shown call. */

import { operatorOf, versionOf, wordOf } from "./catalog.js";
import { DTYPES, toWire } from "./client/index.js";
import { format, FORMATS, isNaNPattern, nanOf, numberOf } from "./numbers.js";
import { length, patternAt } from "./tensor.js";

/** @import { Catalog, Choice } from "./catalog.js" */
/** @import { DType } from "./client/index.js" */
/** @import { NpyFile } from "./npy.js" */
/** @import { Tensor } from "./tensor.js" */

/**
 * @typedef {object} Shown
 * @property {string} url
 * @property {Catalog} catalog
 * @property {Choice} choice
 * @property {Tensor} x
 * @property {NpyFile | undefined} file The dropped file; undefined for typed numbers.
 */

const KEY = "TENSOR_ROUND_API_KEY";
const NUMPY = new Set(["float16", "float32", "float64"]);

const WRITERS = { curl, Python: python, JavaScript: javascript, tritonclient };
/** @typedef {keyof typeof WRITERS} Language */
export const LANGUAGES = /** @type {Language[]} */ (Object.keys(WRITERS));

/**
 * The snippet in one language. It runs as it is, next to the dropped file if there is one.
 *
 * @param {Language} language
 * @param {Shown} shown
 */
export const snippet = (language, shown) => WRITERS[language](shown);

/**
 * @param {Shown} shown
 * @returns {string}
 */
function curl(shown) {
  const { url, x, file } = shown;
  const key = needsKey(shown) ? ` -H "Authorization: Bearer $${KEY}"` : "";
  if (file) {
    const type = "-H 'Content-Type: application/x-npy'";
    return `curl --fail-with-body${key} --data-binary @${quoted(file.name)} ${type} \\\n  '${url}round?${query(shown)}' -o rounded.npy`;
  }
  const { target: to } = shown.choice;
  const operator = { operator: word(shown), ...(to ? { to } : {}) };
  const descriptor = JSON.stringify({ ...operator, dtype: x.dtype, shape: x.shape });
  if (patterns(x).some((bits) => !isPlain(bits, x.dtype))) {
    const octets = Array.from(toWire(x.bytes, x.dtype), (byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
    return `# JSON cannot carry the bits of a NaN, so the tensor is sent as bytes.\nprintf '${octets}' | curl --fail-with-body${key} --data-binary @- \\\n  -H 'Operator-Descriptor: ${descriptor}' \\\n  ${url}round | od -An -v -tx1`;
  }
  const data = patterns(x).map((bits) => strictJson(format(bits, x.dtype))).join(",");
  return `curl --fail-with-body${key} ${url}round -H 'Content-Type: application/json' -d '{"data":[${data}],\n  "descriptor":${descriptor}}'`;
}

/**
 * @param {Shown} shown
 * @returns {string}
 */
function python(shown) {
  const { url } = shown;
  return [
    "# Needs: pip install tensor-round; until its first release, pip install . in a clone.",
    `import ${imports(shown.x)}numpy as np, tensor_round as tr`,
    "",
    ...(needsKey(shown) ? [`# The client reads the key from ${KEY}.`] : []),
    `x = ${numpyArray(shown)}`,
    `with tr.Client("${url}") as client:`,
    `    print(client.${called(shown)}))`,
  ].join("\n");
}

/**
 * @param {Shown} shown
 * @returns {string}
 */
function javascript(shown) {
  const { url, x, file } = shown;
  const key = needsKey(shown);
  if (file) {
    const fields = { "Content-Type": "application/x-npy" };
    const headers = JSON.stringify(fields).replace("}", key ? `,Authorization:\`Bearer \${process.env.${KEY}}\`}` : "}");
    return [
      "// Needs node 20 or newer.",
      'import { readFile, writeFile } from "node:fs/promises";',
      "",
      `const response = await fetch("${url}round?${query(shown)}", {`,
      `  method: "POST", headers: ${headers}, body: await readFile(${JSON.stringify(file.name)}),`,
      "});",
      "if (!response.ok) throw new Error((await response.json()).detail);",
      'await writeFile("rounded.npy", new Uint8Array(await response.arrayBuffer()));',
    ].join("\n");
  }
  const { array, isBits } = typedArray(x);
  const options = [...(isBits ? [`dtype: "${x.dtype}"`] : []), ...(x.shape.length === 1 ? [] : [`shape: [${x.shape.join(", ")}]`])];
  return [
    "// Needs the npm package tensor-round: docs/web.md says where from.",
    'import { Client } from "tensor-round";',
    "",
    `const client = new Client("${url}"${key ? `, { apiKey: process.env.${KEY} }` : ""});`,
    `const x = ${array};`,
    `console.log(await client.${called(shown)}${options.length ? `, { ${options.join(", ")} }` : ""}));`,
  ].join("\n");
}

/**
 * @param {Shown} shown
 * @returns {string}
 */
function tritonclient(shown) {
  const { url, choice, x, catalog } = shown;
  const { name: model, input, output, mode_parameter: mode } = operatorOf(catalog, choice).model;
  const { model_version: version } = versionOf(catalog, choice);
  const isSmall = tritonType(x.dtype) === "UINT8" && x.dtype !== "uint8";
  const isHalf = FORMATS[x.dtype].bits === 4;
  const made = choice.target || x.dtype;
  const isSmallResult = tritonType(made) === "UINT8" && made !== "uint8";
  const parameters = {
    ...(choice.target ? { to: choice.target } : {}),
    ...(mode ? { [mode]: choice.mode } : {}),
    ...(isSmall ? { dtype: x.dtype } : {}),
  };
  const host = new URL(url);
  const ssl = host.protocol === "https:" ? ", ssl=True" : "";
  const headers = needsKey(shown) ? `, headers={"Authorization": f"Bearer {os.environ['${KEY}']}"}` : "";
  const modules = imports(x, choice.target);
  return [
    `# Needs: pip install 'tritonclient[http]'${modules && " ml_dtypes"}`,
    `import ${needsKey(shown) ? "os, " : ""}${modules}numpy as np, tritonclient.http as triton`,
    "",
    `x = ${numpyArray(shown)}`,
    ...(isHalf
      ? ["# Two elements have a byte.", "halves = np.append(x.reshape(-1).view(np.uint8), np.zeros(x.size % 2, np.uint8))", "sent = halves[::2] & 15 | halves[1::2] << 4"]
      : [`sent = ${isSmall ? "x.view(np.uint8)" : "x"}`]),
    `tensor = triton.InferInput("${input}", sent.shape, "${tritonType(x.dtype)}")`,
    "tensor.set_data_from_numpy(sent)",
    `with triton.InferenceServerClient("${host.host}${host.pathname.replace(/\/$/, "")}"${ssl}) as client:`,
    `    answer = client.infer("${model}", [tensor], "${version}", parameters=${JSON.stringify(parameters)}${headers})`,
    `    y = answer.as_numpy("${output}")`,
    ...(FORMATS[made].bits === 4 ? ["    y = np.stack([y & 15, y >> 4], -1).reshape(-1)[:x.size].reshape(x.shape)"] : []),
    `    print(y${isSmallResult ? `.view(ml_dtypes.${made})` : ""})`,
  ].join("\n");
}

/** @param {Shown} shown */
const needsKey = ({ catalog }) => catalog.service.api_keys;

/** @param {Tensor} x */
const patterns = (x) => Array.from({ length: length(x) }, (_, i) => patternAt(x, i));

/**
 * Whether the decimal, or the word NaN, determines the pattern.
 *
 * @param {bigint} bits
 * @param {DType} dtype
 */
const isPlain = (bits, dtype) => !isNaNPattern(bits, dtype) || bits === nanOf(dtype);

/** @param {string} text */
const strictJson = (text) => (/NaN|Infinity/.test(text) ? `"${text}"` : text);

/** @param {bigint} bits */
const hex = (bits) => `0x${bits.toString(16)}`;

/** @param {string} name */
const quoted = (name) => (/^[\w.-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);

/** @param {Shown} shown */
const word = ({ catalog, choice }) => wordOf(catalog, choice);

/** @param {Shown} shown */
function query(shown) {
  const dtype = shown.file?.dtype === undefined ? `&dtype=${shown.choice.dtype}` : "";
  const to = shown.choice.target && `&to=${shown.choice.target}`;
  return `operator=${encodeURIComponent(word(shown))}${to}${dtype}`;
}

/**
 * The call of a client but for its last parenthesis.
 *
 * @param {Shown} shown
 */
const called = (shown) => (shown.choice.target ? `cast(x, "${shown.choice.target}", "${word(shown)}"` : `round(x, "${word(shown)}"`);

/** @type {(x: Tensor, to?: DType | "") => string} */
const imports = (x, to) => (isMlDtype(x.dtype) || (to && isMlDtype(to)) ? "ml_dtypes, " : "");

/** @param {DType} dtype */
const isMlDtype = (dtype) => FORMATS[dtype].bits === 4 || (FORMATS[dtype].kind === "float" && !NUMPY.has(dtype));

/** @param {Shown} shown */
function numpyArray({ x, file }) {
  const own = `${isMlDtype(x.dtype) ? "ml_dtypes" : "np"}.${x.dtype}`;
  if (file) return `np.load(${JSON.stringify(file.name)})${file.dtype === undefined ? `.view(${own})` : ""}`;
  const all = patterns(x);
  const shape = x.shape.length === 1 ? "" : `.reshape(${x.shape.join(", ")})`;
  if (all.some((bits) => !isPlain(bits, x.dtype))) {
    return `np.array([${all.map(hex).join(", ")}], np.uint${8 * DTYPES[x.dtype].bytes}).view(${own})${shape}`;
  }
  /** @type {Readonly<Record<string, string>>} */
  const words = { NaN: "np.nan", Infinity: "np.inf", "-Infinity": "-np.inf" };
  const texts = all.map((bits) => {
    const text = decimal(bits, x.dtype);
    return words[text] ?? (text === "-0" ? "-0.0" : text);
  });
  return `np.array([${texts.join(", ")}], ${own})${shape}`;
}

/**
 * A decimal that reads back even if it is converted to a double first.
 *
 * @param {bigint} bits
 * @param {DType} dtype
 */
function decimal(bits, dtype) {
  const text = format(bits, dtype);
  const isSafe = dtype !== "float32" || Object.is(Math.fround(Number(text)), numberOf(bits, dtype));
  return isSafe ? text : String(numberOf(bits, dtype));
}

/**
 * An expression for an array of JavaScript, and whether it contains the bits of another type.
 *
 * @param {Tensor} x
 * @returns {{ array: string, isBits: boolean }}
 */
function typedArray(x) {
  const all = patterns(x);
  const { kind, bits } = FORMATS[x.dtype];
  const unsigned = `${bits === 64 ? "BigUint" : "Uint"}${8 * DTYPES[x.dtype].bytes}Array`;
  const n = bits === 64 ? "n" : "";
  const raw = () => `${unsigned}.of(${all.map((pattern) => `${hex(pattern)}${n}`).join(", ")})`;
  if (bits === 4 || (kind === "float" && bits < 32)) return { array: raw(), isBits: true };
  if (kind !== "float") {
    const name = kind === "uint" ? unsigned : `${bits === 64 ? "BigInt" : "Int"}${bits}Array`;
    return { array: `${name}.of(${all.map((pattern) => `${format(pattern, x.dtype)}${n}`).join(", ")})`, isBits: false };
  }
  const name = `Float${bits}Array`;
  if (all.some((pattern) => !isPlain(pattern, x.dtype))) return { array: `new ${name}(${raw()}.buffer)`, isBits: false };
  return { array: `${name}.of(${all.map((pattern) => decimal(pattern, x.dtype)).join(", ")})`, isBits: false };
}

/** @param {DType} dtype */
function tritonType(dtype) {
  const { kind, bits } = FORMATS[dtype];
  if (dtype === "bfloat16") return "BF16";
  if (bits === 4 || (kind === "float" && bits === 8)) return "UINT8";
  if (kind === "float") return `FP${bits}`;
  return `${kind.toUpperCase()}${bits}`;
}
