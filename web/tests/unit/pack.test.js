/** The client as `npm pack` makes it: it works where nothing else is, and has its types. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { CLIENT, Service, WEB } from "../service.js";

const TYPED = `
import { Client, descriptorOf, InvalidDescriptor, type Descriptor, type Differences, type DType, type Operator, type Result, type Rounding } from "tensor-round";
const client: Client = new Client("http://127.0.0.1:8000", { apiKey: "k", retries: 0 });
const dtype: DType = "bfloat16";
const floor: Operator = { dialect: "array_api", op: "floor" };
const descriptor: Descriptor = descriptorOf(floor, dtype, [1] as const);
export const rounded: Promise<Float32Array> = client.round(Float32Array.of(0.5), floor);
export const result: Promise<Result> = client.execute(descriptor, new Uint8Array(2), { signal: AbortSignal.timeout(5) });
export const differences: Promise<Differences> = client.compare(descriptor, new Uint8Array(2));
export const get: Promise<{ roundings: Rounding[] }> = client.get<{ roundings: Rounding[] }>("operators");
export const code = (error: InvalidDescriptor): string => error.code + error.faults.map(({ msg }) => msg).join();
export const away: Promise<Float32Array> = client.round(Float32Array.of(0.5), "directml:TOWARD_INFINITY");
// @ts-expect-error lists are no typed arrays
client.round([0.5]);
`;

test("the package holds the client alone, and works", async () => {
  const folder = mkdtempSync(join(tmpdir(), "pack-"));
  /** @type {(cwd: string, ...args: string[]) => string} */
  const npm = (cwd, ...args) => execFileSync("npm", args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  /** @type {[{ filename: string, files: { path: string }[] }]} */
  const [packed] = JSON.parse(npm(CLIENT, "pack", "--json", "--pack-destination", folder).replace(/^[^[]*/, ""));
  const kinds = new Set(packed.files.map(({ path }) => path.replace(/^(types\/)?\w+(?=\.js$|\.d\.ts$)/, "$1*")));
  assert.deepEqual(kinds, new Set(["*.js", "types/*.d.ts", "package.json", "README.md"]));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
  npm(folder, "install", "--offline", "--no-audit", "--no-fund", join(folder, packed.filename));
  const service = await Service.start();
  try {
    const code = `import { Client } from "tensor-round";
      console.log((await new Client("${service.url}").round(Float32Array.of(0.5, 1.5, 2.5))).join());`;
    const printed = execFileSync("node", ["--input-type=module", "-e", code], { cwd: folder, encoding: "utf8" });
    assert.equal(printed, "0,2,2\n");
  } finally {
    await service.stop();
  }
  // A user's TypeScript, with all checks and without our sources.
  writeFileSync(join(folder, "typed.ts"), TYPED);
  const options = ["--noEmit", "--strict", "--target", "esnext", "--module", "nodenext", "--types", ""];
  execFileSync(`${WEB}node_modules/.bin/tsc`, [...options, "typed.ts"], { cwd: folder, stdio: "pipe", encoding: "utf8" });
});
