/** Every bar that is measured, in the order of the design. A new one is a folder with a `bar.ts` and a line here. */
import type { Bar } from "./bar.ts";
import { admission } from "./admission/bar.ts";
import { deliveries } from "./deliveries/bar.ts";
import { firstToken } from "./p-1/bar.ts";
import { turns } from "./p-10/bar.ts";
import { start } from "./p-11/bar.ts";
import { throughput } from "./p-3/bar.ts";
import { streaming } from "./p-4/bar.ts";
import { takeover } from "./p-5/bar.ts";
import { toolGateCost } from "./p-6/bar.ts";
import { modelGateCost } from "./p-7/bar.ts";
import { parked } from "./p-9/bar.ts";

export const BARS: readonly Bar[] = [
  firstToken,
  throughput,
  streaming,
  takeover,
  toolGateCost,
  modelGateCost,
  parked,
  turns,
  start,
  admission,
  deliveries,
];
