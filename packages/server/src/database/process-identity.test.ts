import { describe, expect, it } from "vitest";
import { identify, identifySelf, judge, parseIdentity } from "./process-identity.ts";

describe("a process's name", () => {
  it("is the same whenever it is asked for, and survives being written down", async () => {
    const self = await identifySelf();
    expect(await identify(process.pid)).toEqual(self);
    expect(parseIdentity(JSON.parse(JSON.stringify(self)))).toEqual(self);
    expect(await judge(self)).toBe("alive");
  });

  it("is not that of a later process with the same pid", async () => {
    const self = await identifySelf();
    expect(await judge({ ...self, startedAt: `${self.startedAt}0` })).toBe("dead");
  });

  it("of nobody is nothing", async () => {
    expect(await identify(2 ** 22 + 1)).toBeNull();
  });

  it.runIf(process.platform === "linux")("means nothing in another container or on another machine", async () => {
    const self = await identifySelf();
    expect(await judge({ ...self, pidNamespace: "pid:[1]" })).toBe("elsewhere");
    expect(await judge({ ...self, boot: "x", machine: "another" })).toBe("elsewhere");
    // The same machine has started again: nothing of before is alive.
    expect(await judge({ ...self, boot: "x" })).toBe("dead");
  });

  it.each([null, 1, {}, { pid: "1" }, { pid: 1.5 }, { pid: 0 }, { pid: 1, startedAt: 1 }])(
    "is not read from %j",
    (value) => {
      expect(parseIdentity(value)).toBeNull();
    },
  );
});
