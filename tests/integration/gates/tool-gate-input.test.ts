/** A tool that asks for input in the middle of a run's call: nobody can give it, and the model reads so by name. */
import { startEverythingServer } from "@signalbox/testkit";
import { expect, it } from "vitest";
import { callTool, propose, startToolFixture, textOf } from "./tool-fixture.ts";

it("ends the call by name, and says so again to whoever asks again", async () => {
  await using everything = await startEverythingServer();
  const tool = "test_input_required_result_elicitation";
  const tools = { [tool]: { effect: "read" } } as const;
  await using fixture = await startToolFixture({
    servers: { all: { transport: "http", url: everything.url, headers: {}, tools } },
  });
  const call = { id: "toolu_1", name: `all__${tool}`, input: {} };
  await propose(fixture.record, call);
  const answer = await callTool(fixture.url, call);
  expect(answer.message.result).toMatchObject({ isError: true });
  expect(textOf(answer)).toContain("(tool_input_required)");
  expect(fixture.record.toolSettlements).toMatchObject([{ state: "failed", errorCode: "tool_input_required" }]);
});
