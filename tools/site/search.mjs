/**
 * Fails where the search of a built site does not name the page that is about the words among the
 * first two.
 *
 * Run as `node search.mjs FOLDER`. It asks the worker that the site's own pages ask.
 */

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";

/** What people type, by the page that they look for. */
const WANTED = {
  "docs/howto/directml-to-onnx.html": ["port DirectML to ONNX", "port a model"],
  "docs/howto/find-the-wrong-runtime.html": [
    "off by one",
    "rounding off by one",
    "rounding is off by one",
    "wrong runtime",
  ],
  "docs/howto/large-arrays.html": ["larger than memory", "resume"],
  "docs/verify.html": ["ci", "verify in CI", "compare arrays"],
  "docs/cli.html": ["exit code", "exit codes"],
  "docs/gpu.html": ["gpu"],
  "docs/http.html": ["CORS", "curl"],
  "examples/index.html": ["rust"],
  "docs/containers.html": ["docker", "podman", "kubernetes"],
  "docs/deploy.html": ["nginx", "behind nginx", "systemd", "roll back", "upgrade", "ray"],
  "docs/security.html": ["TLS"],
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
    const first = found.slice(0, 2);
    if (!first.includes(page)) {
      process.exitCode = 1;
      console.log(`search for "${query}": ${first.join(" and ")} come before ${page}`);
    }
  }
}
await worker.terminate();
console.log(`${folder}: ${tried} searches`);
