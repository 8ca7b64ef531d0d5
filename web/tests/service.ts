/** A real service in a process of its own, on a free port. */

import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
/** The folder `web/`, and the tree that it is part of. */
export const TREE = ROOT;
export const WEB = `${ROOT}web/`;

export class Service {
  readonly url: string;
  readonly #process: ChildProcess;

  private constructor(url: string, process: ChildProcess) {
    this.url = url;
    this.#process = process;
  }

  static async start(...options: string[]): Promise<Service> {
    const program = `${ROOT}.venv/bin/tensor-round-service`;
    const given = ["--backend", "numpy", "--port", "0", ...options];
    const child = spawn(program, given, { stdio: ["ignore", "ignore", "pipe"] });
    let log = "";
    const url = await new Promise<string>((resolve, reject) => {
      child.stderr.on("data", (text: Buffer) => {
        log += text.toString();
        const found = /running on (http:\/\/\S+)/.exec(log);
        if (found?.[1]) resolve(found[1]);
      });
      child.on("exit", () => reject(new Error(`the service did not start:\n${log}`)));
    });
    const service = new Service(url, child);
    while (!(await fetch(`${url}/readyz`).then((r) => r.ok, () => false))) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return service;
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode !== null) return;
    const exited = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.kill("SIGTERM");
    await exited;
  }
}
