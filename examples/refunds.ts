/**
 * A product that runs its agent inside its own program. `node examples/refunds.ts` answers one message and ends; the model
 * is named by SIGNALBOX_MODEL and reached as ANTHROPIC_API_KEY, OLLAMA_HOST or SIGNALBOX_SIM_URL say.
 */
import process from "node:process";
import { defineTool, open } from "signalbox";
import { z } from "zod";

const refund = defineTool({
  name: "refund_order",
  description: "Pays an order back to its customer.",
  effect: "irreversible",
  approve: "always",
  input: z.object({ orderId: z.string(), cents: z.int().positive() }),
  // Whoever pays is handed the key, which is the same on every retry, and the signal of a run that is cancelled.
  run: ({ orderId, cents }, { idempotencyKey, signal }) => {
    signal.throwIfAborted();
    return { refunded: cents, orderId, reference: idempotencyKey.slice(0, 8) };
  },
});

await using platform = await open({
  tools: [refund],
  agents: {
    support: {
      model: process.env.SIGNALBOX_MODEL ?? "anthropic/claude-sonnet-5",
      instructions: "Help with orders.",
      tools: ["refund_order"],
    },
  },
});
const { client } = platform;
const conversation = await client.conversations.create({ agent: "support" });
const run = await conversation.send(process.argv[2] ?? "Refund order 7, 250 cents.");
for await (const event of run.events()) {
  if (event.type === "text.delta") process.stdout.write(event.text);
  // A person would be asked here; until then the run needs neither process nor worker.
  if (event.type === "hold.opened") {
    const { holdId, digest, subject } = event;
    process.stdout.write(`asked: ${JSON.stringify(subject)}\n`);
    await client.holds.decide(holdId, { decision: "approve", ...(digest === null ? {} : { digest }) });
  }
}
process.stdout.write(`\n${(await run.result()).outcome}\n`);
