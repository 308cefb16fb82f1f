/**
 * Finds the system's Chromium, and installs the distribution's package where there is none. Where that cannot be, the
 * step says so in a sentence and has failed: a page that nobody looked at is not a page that works.
 */
import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import type { TestProject } from "vitest/node";

const NAMES = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];
const INSTALL_MS = 240_000;
const run = promisify(execFile);

declare module "vitest" {
  interface ProvidedContext {
    readonly chromium: string;
  }
}

export async function setup(project: TestProject): Promise<void> {
  project.provide("chromium", (await find()) ?? (await install()));
}

async function find(): Promise<string | null> {
  const named = process.env.SIGNALBOX_CHROMIUM;
  const folders = (process.env.PATH ?? "").split(delimiter).concat("/usr/bin");
  const places = folders.flatMap((folder) => NAMES.map((name) => join(folder, name)));
  for (const place of named === undefined || named === "" ? places : [named]) {
    const there = await access(place, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (there) return place;
  }
  return null;
}

async function install(): Promise<string> {
  process.stdout.write("browser: there is no Chromium here; the distribution's package is installed\n");
  let why = "apt-get installed none";
  try {
    const options = { timeout: INSTALL_MS, env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" } };
    await run("apt-get", ["update", "-q"], options);
    await run("apt-get", ["install", "-q", "-y", "--no-install-recommends", "chromium"], options);
  } catch (thrown) {
    const [line = ""] = (thrown instanceof Error ? thrown.message : String(thrown)).split("\n");
    why = line;
  }
  const found = await find();
  if (found === null) {
    throw new Error(
      `The page cannot be looked at: there is no Chromium, and installing it failed (${why}). ` +
        "Install the package chromium, or name a browser with SIGNALBOX_CHROMIUM.",
    );
  }
  return found;
}
