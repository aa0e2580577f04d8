// A chat on assistant-ui's own runtime for the data-stream protocol, driven by tests through `window.client`, and the
// decoder of npm `assistant-stream` by itself. `window.settings` is `{headers, body}` of each request.
import { createElement } from "react";
import { createRoot } from "react-dom/client";
import { AssistantRuntimeProvider } from "@assistant-ui/react";
import { useDataStreamRuntime } from "@assistant-ui/react-data-stream";
import { AssistantMessageAccumulator, DataStreamDecoder } from "assistant-stream";

const warnings = [];
for (const level of ["warn", "error"]) {
  console[level] = (...said) => warnings.push(said.map(String).join(" "));
}
const errors = [];

function Chat() {
  const runtime = useDataStreamRuntime({
    api: "/api/ai/chat",
    headers: () => window.settings.headers,
    body: () => window.settings.body,
    onError: (error) => errors.push(error.message),
  });
  window.client = {
    say: (text) => runtime.thread.append({ role: "user", content: [{ type: "text", text }] }),
    running: () => runtime.thread.getState().isRunning,
    messages: () => JSON.parse(JSON.stringify(runtime.thread.getState().messages)),
    problems: () => ({ warnings, errors }),
  };
  return createElement(AssistantRuntimeProvider, { runtime }, null);
}

// Reads a body that arrives in pieces of `size` bytes; returns the message that the decoder makes of it.
window.decode = async (text, size) => {
  const bytes = new TextEncoder().encode(text);
  const pieces = new ReadableStream({
    start(controller) {
      for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
      controller.close();
    },
  });
  const messages = pieces.pipeThrough(new DataStreamDecoder()).pipeThrough(new AssistantMessageAccumulator());
  let last = null;
  for (const reader = messages.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return { message: JSON.parse(JSON.stringify(last)), warnings };
    last = value;
  }
};

createRoot(document.body.appendChild(document.createElement("div"))).render(createElement(Chat));
