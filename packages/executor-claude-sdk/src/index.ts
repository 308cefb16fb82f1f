export { createExecutor } from "./executor.ts";
