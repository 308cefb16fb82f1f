/** Every address of the API: mounted by the server, described by `/openapi.json`, enumerated by the access tests. */
import type { Route } from "./route.ts";
import { agentRoutes } from "./routes/agents.ts";
import { approvalRoutes } from "./routes/approvals.ts";
import { conversationRoutes } from "./routes/conversations.ts";
import { eventRoutes } from "./routes/events.ts";
import { holdRoutes } from "./routes/holds.ts";
import { messageRoutes } from "./routes/messages.ts";
import { operatorRoutes } from "./routes/operators.ts";
import { platformRoutes } from "./routes/platform.ts";
import { policyRoutes } from "./routes/policies.ts";
import { toolRoutes } from "./routes/tools.ts";
import { runRoutes } from "./routes/runs.ts";
import { stopRoutes } from "./routes/stops.ts";
import { toolCallRoutes } from "./routes/tool-calls.ts";
import { webhookRoutes } from "./routes/webhooks.ts";
import type { ApiServices } from "./services.ts";

export function apiRoutes(services: ApiServices): readonly Route[] {
  return [
    ...platformRoutes(services),
    ...agentRoutes(services),
    ...conversationRoutes(services),
    ...messageRoutes(services),
    ...eventRoutes(services),
    ...runRoutes(services),
    ...approvalRoutes(services),
    ...toolCallRoutes(services),
    ...holdRoutes(services),
    ...operatorRoutes(services),
    ...stopRoutes(services),
    ...webhookRoutes(services),
    ...policyRoutes(services),
    ...toolRoutes(services),
  ];
}
