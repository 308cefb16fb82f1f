/**
 * The private directory of a worker. It goes with the worker; what a killed one left behind is removed by the next
 * worker of the same user on the same machine.
 */
import { createHash } from "node:crypto";
import { readlinkSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
const PREFIX = "signalbox-worker";
export async function makeScratch(root = tmpdir()) {
    const home = `${PREFIX}-${processSpace()}`;
    await sweep(root, home);
    const path = await mkdtemp(join(root, `${home}-${process.pid}-`));
    return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
async function sweep(root, home) {
    for (const name of await readdir(root)) {
        if (!name.startsWith(`${home}-`)) {
            continue;
        }
        const pid = Number(name.slice(home.length + 1).split("-")[0]);
        if (Number.isInteger(pid) && pid > 0 && !isAlive(pid)) {
            // Another user's directory cannot be removed, and need not be.
            await rm(join(root, name), { recursive: true, force: true }).catch(() => undefined);
        }
    }
}
function isAlive(pid) {
    try {
        process.kill(pid, 0);
        return true;
    }
    catch (error) {
        return !(error instanceof Error && "code" in error && error.code === "ESRCH");
    }
}
/** Process ids only mean something within one machine and one namespace: containers may share a temporary folder. */
function processSpace() {
    let space = "";
    try {
        space = readlinkSync("/proc/self/ns/pid");
    }
    catch {
        // Systems without namespaces have one process space per machine.
    }
    return createHash("sha256").update(`${hostname()} ${space}`).digest("hex").slice(0, 8);
}
//# sourceMappingURL=scratch.js.map