// What a user of the generated TypeScript types writes: compiled strictly, then run.
// node calls.js URL KEY
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };

type Schemas = components["schemas"];

const [url = "", key = ""] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${key}` } });
const open = createClient<paths>({ baseUrl: url });

const VALUES = [0.5, 1.5, -0.3, 2.5];
const EVEN = [0, 2, -0, 2];
const AWAY = [1, 2, -0, 3];
const UP = [1, 2, -0, 3];
const DOWN = [0, 1, -1, 2];

function check(isSo: boolean, what: unknown): asserts isSo {
  if (!isSo) throw new Error(JSON.stringify(what));
}

/** Whether they are equal, signs of zeros included. */
function same(got: readonly unknown[], expected: readonly number[]): boolean {
  return got.length === expected.length && expected.every((value, i) => Object.is(got[i], value));
}

// The README's own words, and the least that each dialect takes.
const descriptors: [Schemas["Descriptor"], number[]][] = [
  [{ dialect: "ieee754", input: { dtype: "float32", shape: [4] } }, EVEN],
  [
    {
      dialect: "ieee754",
      rounding: "ties_to_away",
      input: { dtype: "float32", shape: [4], strides: null, byte_length: null },
      output: null,
    },
    AWAY,
  ],
  [
    {
      dialect: "onnx",
      op_type: "Round",
      opset_version: 22,
      input: { elem_type: "FLOAT", shape: [4] },
    },
    EVEN,
  ],
  [
    {
      dialect: "openvino",
      type: "Round",
      version: "opset5",
      data: { mode: "half_away_from_zero" },
      input: { element_type: "f32", shape: [4] },
    },
    AWAY,
  ],
  [
    {
      dialect: "directml",
      feature_level: "3_0",
      type: "DML_OPERATOR_ELEMENT_WISE_ROUND",
      desc: {
        InputTensor: { DataType: "FLOAT32", Sizes: [4] },
        OutputTensor: { DataType: 1, Sizes: [4] },
        RoundingMode: "TOWARD_INFINITY",
      },
    },
    AWAY,
  ],
  [
    {
      dialect: "openvino",
      type: "Ceiling",
      version: "opset1",
      input: { element_type: "f32", shape: [4] },
    },
    UP,
  ],
  [
    {
      dialect: "directml",
      feature_level: "1_0",
      type: "DML_OPERATOR_ELEMENT_WISE_FLOOR",
      desc: {
        InputTensor: { DataType: "FLOAT32", Sizes: [1, 1, 1, 4] },
        OutputTensor: { DataType: 1, Sizes: [1, 1, 1, 4] },
        ScaleBias: null,
      },
    },
    DOWN,
  ],
];

const cast: Schemas["Descriptor"] = {
  dialect: "onnx",
  op_type: "Cast",
  opset_version: 24,
  to: "DOUBLE",
  input: { elem_type: "FLOAT", shape: [4] },
};

async function roundOctets(): Promise<void> {
  for (const [descriptor, expected] of descriptors) {
    const { data, error, response } = await client.POST("/round", {
      params: { header: { "Operator-Descriptor": JSON.stringify(descriptor) } },
      headers: { "Content-Type": "application/octet-stream" },
      body: "", // bytes are strings to the types; the serializer has them
      bodySerializer: () => new Float32Array(VALUES),
      parseAs: "arrayBuffer",
    });
    check(data !== undefined, error);
    check(same([...new Float32Array(data)], expected), descriptor);
    check(response.headers.get("Execution-Backend") === "numpy", "backend");
  }
}

async function roundJson(): Promise<void> {
  for (const [descriptor, expected] of descriptors) {
    const { data, error } = await client.POST("/round", { body: { descriptor, data: VALUES } });
    check(data !== undefined && typeof data === "object", error);
    check(Array.isArray(data.data) && same(data.data.flat(3), expected), data);
  }
}

async function castJson(): Promise<void> {
  const body = { descriptor: cast, data: VALUES };
  const { data, error } = await client.POST("/round", { body });
  check(data !== undefined && typeof data === "object", error);
  check(data.output.dtype === "float64" && Array.isArray(data.data), data);
  check(same(data.data, [...new Float32Array(VALUES)]), data);
}

async function beRefused(): Promise<void> {
  const descriptor: Schemas["IEEE754Descriptor"] = {
    dialect: "ieee754",
    input: { dtype: "float32", shape: [4] },
  };
  const short = { body: { descriptor, data: [0.5] } };
  const { error } = await client.POST("/round", short);
  check(error?.code === "payload_size_mismatch", error);
  const { error: nobody } = await open.POST("/round", short);
  check(nobody?.code === "unauthorized", nobody);
}

async function inferJson(): Promise<void> {
  const { data, error } = await client.POST("/v2/models/{name}/infer", {
    params: { path: { name: "openvino_round" } },
    body: { inputs: [{ name: "X", datatype: "FP32", shape: [4], data: VALUES }] },
  });
  check(data !== undefined && typeof data === "object", error);
  check(same(data.outputs[0]?.data ?? [], EVEN), data);
}

async function readDocuments(): Promise<void> {
  const { data: root } = await open.GET("/");
  check(root?.links["docs"] === "/docs", root);
  const { data: operators } = await client.GET("/operators");
  check(operators?.dialects["onnx"]?.operator === "Round", operators);
  const { data: conformance } = await client.GET("/conformance");
  check(conformance?.conforms === true, conformance);
  const { data: metadata } = await client.GET("/v2/models/{name}", {
    params: { path: { name: "onnx_round" } },
  });
  check(metadata?.versions[1] === "22", metadata);
  const { data: regions } = await client.GET("/v2/systemsharedmemory/status");
  check(regions?.length === 0, regions);
}

await roundOctets();
await roundJson();
await castJson();
await beRefused();
await inferJson();
await readDocuments();
