// An ostard that the tests start and stop.

import { spawn } from "node:child_process";
import { createServer } from "node:net";

const PATIENCE_MS = 120_000;

/**
 * A port that nobody listens on, below those that the system gives to outgoing connections: one of the browser's could take
 * such a port before the daemon listens, or while it restarts.
 */
export async function freePort() {
  for (;;) {
    const port = 10_000 + Math.floor(22_000 * Math.random());
    const server = createServer();
    const isFree = await new Promise((resolve) => {
      server.once("error", () => resolve(false));
      server.listen(port, "127.0.0.1", () => resolve(true));
    });
    if (isFree) {
      await new Promise((resolve) => server.close(resolve));
      return port;
    }
  }
}

/** Starts a program; resolves when it has printed what `ready` matches. */
export async function start(program, args, ready) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  let printed = "";
  const told = new Promise((resolve, reject) => {
    const deadline = setTimeout(() => reject(new Error(`no ${ready} in ${printed}`)), PATIENCE_MS);
    const settle = (outcome) => (value) => {
      clearTimeout(deadline);
      outcome(value);
    };
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (text) => {
        printed += text;
        const found = ready.exec(printed);
        if (found) {
          settle(resolve)(found);
        }
      });
    }
    child.on("error", settle(reject));
    child.on("exit", (code) => settle(reject)(new Error(`ended with ${code}: ${printed}`)));
  });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  await told;
  return {
    printed: () => printed,
    /** Asks it to end, and waits until it has. */
    stop: async () => {
      child.kill("SIGTERM");
      return ended;
    },
  };
}

/** Runs a program to its end. */
export async function run(program, args) {
  const child = spawn(program, args, { stdio: "ignore" });
  const code = await new Promise((resolve, reject) => child.on("exit", resolve).on("error", reject));
  if (code !== 0) {
    throw new Error(`${program} ${args.join(" ")} ended with ${code}`);
  }
}
