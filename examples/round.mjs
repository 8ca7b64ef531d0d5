// Round five floats by DirectML's TOWARD_INFINITY, with fetch: node 18 and newer, Deno, browsers.
const base = globalThis.process?.env.TENSOR_ROUND_URL ?? "http://127.0.0.1:8000";
const x = Float32Array.of(-2.5, -0.3, 0.5, 1.5, 2.5);
const tensor = { DataType: "FLOAT32", Sizes: [x.length] };
const descriptor = {
  dialect: "directml",
  feature_level: "3_0",
  type: "DML_OPERATOR_ELEMENT_WISE_ROUND",
  desc: { InputTensor: tensor, OutputTensor: tensor, RoundingMode: "TOWARD_INFINITY" },
};

const response = await fetch(`${base.replace(/\/$/, "")}/round`, {
  method: "POST",
  headers: {
    "Content-Type": "application/octet-stream",
    "Operator-Descriptor": JSON.stringify(descriptor),
  },
  body: x, // little-endian, as on x86 and ARM
});
if (!response.ok) {
  const problem = await response.json(); // application/problem+json
  throw new Error(`${problem.code}: ${problem.detail}`);
}
const y = new Float32Array(await response.arrayBuffer());
console.log(Array.from(y, (v) => (Object.is(v, -0) ? "-0" : String(v))).join(" "));
