/** The programs of docs/web.md and of the client's own page: each prints what its comments say. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { CLIENT, Service, TREE } from "../service.js";

for (const page of [`${TREE}docs/web.md`, `${CLIENT}/README.md`]) {
  test(page, async () => {
    const programs = Array.from(readFileSync(page, "utf8").matchAll(/^```js\n(.*?)^```$/gms), ([, program = ""]) => program);
    assert.ok(programs.length);
    const folder = mkdtempSync(join(tmpdir(), "docs-"));
    mkdirSync(join(folder, "node_modules"));
    symlinkSync(CLIENT, join(folder, "node_modules", "tensor-round"));
    const service = await Service.start();
    try {
      for (const program of programs) {
        const code = program.replaceAll("http://127.0.0.1:8000", service.url);
        const printed = execFileSync("node", ["--input-type=module", "-e", code], { cwd: folder, encoding: "utf8" });
        const shown = Array.from(program.matchAll(/console\.log.*;\s+\/\/ (.*)$/gm), ([, said]) => said);
        assert.deepEqual(printed.trimEnd().split("\n"), shown);
      }
    } finally {
      await service.stop();
    }
  });
}
