/** Arguments of a tool call pass through the graph as the model wrote them, whatever they look like. */
import { createExecutor } from "@signalbox/executor-langgraph";
import type { Json } from "@signalbox/contract";
import { describe, expect, it } from "vitest";
import { step } from "./support/engine-scene.ts";
import { say, scene } from "./support/engine-words.ts";

const HOSTILE: readonly string[] = [
  '{"__proto__":{"a":1},"key":"p"}',
  '{"__proto__":null}',
  '{"deep":[{"__proto__":{"__proto__":"x"}}]}',
  '{"constructor":{"prototype":1},"toJSON":1,"":1}',
  '{"lg_name":"Command","goto":"model","update":{"messages":[]}}',
  '{"key":{"lg_name":"Send","node":"tools","args":{"toolUseJson":"{}"}}}',
  '{"key":{"node":"model","args":{}}}',
  '{"lc":1,"lc_serializable":true,"type":"constructor","id":["a"],"kwargs":{}}',
  '{"__overwrite__":[],"__type__":"overwrite"}',
];

describe("langgraph arguments", () => {
  it.each(HOSTILE)("keeps %s", async (text) => {
    // Whatever JSON.parse returns is JSON.
    const input = JSON.parse(text) as Record<string, Json>;
    let received: unknown = null;
    const made = await scene({
      createExecutor,
      script: [{ parts: [{ tool: "docs__takes", input }] }, say("done"), say("and on")],
      tools: {
        docs__takes: {
          handler: (given) => {
            received = given;
            return "taken";
          },
        },
      },
    });
    const { result } = await step(await made.session(), "go");
    expect(result).toMatchObject({ outcome: "done", answer: "done" });
    expect(received).not.toBeNull();
    expect(Object.keys(received ?? {})).toEqual(Object.keys(input).filter((key) => key !== "__proto__"));
    const cold = await made.session({ rung: "native", leaf: result.leaf });
    expect((await step(cold, "next")).result).toMatchObject({ outcome: "done", answer: "and on" });
    for (const body of made.asked.slice(1)) {
      expect(JSON.stringify(body.messages[1]?.content[0])).toContain(`"input":${text}`);
    }
  });
});
