export { startSim } from "./sim/server.ts";
