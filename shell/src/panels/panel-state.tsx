/** The states of a panel around its data: loading, an error with what to do, and nothing there. */
import type { ReactNode } from "react";
import type { Live } from "../live/use-live";
import { Empty, Loading, Problem } from "../parts/notes";

interface PanelStateProps<T> {
  live: Live<T>;
  loading: string;
  empty: string;
  isEmpty: (data: T) => boolean;
  children: (data: T) => ReactNode;
}

/** Shows what was read. After an error the data that were read before stay, with their date. */
export function PanelState<T>({ live, loading, empty, isEmpty, children }: PanelStateProps<T>) {
  return (
    <>
      {live.error !== undefined && <Problem error={live.error} onRetry={live.reload} readAt={live.readAt} />}
      {live.loading && <Loading label={loading} />}
      {live.data !== undefined && (isEmpty(live.data) ? <Empty>{empty}</Empty> : children(live.data))}
    </>
  );
}

/** The time of a record: nanoseconds since 1970. */
export function Moment({ ns }: { ns: number }) {
  const date = new Date(ns / 1e6);
  return <time dateTime={date.toISOString()}>{date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" })}</time>;
}
