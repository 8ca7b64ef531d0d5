/** Real servers: the service in a process of its own on a free port, and others of node's. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";

/** @import { ChildProcess } from "node:child_process" */
/** @import { RequestListener } from "node:http" */

/** The repository, the folder of what tests the page, and those of the page and of the client. */
export const TREE = fileURLToPath(new URL("../../", import.meta.url));
export const WEB = `${TREE}web/`;
export const PAGE = `${TREE}service/tensor_round_service/pages/web/`;
export const CLIENT = `${PAGE}client`;

/** A service that is ready. */
export class Service {
  /** @type {ChildProcess} */
  #process;

  /**
   * @param {string} url
   * @param {ChildProcess} process
   */
  constructor(url, process) {
    this.url = url;
    this.#process = process;
  }

  /** @param {string[]} options */
  static async start(...options) {
    const program = `${TREE}.venv/bin/tensor-round-service`;
    const child = spawn(program, ["--backend", "numpy", "--port", "0", ...options], { stdio: ["ignore", "ignore", "pipe"] });
    let log = "";
    /** @type {string} */
    const url = await new Promise((resolve, reject) => {
      child.stderr.on("data", (text) => {
        log += text.toString();
        const found = /running on (http:\/\/\S+)/.exec(log);
        if (found?.[1]) resolve(found[1]);
      });
      child.on("exit", () => reject(new Error(`the service did not start:\n${log}`)));
    });
    while (!(await fetch(`${url}/readyz`).then((r) => r.ok, () => false))) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return new Service(url, child);
  }

  async stop() {
    if (this.#process.exitCode !== null) return;
    const exited = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.kill("SIGTERM");
    await exited;
  }
}

/**
 * A server of node's on a free port.
 *
 * @param {RequestListener} listener
 */
export async function serving(listener) {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${address.port}`, close };
}
