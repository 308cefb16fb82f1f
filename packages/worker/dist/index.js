export { systemClock } from "./clock.js";
export { GateConnections } from "./gate-clients/gate-connections.js";
export { ModelClient } from "./gate-clients/model-client.js";
export { ToolClient, } from "./gate-clients/tool-client.js";
export { MESSAGE_BYTES_MAX } from "./limits.js";
export { lineLog } from "./log.js";
export { createTranscriptLog } from "./record-client.js";
export { fromConnectError, toConnectError } from "./rpc-errors.js";
export { runWorkerProcess } from "./worker-process.js";
export { startWorker, workerRoutes } from "./worker.js";
//# sourceMappingURL=index.js.map