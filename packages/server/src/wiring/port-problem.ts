/** Why a port cannot be listened on, as whoever chose it understands it. */
import { PlatformError } from "@signalbox/contract";

export function portProblem(thrown: unknown, port: number): unknown {
  const code = thrown instanceof Error && "code" in thrown ? thrown.code : null;
  if (code === "EADDRINUSE") {
    return new PlatformError("invalid_request", `Port ${port} is in use. Choose another with --port or --gates-port.`, {
      cause: thrown,
    });
  }
  if (code === "EACCES") {
    return new PlatformError("invalid_request", `Port ${port} needs more rights. Choose one above 1023 with --port.`, {
      cause: thrown,
    });
  }
  return thrown;
}
