/** The client as `npm pack` makes it: what is in it works where nothing else is. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Service, WEB } from "../service.ts";

test("the package holds the client alone, and works", async () => {
  const folder = mkdtempSync(join(tmpdir(), "pack-"));
  const npm = (cwd: string, ...args: string[]): string => execFileSync("npm", args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  const [packed] = JSON.parse(npm(`${WEB}client`, "pack", "--json", "--pack-destination", folder).replace(/^[^[]*/, "")) as [
    { filename: string; files: { path: string }[] },
  ];
  const kinds = new Set(packed.files.map(({ path }) => path.replace(/^dist\/\w+/, "")));
  assert.deepEqual(kinds, new Set([".js", ".d.ts", "package.json", "README.md"]));
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
});
