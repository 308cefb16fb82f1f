import { expect, it } from "vitest";
import { EndingStack } from "./ending-stack.ts";

function openedIn(stack: EndingStack, name: string, ended: string[]): void {
  stack.use({
    async [Symbol.asyncDispose]() {
      await Promise.resolve();
      ended.push(name);
    },
  });
}

it("ends what was opened in reverse, once", async () => {
  const ended: string[] = [];
  const stack = new EndingStack();
  openedIn(stack, "database", ended);
  stack.use({ [Symbol.dispose]: () => ended.push("pool") });
  stack.defer(() => ended.push("bell"));
  openedIn(stack, "server", ended);
  await stack[Symbol.asyncDispose]();
  await stack[Symbol.asyncDispose]();
  expect(ended).toEqual(["server", "bell", "pool", "database"]);
});

it("goes on after a failure, and tells the first", async () => {
  const ended: string[] = [];
  const stack = new EndingStack();
  openedIn(stack, "database", ended);
  stack.defer(() => Promise.reject(new Error("second")));
  stack.defer(() => {
    throw new Error("first");
  });
  await expect(stack[Symbol.asyncDispose]()).rejects.toThrow("first");
  expect(ended).toEqual(["database"]);
});

it("leaves nothing to end once it was moved: a start that succeeded", async () => {
  const ended: string[] = [];
  let running: EndingStack;
  {
    await using starting = new EndingStack();
    openedIn(starting, "database", ended);
    running = starting.move();
  }
  expect(ended).toEqual([]);
  await running[Symbol.asyncDispose]();
  expect(ended).toEqual(["database"]);
});
