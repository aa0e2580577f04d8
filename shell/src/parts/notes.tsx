/** The three states that each panel has besides its data: loading, an error, nothing there. */
import { Component, type ReactNode, useEffect, useState } from "react";

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
      <span dir="auto">{message}</span>
      {onRetry !== undefined && (
        <button type="button" onClick={() => onRetry()}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Empty({ children }: { children: ReactNode }) {
  return <p className="empty">{children}</p>;
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
