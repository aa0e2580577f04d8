/** The panels of the shell. Each is loaded when it is first opened. To add one, add an entry. */
import { type ComponentType, lazy } from "react";
import { ChatPanel } from "./features/demiurge/chat-panel";

export interface Panel {
  /** The first part of the path: `/approvals`, `/approvals/anything`. */
  path: string;
  label: string;
  component: ComponentType;
  /** The heading that the navigation shows before it. */
  section?: string;
  /** The number that the navigation shows beside the label, such as of calls that wait. */
  badge?: "approvals" | "proposals";
}

export const PANELS: Panel[] = [
  { path: "/chats", label: "Chats", component: ChatPanel },
  {
    path: "/approvals",
    label: "Approvals",
    badge: "approvals",
    component: lazy(() => import("./features/demiurge/approvals-panel")),
  },
  { path: "/journal", label: "Journal", component: lazy(() => import("./panels/journal-panel")) },
  { path: "/trace", label: "Trace", component: lazy(() => import("./panels/trace-panel")) },
  { path: "/tools", label: "Tools", component: lazy(() => import("./panels/tools-panel")) },
  { path: "/mcp-servers", label: "MCP servers", component: lazy(() => import("./panels/mcp/mcp-panel")) },
  { path: "/workspaces", label: "Workspaces", component: lazy(() => import("./panels/workspaces-panel")) },
  { path: "/manifest", label: "Manifest", component: lazy(() => import("./panels/manifest-panel")) },
  { path: "/cost", label: "Cost", component: lazy(() => import("./panels/cost-panel")) },
  {
    path: "/prompt-tools",
    label: "Prompt Tools",
    section: "Settings",
    badge: "proposals",
    component: lazy(() => import("./panels/prompt-tools/prompt-tools-panel")),
  },
];
