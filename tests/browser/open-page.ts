/** One page in the system's Chromium. Nothing of it may leave this machine, and it is gone with the test. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, type Page } from "playwright-core";

const ANSWER_MS = 30_000;
const FLAGS = [
  "--no-proxy-server",
  "--disable-gpu",
  "--disable-dev-shm-usage",
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

export interface OpenPage extends AsyncDisposable {
  readonly page: Page;
  /** What the page's scripts threw, and what the browser refused to do for it; answers of the platform are not among it. */
  readonly complaints: readonly string[];
}

export async function openPage(executablePath: string): Promise<OpenPage> {
  const home = mkdtempSync(join(tmpdir(), "chromium-"));
  const env = { PATH: process.env.PATH ?? "", HOME: home, TMPDIR: home };
  const browser = await chromium.launch({ executablePath, args: FLAGS, env, chromiumSandbox: false });
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  page.setDefaultTimeout(ANSWER_MS);
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (line) => {
    if (line.type() === "error" && !line.text().startsWith("Failed to load resource")) complaints.push(line.text());
  });
  return {
    page,
    complaints,
    async [Symbol.asyncDispose]() {
      await browser.close();
      rmSync(home, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
