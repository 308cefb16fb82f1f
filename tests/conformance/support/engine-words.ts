/** Scenes of one test file, and the words their scripts are written in. */
import type { SnapshotTool } from "@signalbox/contract";
import type { ScriptedAnswer } from "@signalbox/testkit";
import { afterEach } from "vitest";
import { EngineScene, type EngineSceneOptions } from "./engine-scene.ts";

const scenes: EngineScene[] = [];
afterEach(async () => {
  for (const scene of scenes.splice(0)) {
    await scene[Symbol.asyncDispose]();
  }
});

/** A scene that is put away after the test. */
export async function scene(options: EngineSceneOptions): Promise<EngineScene> {
  const made = await EngineScene.open(options);
  scenes.push(made);
  return made;
}

export function tool(name: string): SnapshotTool {
  return {
    name,
    server: name.split("__")[0] ?? "",
    tool: name.split("__")[1] ?? "",
    title: name,
    description: `What ${name} does.`,
    effect: "read",
    definitionHash: "0".repeat(64),
    inputSchema: { type: "object" },
  };
}

export const ECHO = tool("docs__echo");
export const TOOLS = {
  docs__echo: { handler: (input: Readonly<Record<string, unknown>>) => `echo ${String(input.text)}` },
  docs__silent: { result: { content: [] } },
  docs__fails: { fails: "the file is not there" },
};

export const say = (text: string): ScriptedAnswer => ({ parts: [{ text }] });
export const call = (name: string, input: Record<string, string> = {}, before = ""): ScriptedAnswer => ({
  parts: [...(before === "" ? [] : [{ text: before }]), { tool: name, input }],
});
