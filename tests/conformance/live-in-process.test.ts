import { LiveBus } from "../../packages/server/src/channels/live/live-bus.ts";
import { liveConformance } from "./live/suite.ts";

liveConformance(
  "inside one process",
  async () => {
    const bus = new LiveBus();
    return {
      near: bus,
      far: bus,
      interrupt: async () => undefined,
      [Symbol.asyncDispose]: async () => bus.close(),
    };
  },
  { losesBells: false },
);
