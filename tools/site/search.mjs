/**
 * Fails where the search of a built site does not name the page that is about the words first.
 *
 * Run as `node search.mjs FOLDER`. It asks the worker that the site's own pages ask.
 */

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";

/** What people type, by the page that they look for. */
const WANTED = {
  "docs/tutorial.html": ["tutorial", "ten minutes"],
  "docs/sdk.html": ["python client", "pandas", "retries", "async client"],
  "docs/http.html": ["rust", "POST /round", "npy", "CORS", "problem json"],
  "docs/open-inference.html": ["tritonclient", "kserve", "shared memory"],
  "docs/web.html": ["JavaScript client", "browser page"],
  "docs/descriptors.html": ["operator in one word"],
  "docs/cli.html": ["command line", "exit code", "exit codes"],
  "docs/settings.html": ["settings", "keep alive"],
  "docs/deploy.html": ["nginx", "systemd", "upgrade", "roll back", "haproxy"],
  "docs/containers.html": ["docker", "podman", "kubernetes", "autoscaling"],
  "docs/operations.html": ["metrics", "alerts", "access log", "traces", "dashboard"],
  "docs/security.html": ["API keys", "TLS", "threat model", "allowed hosts"],
  "docs/gpu.html": ["gpu", "cuda shared memory"],
  "docs/performance.html": ["how fast", "compiled"],
  "docs/reliability.html": ["overload"],
  "docs/explanation.html": ["why runtimes differ", "ties", "signed zero", "NaN", "deviations of rounding"],
  "docs/exactness.html": ["proof", "exhaustive"],
  "docs/specifications.html": ["specifications"],
  "docs/runtimes.html": ["how runtimes round", "test suites"],
  "docs/verify.html": ["verify in CI", "compare arrays", "quantization", "block formats"],
  "docs/howto/find-the-wrong-runtime.html": ["wrong runtime"],
  "docs/howto/port-a-quantized-model.html": ["off by one", "off-by-ones", "quantized model"],
  "docs/howto/directml-to-onnx.html": ["port DirectML to ONNX", "port a model"],
  "docs/howto/large-arrays.html": ["larger than memory", "resume", "zarr"],
  "docs/api-policy.html": ["deprecated", "supported versions", "semantic versioning"],
  "docs/architecture.html": ["architecture", "states of a connection"],
};

/** What a worker of a browser has, and node's has by other names. */
const BROWSER = `
  const { parentPort } = require("node:worker_threads");
  globalThis.self = globalThis;
  globalThis.location = new URL("https://site.example/assets/javascripts/workers/search.js");
  globalThis.postMessage = (data) => parentPort.postMessage(data);
  globalThis.addEventListener = (type, listener) => parentPort.on(type, (data) => listener({ data }));
`;
/** The types of messages to the worker. */
const [SETUP, QUERY] = [0, 2];

const [folder] = process.argv.slice(2);
const workers = join(folder, "assets/javascripts/workers");
const [name] = readdirSync(workers).filter((file) => /^search\..*\.js$/.test(file));
const worker = new Worker(BROWSER + readFileSync(join(workers, name), "utf8"), { eval: true });

/** The worker's answer to a message. */
function answer(type, data) {
  return new Promise((resolve, reject) => {
    worker.removeAllListeners("error").once("error", reject);
    worker.once("message", resolve);
    worker.postMessage({ type, data });
  });
}

const index = JSON.parse(readFileSync(join(folder, "search/search_index.json"), "utf8"));
await answer(SETUP, { ...index, options: { suggest: false } });
let tried = 0;
for (const [page, queries] of Object.entries(WANTED)) {
  for (const query of queries) {
    const { data } = await answer(QUERY, query);
    const found = data.items.map(([best]) => best.location.split("#")[0]);
    tried += 1;
    if (found[0] !== page) {
      process.exitCode = 1;
      console.log(`search for "${query}": ${found[0]} comes before ${page}`);
    }
  }
}
await worker.terminate();
console.log(`${folder}: ${tried} searches`);
