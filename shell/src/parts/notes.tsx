/** The three states that each panel has besides its data: loading, an error, nothing there. */
import { Component, type ReactNode, useEffect, useState } from "react";
import { ApiError, sentence } from "../sdk/client";
import { Prose } from "./prose";

const PATIENCE_MS = 200;

/** Shows nothing for a moment, then that something is loading. */
export function Loading({ label }: { label: string }) {
  const [slow, setSlow] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, []);
  return slow ? (
    <div className="skeleton" role="status">
      {label} …
      <div className="bones" aria-hidden="true">
        <i />
        <i />
        <i />
      </div>
    </div>
  ) : null;
}

interface ErrorNoteProps {
  title?: string;
  message: string;
  onRetry?: () => void;
}

export function ErrorNote({ title, message, onRetry }: ErrorNoteProps) {
  return (
    <div role="alert" className="problem">
      {title !== undefined && <strong>{title} </strong>}
      <span dir="auto">
        <Prose text={message} />
      </span>
      {onRetry !== undefined && (
        <button type="button" onClick={() => onRetry()}>
          Try again
        </button>
      )}
    </div>
  );
}

/** What to do after an error with this status, where trying again alone does not help. */
const NEXT_STEPS: Record<number, string> = {
  0: "The page reads again by itself when the server answers.",
  401: "Load the page again to log in.",
  403: "Ask for a token with another role: `demiurge tokens add NAME --role ROLE`.",
  404: "Check the address, or go back to the list.",
  500: "Run `demiurge journal verify` on the server's machine.",
};

interface ProblemProps {
  error: unknown;
  onRetry?: () => void;
  /** When the data that are still shown were read. */
  readAt?: number;
}

/** An error with its code, its sentence, what to do, and how old the data are that stay on the screen. */
export function Problem({ error, onRetry, readAt }: ProblemProps) {
  const next = error instanceof ApiError ? NEXT_STEPS[error.status] : undefined;
  return (
    <div role="alert" className="problem">
      {error instanceof ApiError && <code className="code">{error.code}</code>} <span dir="auto">
        <Prose text={sentence(error)} />
      </span>{" "}
      {next !== undefined && <Prose text={next} />}
      {onRetry !== undefined && (
        <button type="button" onClick={() => onRetry()}>
          Try again
        </button>
      )}
      {readAt !== undefined && (
        <p>
          What is shown was read at{" "}
          <time dateTime={new Date(readAt).toISOString()}>{new Date(readAt).toLocaleTimeString()}</time>, and may be old.
        </p>
      )}
    </div>
  );
}

export function Empty({ children }: { children: ReactNode }) {
  return <p className="empty">{typeof children === "string" ? <Prose text={children} /> : children}</p>;
}

/** Keeps a failure of one panel from taking the whole page away. */
export class ErrorBoundary extends Component<{ children: ReactNode }, { problem: string | null }> {
  state = { problem: null };

  static getDerivedStateFromError(error: unknown) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }

  render() {
    if (this.state.problem === null) return this.props.children;
    return (
      <main className="alone">
        <ErrorNote
          title="This panel failed."
          message={this.state.problem}
          onRetry={() => this.setState({ problem: null })}
        />
      </main>
    );
  }
}
