/**
 * The system's Chromium as a person's hands and eyes, over its debugging protocol: real clicks and keys, and what stands
 * on the page. One tab, one profile that goes with it.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { until } from "../setup/until.ts";

const START_MS = 60_000;
const ANSWER_MS = 30_000;
const END_MS = 10_000;

/** Nothing of it may leave this machine, and nothing may be shown. */
const FLAGS = [
  "--headless=new",
  "--remote-debugging-port=0",
  "--remote-allow-origins=*",
  "--no-sandbox",
  "--no-first-run",
  "--no-proxy-server",
  "--disable-gpu",
  "--disable-dev-shm-usage",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-extensions",
  "--disable-sync",
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

interface Answer {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly message: string };
}

export class Tab implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #profile: string;
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  readonly #complaints: string[] = [];
  #session = "";
  #lastId = 0;

  private constructor(parts: { readonly child: ChildProcess; readonly profile: string; readonly socket: WebSocket }) {
    this.#child = parts.child;
    this.#profile = parts.profile;
    this.#socket = parts.socket;
    this.#socket.addEventListener("message", ({ data }) => this.#hear(JSON.parse(String(data)) as Answer));
  }

  static async open(chromium: string): Promise<Tab> {
    const profile = mkdtempSync(join(tmpdir(), "chromium-"));
    const child = spawn(chromium, [...FLAGS, `--user-data-dir=${profile}`, "about:blank"], {
      stdio: ["ignore", "ignore", "pipe"],
      env: { PATH: process.env.PATH ?? "", HOME: profile, TMPDIR: profile },
    });
    const socket = new WebSocket(await debuggerOf(child));
    await once(socket, "open", { signal: AbortSignal.timeout(START_MS) });
    const tab = new Tab({ child, profile, socket });
    const { targetId } = await tab.#ask("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await tab.#ask("Target.attachToTarget", { targetId, flatten: true });
    tab.#session = String(sessionId);
    for (const domain of ["Page", "Runtime", "Log"]) await tab.#ask(`${domain}.enable`);
    return tab;
  }

  /** What the page's scripts threw and what the browser refused to do for it; answers of the platform are not among it. */
  get complaints(): readonly string[] {
    return this.#complaints;
  }

  async goto(url: string): Promise<void> {
    await this.#ask("Page.navigate", { url });
    await this.#loaded();
  }

  async reload(): Promise<void> {
    // Gone with the page, so that the new one cannot be taken for the old.
    await this.read("window.old = true");
    await this.#ask("Page.reload");
    await until("the new page", () => this.read("window.old !== true").catch(() => false), ANSWER_MS);
    await this.#loaded();
  }

  /** Value of an expression in the page. */
  async read<Value>(expression: string): Promise<Value> {
    const told = await this.#ask("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (told["exceptionDetails"] !== undefined) throw new Error(`${expression}: ${JSON.stringify(told)}`);
    // Whoever asks knows what the expression is.
    return (told["result"] as { readonly value: Value }).value;
  }

  /** Text that a person sees there; empty where there is nothing to see. */
  text(selector: string): Promise<string> {
    return this.read<string>(
      `[...document.querySelectorAll(${JSON.stringify(selector)})].map((each) => each.innerText).join("\\n")`,
    );
  }

  async untilText(selector: string, expected: RegExp, boundMs: number = ANSWER_MS): Promise<string> {
    let seen = "";
    try {
      return await until(
        `${String(expected)} in ${selector}`,
        async () => expected.test((seen = await this.text(selector))) && seen,
        boundMs,
      );
    } catch (thrown) {
      throw new Error(`${selector} says ${JSON.stringify(seen.slice(-400))}`, { cause: thrown });
    }
  }

  /** With the mouse, in its middle, where a person could do it. */
  async click(selector: string): Promise<void> {
    const { x, y } = await until(
      `${selector} to be there for a click`,
      () =>
        this.read<{ readonly x: number; readonly y: number } | null>(`(() => {
          const it = document.querySelector(${JSON.stringify(selector)});
          if (it === null || it.disabled || !it.checkVisibility()) return null;
          it.scrollIntoView({ block: "nearest" });
          const { left, top, width, height } = it.getBoundingClientRect();
          const at = { x: left + width / 2, y: top + height / 2 };
          return it.contains(document.elementFromPoint(at.x, at.y)) ? at : null;
        })()`),
      ANSWER_MS,
    );
    const mouse = { x, y, button: "left", clickCount: 1 };
    await this.#ask("Input.dispatchMouseEvent", { ...mouse, type: "mousePressed" });
    await this.#ask("Input.dispatchMouseEvent", { ...mouse, type: "mouseReleased" });
  }

  /** Into what has the focus. */
  async type(text: string): Promise<void> {
    await this.#ask("Input.insertText", { text });
  }

  async enter(): Promise<void> {
    const key = { key: "Enter", code: "Enter", windowsVirtualKeyCode: 13, text: "\r" };
    await this.#ask("Input.dispatchKeyEvent", { ...key, type: "keyDown" });
    await this.#ask("Input.dispatchKeyEvent", { ...key, type: "keyUp" });
  }

  /** As the list itself would tell of a choice. */
  async choose(selector: string, value: string): Promise<void> {
    const it = `document.querySelector(${JSON.stringify(selector)})`;
    await this.read(
      `${it}.value = ${JSON.stringify(value)}; ${it}.dispatchEvent(new Event("change", { bubbles: true }))`,
    );
  }

  async resize(width: number, height: number): Promise<void> {
    const size = { width, height, deviceScaleFactor: 1, mobile: false };
    await this.#ask("Emulation.setDeviceMetricsOverride", size);
  }

  /** PNG. */
  async picture(): Promise<Buffer> {
    const { data } = await this.#ask("Page.captureScreenshot", { format: "png" });
    return Buffer.from(String(data), "base64");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, "exit", { signal: AbortSignal.timeout(END_MS) });
    await this.#ask("Browser.close").catch(() => undefined);
    await ended.catch(() => this.#child.kill("SIGKILL"));
    this.#socket.close();
    rmSync(this.#profile, { recursive: true, force: true, maxRetries: 5 });
  }

  #loaded(): Promise<boolean> {
    return until("the page", () => this.read<boolean>(`document.readyState === "complete"`), ANSWER_MS);
  }

  async #ask(method: string, params: object = {}): Promise<Readonly<Record<string, unknown>>> {
    const id = (this.#lastId += 1);
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    this.#waiting.set(id, resolve);
    const late = setTimeout(() => reject(new Error(`Chromium did not answer ${method}`)), ANSWER_MS);
    const session = this.#session === "" ? {} : { sessionId: this.#session };
    this.#socket.send(JSON.stringify({ id, method, params, ...session }));
    try {
      const { error, result } = await promise;
      if (error !== undefined) throw new Error(`${method}: ${error.message}`);
      return result ?? {};
    } finally {
      clearTimeout(late);
      this.#waiting.delete(id);
    }
  }

  #hear(answer: Answer): void {
    const { id, method, params } = answer;
    if (id !== undefined) this.#waiting.get(id)?.(answer);
    else if (method === "Runtime.exceptionThrown") this.#complaints.push(JSON.stringify(params));
    else if (method === "Log.entryAdded") {
      // An entry of the browser's log, as its protocol says.
      const entry = params?.["entry"] as Readonly<Record<string, string>> | undefined;
      if (entry?.["level"] === "error" && entry["source"] !== "network") this.#complaints.push(JSON.stringify(entry));
    }
  }
}

/** Chromium says on its error output where it can be spoken to. */
async function debuggerOf(child: ChildProcess): Promise<string> {
  if (child.stderr === null) throw new Error("Chromium has no error output");
  const lines = createInterface({ input: child.stderr });
  const said: string[] = [];
  try {
    for await (const line of lines) {
      const address = /^DevTools listening on (ws:\S+)/.exec(line)?.[1];
      if (address !== undefined) return address;
      said.push(line);
    }
  } finally {
    child.stderr.resume();
  }
  throw new Error(`Chromium ended before it could be spoken to:\n${said.join("\n")}`);
}
